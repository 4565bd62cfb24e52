"""Read the segments of one partition to `LogEntry` and `LogProblem` values.

Every record of every log passes through here, so the common case (an intact batch of magic 2) is
written out in one function. Other batches go through `quorate.codecs.batches`, which also reports
problems. Which files exist is not decided here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import google_crc32c

from quorate.codecs.batches.compression import DecompressionError, TooLargeError
from quorate.codecs.batches.control import control_record
from quorate.codecs.batches.frames import Frame, frames
from quorate.codecs.batches.model import COMPRESSIONS, BatchProblem, TimestampType
from quorate.codecs.batches.reader import Batch, check, header_at, payload, problem_of
from quorate.codecs.batches.v2 import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BadRecordsError,
    check_count,
    check_end,
    compression_of,
    long_sum,
    read_record,
)
from quorate.codecs.log.files import PartitionFiles, Segment
from quorate.codecs.log.model import LogEntry, LogProblem
from quorate.codecs.log.transactions import Transactions, scan
from quorate.codecs.message_methods import positional
from quorate.codecs.records import decode_record

_LAST: Final = (1 << 63) - 1
_FIRST: Final = -(1 << 63)
_NO_END: Final = 1 << 63  # ends are exclusive, and a record may have the largest int64 as offset or time
_entry: Final = positional(
    LogEntry,
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "timestamp_type",
    "producer_id",
    "producer_epoch",
    "sequence",
    "transactional",
    "partition_leader_epoch",
    "headers",
    "key_bytes",
    "value_bytes",
    "record",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The parts of a partition to read; `quorate.codecs.log.read_log` explains the fields."""

    read_committed: bool
    control_records: bool
    start_offset: int | None
    end_offset: int | None
    since_ms: int | None
    until_ms: int | None
    skip_corrupt: bool
    max_batch_bytes: int


class PartitionReader:
    """One pass over the segments of a partition; two for read-committed."""

    def __init__(self, files: PartitionFiles, selection: Selection) -> None:
        self.files = files
        self.selection = selection
        self.start = _FIRST if selection.start_offset is None else selection.start_offset
        self.end = _NO_END if selection.end_offset is None else selection.end_offset
        self.since = _FIRST if selection.since_ms is None else selection.since_ms
        self.until = _NO_END if selection.until_ms is None else selection.until_ms
        self.bounded = (self.start, self.end, self.since, self.until) != (_FIRST, _NO_END, _FIRST, _NO_END)
        self.next_offset = 0
        self.complete = False  # the end offset was reached

    def entries(self) -> Iterator[LogEntry | LogProblem]:
        """Yield the selected entries in the order of the log."""
        yield from self.files.problems
        transactions = self.transactions() if self.selection.read_committed else Transactions()
        segments = self.files.segments
        for index, segment in enumerate(segments):
            if index + 1 < len(segments) and segments[index + 1].base_offset <= self.start:
                continue
            try:
                with segment.path.open("rb") as file:
                    yield from self._segment(file, segment, transactions)
            except OSError as error:
                yield self.files.unreadable(segment, error)
            if self.complete:
                return

    def transactions(self) -> Transactions:
        """Return the outcome of every transaction, by one pass over the batch headers."""
        return scan(self._all_frames(), self.selection.max_batch_bytes)

    def _all_frames(self) -> Iterator[Frame | BatchProblem]:
        for segment in self.files.segments:
            try:
                with segment.path.open("rb") as file:
                    yield from frames(
                        file,
                        segment.size_bytes,
                        max_batch_bytes=self.selection.max_batch_bytes,
                        resynchronise=self.selection.skip_corrupt,
                    )
            except OSError:
                continue  # reported when its records are read

    def _segment(self, file: BinaryIO, segment: Segment, transactions: Transactions) -> Iterator[LogEntry | LogProblem]:
        limit = self.selection.max_batch_bytes
        topic, partition = self.files.topic, self.files.partition
        bounded, first, last, since, until = self.bounded, self.start, self.end, self.since, self.until
        aborted = transactions.is_aborted
        stable = _NO_END if transactions.last_stable_offset is None else transactions.last_stable_offset
        earliest, latest = _FIRST, _LAST
        control_wanted = self.selection.control_records
        next_offset = self.next_offset
        unpack, crc32c, read, decode = HEADER.unpack_from, google_crc32c.value, read_record, decode_record
        create_time, append_time = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
        skip_corrupt = self.selection.skip_corrupt
        for frame in frames(file, segment.size_bytes, max_batch_bytes=limit, resynchronise=skip_corrupt):
            if isinstance(frame, BatchProblem):
                yield self.files.problem(segment, frame)
                continue
            buffer, start, end, position = frame
            intact = False
            if buffer[start + 16] == 2 and end - start >= HEADER_BYTES:
                (
                    base_offset,
                    _,
                    leader_epoch,
                    _,
                    crc,
                    attributes,
                    last_offset_delta,
                    base_timestamp,
                    max_timestamp,
                    producer_id,
                    producer_epoch,
                    base_sequence,
                    count,
                ) = unpack(buffer, start)
                intact = crc32c(buffer[start + CRC_START : end]) == crc and base_offset >= 0
            if not intact:
                problem = check(buffer, start, end, position)
                if problem is None:
                    yield from self._legacy(segment, frame, stable)
                    next_offset = self.next_offset
                    if self.complete:
                        return
                    continue
                yield self.files.problem(segment, problem)
                if not skip_corrupt:
                    return
                continue

            if base_offset < next_offset:
                yield self.files.out_of_order(segment, position, end - start, base_offset, next_offset)
            self.next_offset = next_offset = base_offset + last_offset_delta + 1
            if bounded:
                if next_offset <= first or max_timestamp < since:
                    continue
                if base_offset >= last:
                    self.complete = True
                    return
            if base_offset >= stable:
                continue
            control = transactional = appended = False
            timestamp_type = create_time
            if attributes:  # most batches have none
                control = attributes & CONTROL != 0
                transactional = attributes & TRANSACTIONAL != 0
                appended = attributes & LOG_APPEND_TIME != 0
                timestamp_type = append_time if appended else create_time
                if control:
                    if not control_wanted:
                        continue
                elif transactional and aborted(producer_id, base_offset):
                    continue

            try:
                if attributes & COMPRESSION_MASK:
                    buffer, start, end = payload(buffer, start, end, compression_of(attributes), count, limit)
                else:
                    start += HEADER_BYTES
                for _ in range(check_count(count)):
                    start, timestamp_delta, offset_delta, key, value, headers = read(buffer, start, end)
                    timestamp = max_timestamp if appended else base_timestamp + timestamp_delta
                    if timestamp > latest or timestamp < earliest:
                        timestamp = long_sum(base_timestamp, timestamp_delta)
                    offset = base_offset + offset_delta
                    if offset > latest:
                        offset = long_sum(base_offset, offset_delta)
                    if bounded and not (first <= offset < last and since <= timestamp < until):
                        continue
                    yield _entry(
                        topic,
                        partition,
                        offset,
                        timestamp,
                        timestamp_type,
                        producer_id,
                        producer_epoch,
                        # Sequence numbers wrap to 0 after 2³¹ - 1.
                        -1 if base_sequence < 0 else (base_sequence + offset_delta) & 0x7FFFFFFF,
                        transactional,
                        leader_epoch,
                        headers,
                        key,
                        value,
                        control_record(key, value) if control else decode(key, value, topic=topic),
                    )
                check_end(start, end, count)
            except (BadRecordsError, DecompressionError, TooLargeError) as error:
                buffer, start, end, position = frame
                header = header_at(buffer, start, position, True)
                yield self.files.problem(segment, problem_of(error, position, end - start, header))

    def _legacy(self, segment: Segment, frame: Frame, stable: int) -> Iterator[LogEntry | LogProblem]:
        """Yield the entries of an intact frame of magic 0 or 1."""
        buffer, start, end, position = frame
        header = header_at(buffer, start, position, True)
        compressed = header.compression != COMPRESSIONS[0]
        if header.base_offset < self.next_offset:
            yield self.files.out_of_order(segment, position, end - start, header.base_offset, self.next_offset)
        self.next_offset = header.base_offset + 1
        if header.base_offset >= self.end and not compressed:
            self.complete = True
            return
        for record in Batch(header, buffer[start:end], self.selection.max_batch_bytes).records():
            if isinstance(record, BatchProblem):
                yield self.files.problem(segment, record)
                return
            if record.offset >= stable or not self.start <= record.offset < self.end:
                continue
            if not self.since <= record.timestamp_ms < self.until:
                continue
            yield LogEntry(
                topic=self.files.topic,
                partition=self.files.partition,
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                timestamp_type=header.timestamp_type,
                producer_id=-1,
                producer_epoch=-1,
                sequence=-1,
                transactional=False,
                partition_leader_epoch=-1,
                headers=(),
                key_bytes=record.key,
                value_bytes=record.value,
                record=decode_record(record.key, record.value, topic=self.files.topic),
            )

"""The records of a batch that a producer sent, checked as Kafka's `LogValidator` does, and the batch as the topic keeps it.

Every record is read: a count or a size that is wrong is found here, as is a key that compaction
needs. What a batch's header says by itself is checked before (`quorate.cluster.batch_validation`), and the
order of a producer's batches later, by the log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from quorate.cluster.batch_validation import repacked
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.batches.compression import DecompressionError, TooLargeError, compress
from quorate.codecs.batches.frames import MAX_BATCH_BYTES
from quorate.codecs.batches.model import COMPRESSIONS
from quorate.codecs.batches.reader import payload
from quorate.codecs.batches.v2 import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BadRecordsError,
    check_end,
    long_sum,
    read_record,
    skip_record,
)
from quorate.codecs.columnar.frame import Bools, Ints
from quorate.codecs.columnar.record_facts import RecordFacts, record_facts
from quorate.coordinator.log import AppendError

__all__ = ["InvalidRecords", "TopicPolicy", "validated"]

_NONE = COMPRESSIONS[0]
_ZSTD = "zstd"
_NAMES = {"uncompressed": _NONE}
"""What configs call a compression."""
_FEW = 64
"""So many records are read one by one faster than as columns."""
_NO_TIMESTAMP = -1
_TOLD = 3
_DESCRIBED = 1000
"""Of so many records the response says what is wrong. Kafka does so for all, and makes a hundred
megabytes out of a kilobyte.
"""


class InvalidRecords(AppendError):
    """Records that a topic does not take, each by itself.

    `records`: their places in the batch, and what is wrong, as the response has it.
    """

    def __init__(self, code: ErrorCode, message: str, records: Sequence[tuple[int, str | None]]) -> None:
        super().__init__(code, message)
        self.records = records


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """What a topic's configs say of records: `compression` as `compression.type`, times of `message.timestamp.*` in ms.

    `name`: of the partition, for messages.
    """

    name: str
    compression: str
    compacted: bool
    append_time: bool
    before_max_ms: int
    after_max_ms: int


@dataclass(slots=True)
class _Records:
    """What was read of a batch's records: first those that were read as columns, then those that were read one by one."""

    first: RecordFacts | None = None
    timestamp_deltas: list[int] = field(default_factory=list)
    offset_deltas: list[int] = field(default_factory=list)
    keyless: list[bool] = field(default_factory=list)

    def range_of_timestamps(self) -> tuple[int, int]:
        """The least and the greatest timestamp delta."""
        ends = [min(self.timestamp_deltas), max(self.timestamp_deltas)] if self.timestamp_deltas else []
        if self.first is not None and len(self.first):
            ends += [int(self.first.timestamp_delta.min()), int(self.first.timestamp_delta.max())]
        return min(ends), max(ends)

    def in_order(self) -> bool:
        """Whether offset deltas are 0, 1, 2 and so on."""
        done = 0 if self.first is None else len(self.first)
        if done and not np.array_equal(self.first.offset_delta, np.arange(done)):  # type: ignore[union-attr]
            return False
        return self.offset_deltas == list(range(done, done + len(self.offset_deltas)))

    def any_keyless(self) -> bool:
        return any(self.keyless) or (self.first is not None and bool(self.first.keyless.any()))

    def columns(self) -> tuple[Ints, Bools]:
        """Timestamp deltas, and which records have no key."""
        deltas, keyless = np.array(self.timestamp_deltas, dtype=np.int64), np.array(self.keyless, dtype=np.bool_)
        if self.first is None:
            return deltas, keyless
        return np.append(self.first.timestamp_delta, deltas), np.append(self.first.keyless, keyless)


def validated(batch: bytes, policy: TopicPolicy, now_ms: int, limit_bytes: int = MAX_BATCH_BYTES) -> tuple[bytes, int]:
    """The batch in the compression that the topic wants, and the latest timestamp of its records.

    Raises `AppendError`, and `TooLargeError` above a lower limit than usual.

    In the order of `LogValidator`: a batch that cannot be read is refused as a whole, and only then
    single records are (`InvalidRecords`, KIP-467). What a broker fails over is UNKNOWN_SERVER_ERROR
    here, too: bytes that do not decompress, and offsets out of order in a compressed batch that it
    would keep as it came.
    """
    _, _, _, _, _, attributes, _, base_ms, latest_ms, *producer, count = HEADER.unpack_from(batch)
    source = COMPRESSIONS[attributes & COMPRESSION_MASK]
    target = source if policy.compression == "producer" else _NAMES.get(policy.compression, policy.compression)
    nothing = source == _ZSTD and len(batch) == HEADER_BYTES  # which Java's reader takes for the end of the records
    try:
        body, start, end = payload(batch, 0, len(batch), _NONE if nothing else source, count, limit_bytes)
    except DecompressionError as error:
        raise AppendError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the records do not decompress: {error}") from None
    except TooLargeError as error:
        if limit_bytes < MAX_BATCH_BYTES:
            raise
        raise AppendError(ErrorCode.MESSAGE_TOO_LARGE, f"the records are too large decompressed: {error}") from None
    records = _read(body, start, end, count, packed=source != _NONE, kept=source == target)
    stamped = bool(attributes & LOG_APPEND_TIME)
    oldest_ms, newest_ms = (long_sum(base_ms, one) for one in records.range_of_timestamps())
    if stamped:
        oldest_ms = newest_ms = latest_ms
    timely = policy.append_time or (
        base_ms <= oldest_ms <= newest_ms  # else they wrapped around
        and now_ms - oldest_ms <= policy.before_max_ms
        and newest_ms - now_ms <= policy.after_max_ms
    )
    if stamped or not timely or (policy.compacted and records.any_keyless()):
        newest_ms = _check_each(records, policy, now_ms, base_ms, latest_ms if stamped else None)
    newest_ms = max(newest_ms, _NO_TIMESTAMP)
    if source == target:
        if source != _NONE and not records.in_order():
            raise AppendError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the offsets of a compressed batch are not 0, 1, 2 and so on"
            )
        return batch, newest_ms
    _check_writable(attributes & TRANSACTIONAL, *producer)
    first = records.first
    as_written = not stamped and first is not None and len(first) == count and records.in_order()
    if as_written and first is not None and first.timestamp_delta[0] == 0 and min(base_ms, oldest_ms) >= _NO_TIMESTAMP:
        content = body[start:end] if target == _NONE else compress(target, body[start:end])
        return repacked(batch, content, COMPRESSIONS.index(target), newest_ms), newest_ms
    return _written_again(batch, (body, start, end), target), newest_ms


def _read(body: bytes, position: int, end: int, count: int, *, packed: bool, kept: bool) -> _Records:
    """All records of a batch.

    `packed`: they were compressed; `kept`: they stay as they are. Raises `AppendError`.
    """
    found = _Records()
    done = 0
    if count > _FEW:
        found.first = record_facts(body, position, end, count)
        done, position = len(found.first), found.first.end
    loosely = packed and kept
    try:
        for _ in range(done, count):
            if loosely:
                following, timestamp_delta, offset_delta, has_key = skip_record(body, position, end)
            else:
                following, timestamp_delta, offset_delta, key, _, _ = read_record(body, position, end)
                has_key = key is not None
            position = following
            found.timestamp_deltas.append(timestamp_delta)
            found.offset_deltas.append(offset_delta)
            found.keyless.append(not has_key)
        check_end(position, end, count)
    except BadRecordsError as error:
        size = body[position : position + 5]
        if not packed and len(size) == 5 and min(size) > 0x7F:  # the one thing here that brokers do not expect to fail
            raise AppendError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
        raise AppendError(ErrorCode.INVALID_RECORD, str(error)) from None
    return found


def _check_each(records: _Records, policy: TopicPolicy, now_ms: int, base_ms: int, stamped_ms: int | None) -> int:
    """Check keys and timestamps, record by record; the latest timestamp.

    `stamped_ms`: of all records, if the batch says that a broker gave it. Raises `InvalidRecords`.
    """
    deltas, keyless = records.columns()
    times = np.int64(base_ms) + deltas if stamped_ms is None else np.full(len(deltas), stamped_ms, dtype=np.int64)
    if not policy.compacted:
        keyless = np.zeros(len(keyless), dtype=np.bool_)
    untimely = np.zeros(len(keyless), dtype=np.bool_)
    without = times == _NO_TIMESTAMP
    if not policy.append_time:
        age = np.int64(now_ms) - times  # wraps around, as in Java
        untimely = ~without & ((age > policy.before_max_ms) | (-age > policy.after_max_ms))
    if stamped_ms is not None:
        untimely |= without | policy.append_time
    untimely &= ~keyless
    wrong = np.flatnonzero(keyless | untimely)
    if not len(wrong):
        return int(times.max())
    told: list[tuple[int, str | None]] = []
    for place in wrong.tolist():
        if len(told) >= _DESCRIBED:
            told.append((place, None))
        elif keyless[place]:
            told.append((place, f"Compacted topic cannot accept message without key in topic partition {policy.name}"))
        elif policy.append_time or without[place]:
            text = f"Invalid timestamp type in message with offset {place}. "
            told.append((place, f"{text}Producer should not set timestamp type to LogAppendTime."))
        else:
            first, last = now_ms - policy.before_max_ms, now_ms + policy.after_max_ms
            told.append(
                (
                    place,
                    f"Timestamp {times[place]} of message with offset {place} is out of range. "
                    f"The timestamp should be within [{first}, {last}]",
                )
            )
    if bool(untimely.any()):
        text = "One or more records have been rejected due to invalid timestamp"
        raise InvalidRecords(ErrorCode.INVALID_TIMESTAMP, text, told)
    text = (
        f"One or more records have been rejected due to {len(told)} record errors in total, and only showing the first "
    )
    first_ones = ", ".join(f"RecordError(batchIndex={place}, message='{one}')" for place, one in told[:_TOLD])
    text += f"three errors at most: [{first_ones}]"  # what Java's record makes of itself, for clients to see, too
    raise InvalidRecords(ErrorCode.INVALID_RECORD, text, told)


def _check_writable(transactional: int, producer_id: int, epoch: int, sequence: int) -> None:
    """Whether brokers can write a batch of a producer again (`MemoryRecordsBuilder.validateProducerState`).

    Raises `AppendError`.
    """
    if transactional and producer_id == -1:
        raise AppendError(ErrorCode.UNKNOWN_SERVER_ERROR, "a transactional batch without a producer id")
    if producer_id != -1 and (epoch == -1 or sequence < 0):
        raise AppendError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"producer {producer_id} with epoch {epoch}, sequence {sequence}"
        )


def _written_again(batch: bytes, content: tuple[bytes, int, int], target: str) -> bytes:
    """The batch as a broker writes it that has to compress it otherwise: offsets from 0 on, and times counted from the first one's.

    Raises `AppendError`.
    """
    _, _, epoch, _, _, attributes, _, _, _, producer_id, producer_epoch, sequence, _ = HEADER.unpack_from(batch)
    return encode_batch(
        _records(batch, *content),
        compression=target,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=bool(attributes & TRANSACTIONAL),
        partition_leader_epoch=epoch,
    )


def _records(batch: bytes, body: bytes, position: int, end: int) -> Iterator[BatchRecord]:
    """The records with offsets from 0 on. Raises `AppendError`."""
    _, _, _, _, _, attributes, _, base_ms, latest_ms, *_, count = HEADER.unpack_from(batch)
    for place in range(count):
        position, delta, _, key, value, headers = read_record(body, position, end)
        at_ms = latest_ms if attributes & LOG_APPEND_TIME else long_sum(base_ms, delta)
        if at_ms < _NO_TIMESTAMP:
            raise AppendError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a record has the negative timestamp {at_ms}")
        # Java replaces what is no UTF-8.
        names = tuple(
            (name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), one) for name, one in headers
        )
        yield BatchRecord(offset=place, timestamp_ms=at_ms, key=key, value=value, headers=names)

"""Read batches of all message formats one by one: a `Batch` if it is whole, else a `BatchProblem`.

`quorate.codecs.log` reads the same bytes record by record and knows about topics.
"""

import io
from collections.abc import Iterator
from dataclasses import field
from typing import BinaryIO

from quorate.codecs.batches import legacy, v2
from quorate.codecs.batches.compression import DecompressionError, TooLargeError, decompress
from quorate.codecs.batches.frames import MAX_BATCH_BYTES, crcs, frames, min_batch_bytes
from quorate.codecs.batches.model import (
    COMPRESSIONS,
    BatchHeader,
    BatchProblem,
    BatchRecord,
    ProblemReason,
    TimestampType,
    sequence_at,
)
from quorate.codecs.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Batch:
    """A whole batch: its header, and all its bytes as in the log."""

    header: BatchHeader
    data: bytes = field(repr=False)
    max_batch_bytes: int = field(default=MAX_BATCH_BYTES, repr=False)

    def records(self) -> Iterator[BatchRecord | BatchProblem]:
        """Yield the records in the order of the log.

        If one cannot be read, a `BatchProblem` is yielded last.
        """
        try:
            if self.header.magic < 2:
                yield from legacy.records(self.data, 0, len(self.data), self.max_batch_bytes)
            else:
                yield from self._records()
        except (v2.BadRecordsError, DecompressionError, TooLargeError) as error:
            yield problem_of(error, self.header.position, len(self.data), self.header)

    def _records(self) -> Iterator[BatchRecord]:
        header = self.header
        count = header.count or 0
        body, start, end = payload(self.data, 0, len(self.data), header.compression, count, self.max_batch_bytes)
        append_time = header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        for timestamp_delta, offset_delta, key, value, headers in v2.records(body, start, end, count):
            yield BatchRecord(
                offset=v2.long_sum(header.base_offset, offset_delta),
                timestamp_ms=v2.long_sum(header.base_timestamp_ms, timestamp_delta)
                if append_time is None
                else append_time,
                key=key,
                value=value,
                headers=headers,
                sequence=sequence_at(header.base_sequence, offset_delta),
            )


def read_batches(
    source: bytes | BinaryIO, *, skip_corrupt: bool = False, max_batch_bytes: int = MAX_BATCH_BYTES
) -> Iterator[Batch | BatchProblem]:
    """Yield the batches of a segment, a fetch response or a produce request.

    `source` is bytes, or a seekable binary file. Reading stops after a problem, because the bytes
    after it cannot be trusted. With `skip_corrupt` it continues where the length says that the next
    batch begins. If the length is not possible, it continues at the next batch of magic 2 with a
    valid CRC. A batch larger than `max_batch_bytes`, compressed or not, is a problem.
    """
    if isinstance(source, bytes):
        source = io.BytesIO(source)
    size = source.seek(0, io.SEEK_END)
    source.seek(0)
    for frame in frames(source, size, max_batch_bytes=max_batch_bytes, resynchronise=skip_corrupt):
        if isinstance(frame, BatchProblem):
            yield frame
            continue
        buffer, start, end, position = frame
        problem = check(buffer, start, end, position)
        if problem is None:
            yield Batch(header_at(buffer, start, position, True), buffer[start:end], max_batch_bytes)
            continue
        yield problem
        if not skip_corrupt:
            return


def check(buffer: bytes, start: int, end: int, position: int) -> BatchProblem | None:
    """Check magic, length, CRC and base offset of a frame; return the problem, if any."""
    magic = buffer[start + 16]
    size = end - start
    if magic > 2:
        detail = f"the batch has magic {magic - 256 if magic > 127 else magic}; 0, 1 and 2 are known"
        return BatchProblem(position=position, size_bytes=size, reason=ProblemReason.UNKNOWN_MAGIC, detail=detail)
    minimum = min_batch_bytes(magic)
    if size < minimum:
        detail = f"the header says the batch has {size:,} bytes; magic {magic} has at least {minimum}"
        return BatchProblem(position=position, size_bytes=size, reason=ProblemReason.BAD_LENGTH, detail=detail)
    written, computed = crcs(buffer, start, end)
    if computed != written:
        return BatchProblem(
            position=position,
            size_bytes=size,
            reason=ProblemReason.CRC_MISMATCH,
            detail=f"the batch has CRC {computed:08x}, its header says {written:08x}",
            header=header_at(buffer, start, position, False),
        )
    if buffer[start] & 0x80:  # the CRC does not cover the base offset
        header = header_at(buffer, start, position, True)
        detail = f"the base offset of the batch is {header.base_offset:,}"
        return BatchProblem(
            position=position, size_bytes=size, reason=ProblemReason.BAD_RECORDS, detail=detail, header=header
        )
    return None


def header_at(buffer: bytes, start: int, position: int, crc_valid: bool) -> BatchHeader:
    """Return the header of a frame of a known magic that is long enough for one."""
    if buffer[start + 16] == 2:
        return v2.header_of(buffer, start, position, crc_valid)
    return legacy.header_of(buffer, start, position, crc_valid)


def payload(
    buffer: bytes, start: int, end: int, compression: str, count: int, limit_bytes: int
) -> tuple[bytes, int, int]:
    """Return the decompressed records of a magic 2 batch: a buffer, and where they begin and end.

    A batch that compaction emptied may keep its compression without a payload.
    """
    if compression == COMPRESSIONS[0] or (count == 0 and end - start == v2.HEADER_BYTES):
        return buffer, start + v2.HEADER_BYTES, end
    body = decompress(compression, buffer[start + v2.HEADER_BYTES : end], limit_bytes)
    return body, 0, len(body)


def problem_of(error: ValueError, position: int, size: int, header: BatchHeader) -> BatchProblem:
    """Return the problem for an error raised while reading the records of a batch."""
    reason, what = ProblemReason.BAD_RECORDS, "the records of the batch cannot be read"
    if isinstance(error, TooLargeError):
        reason, what = (
            ProblemReason.TOO_LARGE,
            f"the batch, whose compression is {header.compression}, is too large decompressed",
        )
    elif isinstance(error, DecompressionError):
        unknown = header.compression not in COMPRESSIONS
        reason = ProblemReason.UNKNOWN_COMPRESSION if unknown else ProblemReason.BAD_COMPRESSION
        what = f"the batch, whose compression is {header.compression}, does not decompress"
    return BatchProblem(position=position, size_bytes=size, reason=reason, detail=f"{what}: {error}", header=header)

"""What a produce request may have for a partition, before its log is asked: one whole batch, whose header and records agree with each other and with the topic's settings.

The log itself checks sizes, CRCs and the order of a producer's batches. Records are looked at only where their header leaves something open.
"""

from collections.abc import Callable, Iterator, Sequence

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchProblem, BatchRecord, read_batches
from quorate.codecs.batches.v2 import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)

__all__ = ["NotTaken", "check_records", "is_transactional", "one_batch"]

_ZSTD = 4
_SINCE_ZSTD = 7
_MAGIC_AT = 16


class NotTaken(Exception):
    """A batch that no partition would take. `records`: the places in the batch of those that are wrong, if it is because of them."""

    def __init__(self, code: ErrorCode, message: str, records: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.records = records


def one_batch(records: bytes | None, api_version: int) -> bytes:
    """The one batch of a partition, without what stands behind it that is none. Raises `NotTaken`."""
    if not records or (size := _size(records, 0)) is None:
        raise NotTaken(ErrorCode.INVALID_RECORD, "no whole batch")
    if records[_MAGIC_AT] != 2:
        raise NotTaken(ErrorCode.INVALID_RECORD, f"message format {records[_MAGIC_AT]}")
    attributes = HEADER.unpack_from(records)[5]
    if api_version < _SINCE_ZSTD and attributes & COMPRESSION_MASK == _ZSTD:
        raise NotTaken(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"version {api_version} has no zstd")
    if size < len(records) and _size(records, size) is not None:
        raise NotTaken(ErrorCode.INVALID_RECORD, "more than one batch")
    return records if size == len(records) else records[:size]


def is_transactional(records: bytes) -> bool:
    """Whether the first batch is part of a transaction. Raises `NotTaken` for bytes that do not even begin like a batch."""
    if _size(records, 0) is None or records[_MAGIC_AT] < 2:
        return False
    return bool(HEADER.unpack_from(records)[5] & TRANSACTIONAL)


def _size(records: bytes, position: int) -> int | None:
    """The size of the batch at a position; `None` where there is no whole one. Raises `NotTaken` for one that cannot be."""
    if len(records) - position < LOG_OVERHEAD:
        return None
    length = int.from_bytes(records[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
    if length < 14:
        raise NotTaken(ErrorCode.CORRUPT_MESSAGE, f"a batch of {length} bytes is smaller than any")
    size = LOG_OVERHEAD + length
    if len(records) - position < size:
        return None
    if records[position + _MAGIC_AT] > 2:
        raise NotTaken(ErrorCode.CORRUPT_MESSAGE, f"message format {records[position + _MAGIC_AT]} is not known")
    if records[position + _MAGIC_AT] == 2 and size < HEADER_BYTES:
        raise NotTaken(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than a batch's header")
    return size


def check_records(
    batch: bytes, *, compacted: bool, append_time: bool, now_ms: int, before_max_ms: int, after_max_ms: int
) -> None:
    """Raises `NotTaken` for records without keys where these are needed to compact, and for timestamps too far from now (KIP-937).

    What the header says of the batch as a whole is checked before (`quorate.cluster.produced`).
    """
    _, _, _, _, _, attributes, _, _, latest_ms, *_ = HEADER.unpack_from(batch)
    if not compacted and (append_time or (latest_ms - now_ms <= after_max_ms and before_max_ms >= now_ms)):
        return
    if compacted and (found := _places(batch, lambda record: record.key is None)):
        raise NotTaken(ErrorCode.INVALID_RECORD, "a compacted topic takes no records without a key", found)
    if append_time:
        return
    if attributes & LOG_APPEND_TIME:
        raise NotTaken(ErrorCode.INVALID_TIMESTAMP, "producers do not give the time of appending")

    def is_far(record: BatchRecord) -> bool:
        at_ms = record.timestamp_ms
        return at_ms != -1 and (now_ms - at_ms > before_max_ms or at_ms - now_ms > after_max_ms)

    if found := _places(batch, is_far):
        raise NotTaken(ErrorCode.INVALID_TIMESTAMP, f"timestamps have to be within {after_max_ms} ms of now", found)


def _places(batch: bytes, wanted: Callable[[BatchRecord], bool]) -> list[int]:
    return [place for place, record in enumerate(_records(batch)) if wanted(record)]


def _records(batch: bytes) -> Iterator[BatchRecord]:
    for read in read_batches(batch):
        if isinstance(read, BatchProblem):
            raise NotTaken(ErrorCode.CORRUPT_MESSAGE, str(read))
        for record in read.records():
            if not isinstance(record, BatchRecord):
                raise NotTaken(ErrorCode.INVALID_RECORD, str(record))
            yield record

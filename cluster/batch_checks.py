"""What a produce request may have for a partition, before its log is asked: one whole batch, whose header and records agree with each other and with the topic's settings.

The log itself checks sizes, CRCs and the order of a producer's batches. Records are looked at only where their header leaves something open.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchProblem, BatchRecord, encode_like, read_batches
from quorate.codecs.batches.v2 import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    compression_of,
)

__all__ = ["SINCE_ZSTD", "NotTaken", "check_records", "compressed_as", "is_transactional", "one_batch"]

_ZSTD = 4
SINCE_ZSTD = 7
"""The version of Produce that zstd came with (KIP-110)."""
_MAGIC_AT = 16
_NAMES = {"uncompressed": "none"}
"""What settings call a compression."""


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
    if api_version < SINCE_ZSTD and attributes & COMPRESSION_MASK == _ZSTD:
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
    stamped = bool(attributes & LOG_APPEND_TIME)  # which producers do not do
    near = append_time or (latest_ms - now_ms <= after_max_ms and before_max_ms >= now_ms)
    if near and not compacted and not stamped:
        return
    keyless, untimely = [], []
    for place, record in enumerate(_records(batch)):
        at_ms = latest_ms if stamped else record.timestamp_ms
        if compacted and record.key is None:
            keyless.append(place)
        elif append_time or at_ms is None or at_ms == -1:
            untimely += [place] if stamped else []
        elif now_ms - at_ms > before_max_ms or at_ms - now_ms > after_max_ms:
            untimely.append(place)
    if untimely:
        told = f"timestamps have to be within {after_max_ms} ms of now, and given by the producer"
        raise NotTaken(ErrorCode.INVALID_TIMESTAMP, told, sorted(keyless + untimely))
    if keyless:
        raise NotTaken(ErrorCode.INVALID_RECORD, "a compacted topic takes no records without a key", keyless)


def compressed_as(batch: bytes, wanted: str) -> bytes:
    """The batch as a topic's `compression.type` has it. Raises `NotTaken`."""
    found = compression_of(HEADER.unpack_from(batch)[5])
    codec = _NAMES.get(wanted, wanted)
    if codec in ("producer", found):
        return batch
    records = list(_records(batch))
    read = next(read_batches(batch))
    assert not isinstance(read, BatchProblem)
    return encode_like(replace(read.header, compression=codec), records)


def _records(batch: bytes) -> Iterator[BatchRecord]:
    for read in read_batches(batch):
        if isinstance(read, BatchProblem):
            raise NotTaken(ErrorCode.CORRUPT_MESSAGE, str(read))
        for record in read.records():
            if not isinstance(record, BatchRecord):
                raise NotTaken(ErrorCode.INVALID_RECORD, str(record))
            yield record

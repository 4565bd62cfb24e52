"""What a produce request may have for a partition, before its log is asked: one whole batch of format 2.

Sizes, CRCs and counts are checked in `quorate.cluster.batch_validation`, records in
`quorate.cluster.record_checks`, the order of a producer's batches by the log.
"""

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.v2 import COMPRESSION_MASK, HEADER, HEADER_BYTES, LOG_OVERHEAD, TRANSACTIONAL
from quorate.coordinator.log import AppendError

__all__ = ["SINCE_ZSTD", "is_transactional", "one_batch"]

_ZSTD = 4
SINCE_ZSTD = 7
"""The version of Produce that zstd came with (KIP-110)."""
_MAGIC_AT = 16
_SMALLEST = 14
"""The least length that a batch of any format may have."""


def one_batch(records: bytes | None, api_version: int) -> bytes:
    """The one batch of a partition, without what stands behind it that is none.

    Raises `AppendError`.
    """
    if not records or (size := _size(records, 0)) is None:
        raise AppendError(ErrorCode.INVALID_RECORD, "no whole batch")
    if records[_MAGIC_AT] != 2:
        raise AppendError(ErrorCode.INVALID_RECORD, f"message format {records[_MAGIC_AT]}")
    attributes = HEADER.unpack_from(records)[5]
    if api_version < SINCE_ZSTD and attributes & COMPRESSION_MASK == _ZSTD:
        raise AppendError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"version {api_version} has no zstd")
    if size < len(records) and _size(records, size) is not None:
        raise AppendError(ErrorCode.INVALID_RECORD, "more than one batch")
    return records if size == len(records) else records[:size]


def is_transactional(records: bytes) -> bool:
    """Whether the first batch is part of a transaction.

    Raises `AppendError` for bytes that do not even begin like a batch.
    """
    if _size(records, 0) is None or records[_MAGIC_AT] < 2:
        return False
    return bool(HEADER.unpack_from(records)[5] & TRANSACTIONAL)


def _size(records: bytes, position: int) -> int | None:
    """The size of the batch at a position; `None` where there is no whole one.

    Raises `AppendError` for one that cannot be.
    """
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return None
    length = int.from_bytes(records[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
    if length < _SMALLEST:
        raise AppendError(
            ErrorCode.CORRUPT_MESSAGE, f"Record size {length} is less than {_SMALLEST}, the smallest possible"
        )
    if left <= _MAGIC_AT:
        return None
    magic = records[position + _MAGIC_AT]
    if magic > 2:
        magic = magic - 256 if magic > 127 else magic
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}")
    size = LOG_OVERHEAD + length
    if left < size:
        return None
    if magic == 2 and size < HEADER_BYTES:
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than a batch's header")
    return size

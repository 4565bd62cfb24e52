"""Checks that a produce request contains exactly one whole batch of format 2 for a partition.

`quorate.cluster.batch_validation` checks sizes, CRCs and counts, `quorate.cluster.record_checks`
the records, and the log checks sequence numbers.
"""

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.v2 import COMPRESSION_MASK, HEADER, HEADER_BYTES, LOG_OVERHEAD, TRANSACTIONAL
from quorate.coordinator.log import AppendError

_ZSTD = 4
SINCE_ZSTD = 7
"""The first version of Produce with zstd (KIP-110)."""
_MAGIC_AT = 16
_SMALLEST = 14
"""The minimum length of a batch in any format."""


def one_batch(records: bytes | None, api_version: int) -> bytes:
    """Return the first batch, without trailing bytes that are not a whole batch.

    Raises `AppendError` if there is no batch, or more than one.
    """
    if not records or (size := _size(records, 0)) is None:
        raise AppendError(ErrorCode.INVALID_RECORD, "no complete batch")
    if records[_MAGIC_AT] != 2:
        raise AppendError(ErrorCode.INVALID_RECORD, f"message format {records[_MAGIC_AT]}")
    attributes = HEADER.unpack_from(records)[5]
    if api_version < SINCE_ZSTD and attributes & COMPRESSION_MASK == _ZSTD:
        raise AppendError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce version {api_version} does not support zstd"
        )
    if size < len(records) and _size(records, size) is not None:
        raise AppendError(ErrorCode.INVALID_RECORD, "more than one batch")
    return records if size == len(records) else records[:size]


def is_transactional(records: bytes) -> bool:
    """Return whether the first batch is transactional.

    Raises `AppendError` for an invalid length or format version.
    """
    if _size(records, 0) is None or records[_MAGIC_AT] < 2:
        return False
    return bool(HEADER.unpack_from(records)[5] & TRANSACTIONAL)


def _size(records: bytes, position: int) -> int | None:
    """Return the size of the batch at a position, or `None` if it is incomplete.

    Raises `AppendError` for an invalid length or format version.
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

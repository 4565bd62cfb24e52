"""A batch of a produce request: whether a log may take its bytes, and what becomes of them there.

Knows of no log, and of no producer.

Of a batch only base offset, leader epoch and, with log-append time, timestamp and CRC are written
anew.
"""

from struct import Struct

import google_crc32c

from quorate.cluster.storage.segment import BatchFacts
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.v2 import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LAST_COMPRESSION,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)
from quorate.coordinator.log import AppendError

__all__ = ["check_batch", "in_place", "repacked"]

_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_EPOCH_AT = 12
_ATTRIBUTES = Struct(">h")
_ATTRIBUTES_AT = 21
_KNOWN_ATTRIBUTES = COMPRESSION_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON
_TIME = Struct(">q")
_MAX_TIMESTAMP_AT = 35
_CRC = Struct(">I")
_CRC_AT = 17


def check_batch(data: bytes, most_bytes: int) -> BatchFacts:
    """What a batch says of itself.

    Raises `AppendError` for one that is damaged, larger than `most_bytes`, or none that a producer
    may send.
    """
    if len(data) < HEADER_BYTES:
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, f"{len(data)} bytes are less than a batch's header")
    base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer_id, _, sequence, count = (
        HEADER.unpack_from(data)
    )
    if magic != 2:
        raise AppendError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format {magic}")
    if LOG_OVERHEAD + length != len(data):
        raise AppendError(ErrorCode.INVALID_RECORD, "a produce request has one batch for each partition")
    if base_offset:
        raise AppendError(ErrorCode.INVALID_RECORD, f"offsets of producers begin at 0, not {base_offset}")
    if len(data) > most_bytes:
        raise AppendError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(data)} bytes, at most {most_bytes} are allowed"
        )
    if google_crc32c.value(data[CRC_START:]) != crc:
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, "the CRC does not match")
    if attributes & COMPRESSION_MASK > LAST_COMPRESSION:  # over which a broker fails
        raise AppendError(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no compression {attributes & COMPRESSION_MASK}")
    if count <= 0 or last_delta != count - 1:
        raise AppendError(ErrorCode.INVALID_RECORD, f"record count {count} with last offset delta {last_delta}")
    if attributes & CONTROL:
        raise AppendError(ErrorCode.INVALID_RECORD, "control batch not allowed from a producer")
    if producer_id >= 0 > sequence:
        raise AppendError(ErrorCode.INVALID_RECORD, f"producer {producer_id} does not say which batch of its own it is")
    return BatchFacts.of(data)


def in_place(
    data: bytes, base_offset: int, leader_epoch: int, append_time_ms: int | None, max_timestamp_ms: int | None = None
) -> bytes:
    """The batch as the log has it.

    `append_time_ms`: log-append time, where the broker's time counts for all records of the batch.
    `max_timestamp_ms`: the latest of its records, unless it is as the batch says. Attributes that
    no release knows are lost where anything of this changes, as in
    `DefaultRecordBatch.setMaxTimestamp`.
    """
    buffer = bytearray(data)
    _OFFSET.pack_into(buffer, 0, base_offset)
    _EPOCH.pack_into(buffer, _EPOCH_AT, leader_epoch)
    (attributes,) = _ATTRIBUTES.unpack_from(data, _ATTRIBUTES_AT)
    (found_ms,) = _TIME.unpack_from(data, _MAX_TIMESTAMP_AT)
    stamped = 0 if append_time_ms is None else LOG_APPEND_TIME
    latest_ms = append_time_ms
    if latest_ms is None:
        latest_ms = found_ms if max_timestamp_ms is None else max_timestamp_ms
    if attributes & LOG_APPEND_TIME != stamped or latest_ms != found_ms:
        _ATTRIBUTES.pack_into(buffer, _ATTRIBUTES_AT, attributes & _KNOWN_ATTRIBUTES | stamped)
        _TIME.pack_into(buffer, _MAX_TIMESTAMP_AT, latest_ms)
        _CRC.pack_into(buffer, _CRC_AT, google_crc32c.value(bytes(buffer[CRC_START:])))
    return bytes(buffer)


def repacked(data: bytes, content: bytes, compression: int, max_timestamp_ms: int) -> bytes:
    """The batch with its records in another compression, whose id in the attributes is `compression`; as when a broker writes them again."""
    fields = list(HEADER.unpack_from(data))
    fields[1] = HEADER_BYTES - LOG_OVERHEAD + len(content)
    fields[5] = fields[5] & TRANSACTIONAL | compression
    fields[8] = max_timestamp_ms
    covered = HEADER.pack(*fields)[CRC_START:] + content
    fields[4] = google_crc32c.value(covered)
    return HEADER.pack(*fields)[:CRC_START] + covered

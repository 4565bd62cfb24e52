"""Validation of produced batches, and the header fields that the broker overwrites.

These are base offset and leader epoch, with log-append time also timestamp and CRC. Sequence
numbers are checked elsewhere.
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


def check_batch(data: bytes, max_bytes: int) -> BatchFacts:
    """Validate a produced batch. Return the facts of its header.

    Raises `AppendError` if the batch is damaged, larger than `max_bytes`, or not allowed from a
    producer.
    """
    if len(data) < HEADER_BYTES:
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, f"{len(data)} bytes are less than a batch's header")
    base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer_id, _, sequence, count = (
        HEADER.unpack_from(data)
    )
    if magic != 2:
        raise AppendError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format {magic}")
    if LOG_OVERHEAD + length != len(data):
        raise AppendError(ErrorCode.INVALID_RECORD, "a produce request must have exactly one batch for each partition")
    if base_offset:
        raise AppendError(ErrorCode.INVALID_RECORD, f"a produced batch must have base offset 0, not {base_offset}")
    if len(data) > max_bytes:
        raise AppendError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(data)} bytes exceeds the limit of {max_bytes}")
    if google_crc32c.value(data[CRC_START:]) != crc:
        raise AppendError(ErrorCode.CORRUPT_MESSAGE, "the CRC does not match")
    if attributes & COMPRESSION_MASK > LAST_COMPRESSION:  # Kafka's brokers respond with UNKNOWN_SERVER_ERROR
        raise AppendError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression type {attributes & COMPRESSION_MASK}")
    if count <= 0 or last_delta != count - 1:
        raise AppendError(ErrorCode.INVALID_RECORD, f"record count {count} with last offset delta {last_delta}")
    if attributes & CONTROL:
        raise AppendError(ErrorCode.INVALID_RECORD, "control batch not allowed from a producer")
    if producer_id >= 0 > sequence:
        raise AppendError(ErrorCode.INVALID_RECORD, f"a batch of producer {producer_id} has no sequence number")
    return BatchFacts.of(data)


def assign_offset(
    data: bytes, base_offset: int, leader_epoch: int, append_time_ms: int | None, max_timestamp_ms: int | None = None
) -> bytes:
    """Return the batch as the log stores it.

    `append_time_ms`: log-append time for all records, if configured. `max_timestamp_ms`: the
    maximum timestamp, if the batch's own differs. If the timestamp changes, unknown attributes are
    cleared, as in `DefaultRecordBatch.setMaxTimestamp`.
    """
    buffer = bytearray(data[:HEADER_BYTES])
    _OFFSET.pack_into(buffer, 0, base_offset)
    _EPOCH.pack_into(buffer, _EPOCH_AT, leader_epoch)
    (attributes,) = _ATTRIBUTES.unpack_from(data, _ATTRIBUTES_AT)
    (batch_max_ms,) = _TIME.unpack_from(data, _MAX_TIMESTAMP_AT)
    timestamp_type = 0 if append_time_ms is None else LOG_APPEND_TIME
    latest_ms = append_time_ms
    if latest_ms is None:
        latest_ms = batch_max_ms if max_timestamp_ms is None else max_timestamp_ms
    if attributes & LOG_APPEND_TIME != timestamp_type or latest_ms != batch_max_ms:
        _ATTRIBUTES.pack_into(buffer, _ATTRIBUTES_AT, attributes & _KNOWN_ATTRIBUTES | timestamp_type)
        _TIME.pack_into(buffer, _MAX_TIMESTAMP_AT, latest_ms)
        crc = google_crc32c.value(bytes(buffer[CRC_START:]))
        _CRC.pack_into(buffer, _CRC_AT, google_crc32c.extend(crc, data[HEADER_BYTES:]))
    return b"".join((buffer, memoryview(data)[HEADER_BYTES:]))


def recompressed(data: bytes, content: bytes, compression: int, max_timestamp_ms: int) -> bytes:
    """Return the batch with recompressed records; `compression` is the type in the attributes."""
    fields = list(HEADER.unpack_from(data))
    fields[1] = HEADER_BYTES - LOG_OVERHEAD + len(content)
    fields[5] = fields[5] & TRANSACTIONAL | compression
    fields[8] = max_timestamp_ms
    covered = HEADER.pack(*fields)[CRC_START:] + content
    fields[4] = google_crc32c.value(covered)
    return HEADER.pack(*fields)[:CRC_START] + covered

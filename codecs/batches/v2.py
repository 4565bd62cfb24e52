"""Read record batches of magic 2 (KIP-98), which brokers have written since 0.11.

One buffer holds the whole batch. This module does not know where it comes from, nor what keys and
values mean.
"""

from collections.abc import Iterator
from struct import Struct

from quorate.codecs.batches.model import COMPRESSIONS, BatchHeader, TimestampType
from quorate.codecs.errors import QuorateError

HEADER = Struct(">qiibIhiqqqhii")
"""Base offset, length of the rest, leader epoch, magic, CRC, attributes, last offset delta, base
timestamp, max timestamp, producer id, producer epoch, base sequence, record count.
"""
HEADER_BYTES = HEADER.size
LOG_OVERHEAD = 12  # base offset and length, which the length does not include
# The CRC covers everything from the attributes on. Brokers set the leader epoch before it
# without a new CRC.
CRC_START = 21

COMPRESSION_MASK = 0x07
LAST_COMPRESSION = len(COMPRESSIONS) - 1
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # KIP-534: the base timestamp is the time after which tombstones and markers may be removed

RawRecord = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Timestamp delta, offset delta, key, value, headers."""

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class BadRecordsError(QuorateError, ValueError):
    """The records of a batch break the format.

    The message says what is wrong, and where in the (decompressed) batch.
    """


def compression_of(attributes: int) -> str:
    """Return the name of the compression in the attributes, `unknown(ID)` if Kafka has none."""
    compression = attributes & COMPRESSION_MASK
    return COMPRESSIONS[compression] if compression < len(COMPRESSIONS) else f"unknown({compression})"


def header_of(buffer: bytes, start: int, position: int, crc_valid: bool) -> BatchHeader:
    """Return the header at `start` of the buffer; `position` is that of the batch in the file."""
    (
        base_offset,
        length,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = HEADER.unpack_from(buffer, start)
    return BatchHeader(
        position=position,
        base_offset=base_offset,
        size_bytes=LOG_OVERHEAD + length,
        partition_leader_epoch=leader_epoch,
        magic=magic,
        crc=crc,
        crc_valid=crc_valid,
        compression=compression_of(attributes),
        timestamp_type=TimestampType.LOG_APPEND_TIME if attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME,
        last_offset_delta=last_offset_delta,
        base_timestamp_ms=base_timestamp,
        max_timestamp_ms=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
        transactional=bool(attributes & TRANSACTIONAL),
        control=bool(attributes & CONTROL),
        delete_horizon_ms=base_timestamp if attributes & DELETE_HORIZON else None,
    )


def records(buffer: bytes, position: int, end: int, count: int) -> Iterator[RawRecord]:
    """Yield the `count` records between `position` and `end` of a decompressed batch.

    Raises `BadRecordsError` after the records before the damage, in the same cases as Kafka: a
    record does not match its length, the bytes end early, or bytes are left over.
    """
    for _ in range(check_count(count)):
        position, timestamp_delta, offset_delta, key, value, headers = read_record(buffer, position, end)
        yield timestamp_delta, offset_delta, key, value, headers
    check_end(position, end, count)


def check_count(count: int) -> int:
    """Return the record count of a header. Raises `BadRecordsError` if it is negative."""
    if count < 0:
        raise BadRecordsError(f"the header has record count {count:,}")
    return count


def check_end(position: int, end: int, count: int) -> None:
    """Check that the batch ends with its last record. Raises `BadRecordsError` if not."""
    if position != end:
        raise BadRecordsError(f"{end - position:,} bytes are left after the last of {count:,} records")


def read_record(
    buffer: bytes, position: int, end: int
) -> tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
    """Read the record at `position`: return the next position and the record.

    The record is timestamp delta, offset delta, key, value, headers. Raises `BadRecordsError`.
    Called for every record, so varints of one byte, which most are, are read inline.
    """
    start = position
    try:
        size = buffer[position]
        position += 1
        if size & 0x80:
            size, position = _varint(buffer, position, size)
        record_end = position + (size >> 1)
        if record_end > end or size & 1:
            raise BadRecordsError(
                f"the record at {start:,} has length {size >> 1 ^ -(size & 1):,}, but {end - position:,} bytes are left"
            )
        # A byte of attributes comes first, which no release uses.
        timestamp_delta = buffer[position + 1]
        offset_delta = buffer[position + 2]
        key_size = buffer[position + 3]
        if (timestamp_delta | offset_delta | key_size) < 0x80:
            position += 4
        else:
            position += 2
            if timestamp_delta & 0x80:
                timestamp_delta, position = _varlong(buffer, position, timestamp_delta)
            offset_delta = buffer[position]
            position += 1
            if offset_delta & 0x80:
                offset_delta, position = _varint(buffer, position, offset_delta)
            key_size = buffer[position]
            position += 1
            if key_size & 0x80:
                key_size, position = _varint(buffer, position, key_size)
        key = value = None
        if not key_size & 1:  # an odd zigzag number is negative: null
            field = position
            position += key_size >> 1
            key = buffer[field:position]
        value_size = buffer[position]
        position += 1
        if value_size & 0x80:
            value_size, position = _varint(buffer, position, value_size)
        if not value_size & 1:
            field = position
            position += value_size >> 1
            value = buffer[field:position]
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if buffer[position]:
            headers, position = _headers(buffer, position, record_end)
        else:
            position += 1
    except IndexError:
        raise BadRecordsError(f"the record at {start:,} is cut off at {end:,}") from None
    if position != record_end:
        raise BadRecordsError(f"the record at {start:,} should end at {record_end:,}, its fields end at {position:,}")
    return (
        position,
        timestamp_delta >> 1 ^ -(timestamp_delta & 1),
        offset_delta >> 1 ^ -(offset_delta & 1),
        key,
        value,
        headers,
    )


def skip_record(buffer: bytes, position: int, end: int) -> tuple[int, int, int, bool]:
    """Skip the record at `position`.

    Returns the next position, timestamp delta, offset delta, and whether it has a key. Raises
    `BadRecordsError`. The length of the record is not checked. Brokers do not check it
    either in compressed batches that they store unchanged (`DefaultRecord.readPartiallyFrom`).
    """
    start = position
    try:
        _, position = _signed(buffer, position)
        position += 1
        timestamp_delta = buffer[position]
        position += 1
        if timestamp_delta & 0x80:
            timestamp_delta, position = _varlong(buffer, position, timestamp_delta)
        offset_delta, position = _signed(buffer, position)
        key_size, position = _signed(buffer, position)
        value_size, position = _signed(buffer, position + max(key_size, 0))
        count, position = _signed(buffer, position + max(value_size, 0))
        if count < 0:
            raise BadRecordsError(f"the record at {start:,} has header count {count:,}")
        for _ in range(count):
            size, position = _signed(buffer, position)
            if size < 0:
                raise BadRecordsError(f"a header before {position:,} has no key")
            size, position = _signed(buffer, position + size)
            position += max(size, 0)
    except IndexError:
        position = end + 1
    if position > end:
        raise BadRecordsError(f"the record at {start:,} is cut off at {end:,}")
    return position, timestamp_delta >> 1 ^ -(timestamp_delta & 1), offset_delta, key_size >= 0


def _varint(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an int32 varint whose first byte is `first`; zigzag is not decoded."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return first & 0x7F | byte << 7, position
    result = first & 0x7F | (byte & 0x7F) << 7
    for shift in (14, 21, 28):
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return (result | byte << shift) & 0xFFFFFFFF, position  # Java's int drops the higher bits
        result |= (byte & 0x7F) << shift
    raise BadRecordsError(f"a varint before {position:,} is longer than 5 bytes")


def _varlong(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an int64 varint likewise."""
    result = first & 0x7F
    for shift in range(7, 64, 7):
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return (result | byte << shift) & 0xFFFFFFFFFFFFFFFF, position
        result |= (byte & 0x7F) << shift
    raise BadRecordsError(f"a varint before {position:,} is longer than 10 bytes")


def _signed(buffer: bytes, position: int) -> tuple[int, int]:
    raw = buffer[position]
    position += 1
    if raw & 0x80:
        raw, position = _varint(buffer, position, raw)
    return (raw >> 1) ^ -(raw & 1), position


def _headers(buffer: bytes, position: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """Read the headers of a record: a count, then key and value of each.

    Kafka rejects a null key and a negative count.
    """
    count, position = _signed(buffer, position)
    if count < 0:
        raise BadRecordsError(f"a record has header count {count:,} before {position:,}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = _signed(buffer, position)
        if size < 0:
            raise BadRecordsError(f"a header before {position:,} has no key")
        key = buffer[position : position + size]
        position += size
        size, position = _signed(buffer, position)
        value = None if size < 0 else buffer[position : position + size]
        position += max(size, 0)
        if position > end:
            raise BadRecordsError(f"a header ends at {position:,}, its record at {end:,}")
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def long_sum(base: int, delta: int) -> int:
    """Add as Java's long does, which wraps around. Only damaged batches overflow."""
    total = base + delta
    return total if _INT64_MIN <= total <= _INT64_MAX else (total - _INT64_MIN) % (1 << 64) + _INT64_MIN

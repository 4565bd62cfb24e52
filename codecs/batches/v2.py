"""Record batches of magic 2 (KIP-98), the format that brokers have written since 0.11: reading header and records.

Everything is in one buffer that holds the whole batch. This module does not know where the buffer
comes from and not what keys and values mean.
"""

from collections.abc import Iterator
from struct import Struct

from quorate.codecs.batches.model import COMPRESSIONS, BatchHeader, TimestampType
from quorate.codecs.errors import QuorateError

__all__ = [
    "COMPRESSION_MASK",
    "CONTROL",
    "CRC_START",
    "DELETE_HORIZON",
    "HEADER",
    "HEADER_BYTES",
    "LAST_COMPRESSION",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "TRANSACTIONAL",
    "BadRecordsError",
    "RawRecord",
    "check_count",
    "check_end",
    "compression_of",
    "header_of",
    "long_sum",
    "read_record",
    "records",
    "skip_record",
]

HEADER = Struct(">qiibIhiqqqhii")
"""base offset, length of what follows the length, leader epoch, magic, CRC, attributes, last offset
delta, base timestamp, max timestamp, producer id, producer epoch, base sequence, record count.
"""
HEADER_BYTES = HEADER.size
LOG_OVERHEAD = 12  # base offset and length, which the length does not count
CRC_START = 21  # the CRC covers everything from the attributes on; the leader epoch before it is set by brokers without a new CRC

COMPRESSION_MASK = 0x07
LAST_COMPRESSION = len(COMPRESSIONS) - 1
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # KIP-534: the base timestamp is the time after which tombstones and markers may go

RawRecord = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""timestamp delta, offset delta, key, value, headers"""

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class BadRecordsError(QuorateError, ValueError):
    """The records of a batch break the format.

    The message says what and where in the (decompressed) batch.
    """


def compression_of(attributes: int) -> str:
    """The name of the compression in the attributes, `unknown(ID)` if no Kafka release has it."""
    compression = attributes & COMPRESSION_MASK
    return COMPRESSIONS[compression] if compression < len(COMPRESSIONS) else f"unknown({compression})"


def header_of(buffer: bytes, start: int, position: int, crc_valid: bool) -> BatchHeader:
    """The header at `start` of the buffer, which is at `position` of the file."""
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
    """The `count` records between `position` and `end` of a decompressed batch.

    Raises `BadRecordsError` after the records before the damage: when a record does not fill its
    length, when the bytes end early, and when bytes are left over, as Kafka does.
    """
    for _ in range(check_count(count)):
        position, timestamp_delta, offset_delta, key, value, headers = read_record(buffer, position, end)
        yield timestamp_delta, offset_delta, key, value, headers
    check_end(position, end, count)


def check_count(count: int) -> int:
    """The record count of a header. Raises `BadRecordsError` if it is negative."""
    if count < 0:
        raise BadRecordsError(f"the header counts {count:,} records")
    return count


def check_end(position: int, end: int, count: int) -> None:
    """Raises `BadRecordsError` if the last record ended at `position` and the batch does not."""
    if position != end:
        raise BadRecordsError(f"{end - position:,} bytes are left after the last of {count:,} records")


def read_record(
    buffer: bytes, position: int, end: int
) -> tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
    """One record at `position`: where the next begins, timestamp delta, offset delta, key, value, headers.

    Raises `BadRecordsError`.

    Called for every record there is, so the varints of one byte, which most are, are not left to a
    function.
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
                f"the record at {start:,} says {size >> 1 ^ -(size & 1):,} bytes, {end - position:,} are left"
            )
        # Before these comes a byte of attributes, which no release has used.
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
        raise BadRecordsError(f"the record at {start:,} says it ends at {record_end:,}, its fields end at {position:,}")
    return (
        position,
        timestamp_delta >> 1 ^ -(timestamp_delta & 1),
        offset_delta >> 1 ^ -(offset_delta & 1),
        key,
        value,
        headers,
    )


def skip_record(buffer: bytes, position: int, end: int) -> tuple[int, int, int, bool]:
    """One record without its contents: where the next begins, timestamp delta, offset delta, whether it has a key.

    Raises `BadRecordsError`.

    Whether the record is as long as it says is not checked: brokers don't either, for compressed
    batches that they keep as they came (`DefaultRecord.readPartiallyFrom`).
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
            raise BadRecordsError(f"the record at {start:,} counts {count:,} headers")
        for _ in range(count):
            size, position = _signed(buffer, position)
            if size < 0:
                raise BadRecordsError(f"a header without a key before {position:,}")
            size, position = _signed(buffer, position + size)
            position += max(size, 0)
    except IndexError:
        position = end + 1
    if position > end:
        raise BadRecordsError(f"the record at {start:,} is cut off at {end:,}")
    return position, timestamp_delta >> 1 ^ -(timestamp_delta & 1), offset_delta, key_size >= 0


def _varint(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """The rest of an int32 varint whose first byte is `first`, not yet zigzag-decoded."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return first & 0x7F | byte << 7, position
    result = first & 0x7F | (byte & 0x7F) << 7
    for shift in (14, 21, 28):
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return (result | byte << shift) & 0xFFFFFFFF, position  # Java's int drops what is shifted out
        result |= (byte & 0x7F) << shift
    raise BadRecordsError(f"a varint before {position:,} is longer than 5 bytes")


def _varlong(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """The same for an int64."""
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
    """The headers of a record: a count, then key and value of each.

    Kafka takes no null key and no negative count.
    """
    count, position = _signed(buffer, position)
    if count < 0:
        raise BadRecordsError(f"a record counts {count:,} headers before {position:,}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = _signed(buffer, position)
        if size < 0:
            raise BadRecordsError(f"a header without a key before {position:,}")
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
    """Base and delta added as Java's long does, which wraps around; only damaged batches make it."""
    total = base + delta
    return total if _INT64_MIN <= total <= _INT64_MAX else (total - _INT64_MIN) % (1 << 64) + _INT64_MIN

"""Message formats 0 and 1: single messages, and compressed wrappers around them.

Brokers wrote them before 0.11, and some tools still do. Kafka treats each outer message as a
batch, and so does this module. It does not know where its buffer comes from.
"""

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct

from quorate.codecs.batches.compression import DecompressionError, compress, decompress
from quorate.codecs.batches.model import COMPRESSIONS, BatchHeader, BatchRecord, TimestampType
from quorate.codecs.batches.v2 import COMPRESSION_MASK, LOG_APPEND_TIME, LOG_OVERHEAD, BadRecordsError, compression_of

_MESSAGE = (Struct(">qiIbb"), Struct(">qiIbbq"))
"""Per magic: offset, length of the rest, CRC, magic, attributes; timestamp since 1 (KIP-32)."""
_INT32 = Struct(">i")
CRC_START = 16  # the CRC covers everything from the magic byte on
MIN_BYTES = (26, 34)
"""By magic: the size of a message with null key and null value."""


def header_of(buffer: bytes, start: int, position: int, crc_valid: bool) -> BatchHeader:
    """Return the header of the message at `start`; `position` is its position in the file."""
    magic = buffer[start + 16]
    offset, length, crc, _, attributes, *rest = _MESSAGE[magic].unpack_from(buffer, start)
    timestamp = rest[0] if rest else -1
    if magic == 0:
        timestamp_type = TimestampType.NO_TIMESTAMP_TYPE
    else:
        timestamp_type = TimestampType.LOG_APPEND_TIME if attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME
    return BatchHeader(
        position=position,
        base_offset=offset,
        size_bytes=LOG_OVERHEAD + length,
        partition_leader_epoch=-1,
        magic=magic,
        crc=crc,
        crc_valid=crc_valid,
        compression=compression_of(attributes),
        timestamp_type=timestamp_type,
        last_offset_delta=0,
        base_timestamp_ms=timestamp,
        max_timestamp_ms=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=None if attributes & COMPRESSION_MASK else 1,
        transactional=False,
        control=False,
        delete_horizon_ms=None,
    )


def records(buffer: bytes, start: int, end: int, limit_bytes: int) -> Iterator[BatchRecord]:
    """Yield the record of a plain message, or the records inside a compressed wrapper.

    Raises `BadRecordsError`, `DecompressionError` or `TooLargeError`, in a wrapper after the
    records before the damage.
    """
    magic = buffer[start + 16]
    offset, timestamp, timestamp_type, compression, key, value, position = _message(buffer, start, end)
    if compression == 0:
        yield BatchRecord(offset=offset, timestamp_ms=timestamp, key=key, value=value)
        if position != end:  # Kafka does not check this
            raise BadRecordsError(f"{end - position:,} bytes are left after the value")
        return
    if compression >= len(COMPRESSIONS) or COMPRESSIONS[compression] == "zstd":  # KIP-110 brought zstd for magic 2 only
        raise DecompressionError(f"this compression does not occur in message format {magic}")
    if value is None:
        raise BadRecordsError("a compressed wrapper with a null value")
    inside = decompress(COMPRESSIONS[compression], value, limit_bytes)
    append_time = timestamp if timestamp_type is TimestampType.LOG_APPEND_TIME else None
    if magic == 0:
        yield from _inner(inside, magic, append_time)
        return
    # Magic 1: offsets inside are relative, and the wrapper has the offset of its last record.
    # In a wrapper at offset 0, Kafka takes them as absolute.
    found = list(_inner(inside, magic, append_time))  # the other offsets depend on the last one
    base = 0 if offset == 0 else offset - found[-1].offset
    if base < 0:
        raise BadRecordsError(f"the last record inside is {found[-1].offset:,}, after its wrapper at {offset:,}")
    for record in found:
        yield BatchRecord(
            offset=base + record.offset, timestamp_ms=record.timestamp_ms, key=record.key, value=record.value
        )


def _inner(inside: bytes, magic: int, append_time: int | None) -> Iterator[BatchRecord]:
    """Yield the messages inside a wrapper, with the offsets in their own headers."""
    position, end = 0, len(inside)
    while position < end:
        if end - position < MIN_BYTES[0]:
            raise BadRecordsError(f"the message at {position:,} inside the wrapper is cut off")
        (length,) = _INT32.unpack_from(inside, position + 8)
        stop = position + LOG_OVERHEAD + length
        inner_magic = inside[position + 16]
        if inner_magic not in (0, magic):  # Kafka accepts messages of format 0 in a wrapper of format 1
            raise BadRecordsError(
                f"the message at {position:,} inside the wrapper has magic {inner_magic}, not {magic}"
            )
        if stop - position < MIN_BYTES[inner_magic] or stop > end:
            raise BadRecordsError(f"the message at {position:,} inside the wrapper has invalid length {length:,}")
        crc = int.from_bytes(inside[position + 12 : position + CRC_START])
        if zlib.crc32(inside[position + CRC_START : stop]) != crc:
            raise BadRecordsError(f"the message at {position:,} inside the wrapper does not match its CRC {crc:08x}")
        offset, timestamp, _, compression, key, value, _ = _message(inside, position, stop)
        if compression:
            raise BadRecordsError(f"the message at {position:,} inside the wrapper is itself compressed")
        yield BatchRecord(
            offset=offset,
            timestamp_ms=timestamp if append_time is None or inner_magic == 0 else append_time,
            key=key,
            value=value,
        )
        position = stop
    if end == 0:
        raise BadRecordsError("a compressed wrapper without records")


def _message(
    buffer: bytes, start: int, end: int
) -> tuple[int, int, TimestampType, int, bytes | None, bytes | None, int]:
    """Return offset, timestamp and type, compression id, key, value, and where the value ends."""
    magic = buffer[start + 16]
    layout = _MESSAGE[magic]
    offset, _, _, _, attributes, *rest = layout.unpack_from(buffer, start)
    key, position = _nullable(buffer, start + layout.size, end)
    value, position = _nullable(buffer, position, end)
    timestamp_type = TimestampType.NO_TIMESTAMP_TYPE
    if magic:
        timestamp_type = TimestampType.LOG_APPEND_TIME if attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME
    return offset, rest[0] if rest else -1, timestamp_type, attributes & COMPRESSION_MASK, key, value, position


def _nullable(buffer: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    if end - position < 4:
        raise BadRecordsError(f"a length at {position:,} is cut off")
    (size,) = _INT32.unpack_from(buffer, position)
    position += 4
    if size < 0:
        return None, position
    if size > end - position:
        raise BadRecordsError(f"the length at {position - 4:,} is {size:,} bytes, but {end - position:,} are left")
    return buffer[position : position + size], position + size


def encode(records: Iterable[BatchRecord], *, magic: int, compression: str, log_append_time_ms: int | None) -> bytes:
    """Encode messages one after the other, or one compressed wrapper around them, as Kafka does.

    Without records the result is empty. With `log_append_time_ms` (magic 1) every message has that
    timestamp and the log-append-time attribute.
    """
    records = list(records)
    if not records:
        return b""
    attributes = LOG_APPEND_TIME if log_append_time_ms is not None else 0
    plain = compression == COMPRESSIONS[0]
    first, last = records[0].offset, records[-1].offset
    relative = 0 if plain or magic == 0 else first  # offsets are relative inside a wrapper since magic 1 (KIP-31)
    messages = b"".join(
        _encoded(
            magic,
            record.offset - relative,
            attributes,
            record.timestamp_ms if log_append_time_ms is None else log_append_time_ms,
            record.key,
            record.value,
        )
        for record in records
    )
    if plain:
        return messages
    timestamp = max(record.timestamp_ms for record in records) if log_append_time_ms is None else log_append_time_ms
    inside = compress(compression, messages, magic=magic)
    return _encoded(magic, last, attributes | COMPRESSIONS.index(compression), timestamp, None, inside)


def _encoded(magic: int, offset: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    layout = _MESSAGE[magic]
    tail = b"".join(_INT32.pack(-1) if part is None else _INT32.pack(len(part)) + part for part in (key, value))
    length = layout.size - LOG_OVERHEAD + len(tail)
    stamps = (timestamp,) if magic else ()
    covered = layout.pack(offset, length, 0, magic, attributes, *stamps)[CRC_START:] + tail
    return layout.pack(offset, length, zlib.crc32(covered), magic, attributes, *stamps)[:CRC_START] + covered

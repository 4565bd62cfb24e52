"""Write record batches, uncompressed ones with the same bytes as Kafka.

Kafka also reads the compressed ones. Their bytes differ between versions of the libraries.
"""

from collections.abc import Iterable
from struct import Struct

from quorate.codecs.batches import legacy
from quorate.codecs.batches.compression import compress
from quorate.codecs.batches.model import COMPRESSIONS, BatchHeader, BatchRecord, TimestampType
from quorate.codecs.batches.v2 import (
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)

_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")


def encode_batch(
    records: Iterable[BatchRecord],
    *,
    magic: int = 2,
    compression: str = "none",
    log_append_time_ms: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = -1,
    base_offset: int | None = None,
    last_offset_delta: int | None = None,
    base_timestamp_ms: int | None = None,
    max_timestamp_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Encode one record batch of magic 2, or a message per record in magic 0 and 1.

    In magic 0 and 1 compression puts one wrapper around the messages. Offsets and timestamps are
    those of the records, which must be sorted by offset. `log_append_time_ms` is the broker's
    timestamp: readers then see it for every record. Other defaults are those of Kafka's producer.

    `base_offset`, `last_offset_delta`, the timestamps and `delete_horizon_ms` describe compacted
    batches. These keep their offset range, may be empty, and have timestamps relative to the delete
    horizon. An empty batch requires `base_offset`.

    Raises `ValueError` for values that the format cannot hold.
    """
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression {compression!r} is not known; use one of {', '.join(COMPRESSIONS)}")
    if magic in (0, 1):
        records = list(records)
        _check_legacy(records, magic, compression, log_append_time_ms, producer_id >= 0 or transactional or control)
        return legacy.encode(records, magic=magic, compression=compression, log_append_time_ms=log_append_time_ms)
    if magic != 2:
        raise ValueError(f"magic {magic} is not known; use 0, 1 or 2")
    if base_timestamp_ms is None:
        base_timestamp_ms = delete_horizon_ms
    content = bytearray()  # no list of the records: a kilobyte may decompress to millions of them
    count, offset, newest = 0, 0, -1
    for record in records:
        offset = record.offset
        base_offset = offset if base_offset is None else base_offset
        base_timestamp_ms = record.timestamp_ms if base_timestamp_ms is None else base_timestamp_ms
        newest = record.timestamp_ms if count == 0 else max(newest, record.timestamp_ms)
        content += _record(record, offset - base_offset, record.timestamp_ms - base_timestamp_ms)
        count += 1
    if base_offset is None:
        raise ValueError("a batch without records needs base_offset")
    if last_offset_delta is None:
        last_offset_delta = offset - base_offset if count else 0
    if base_timestamp_ms is None:
        base_timestamp_ms = -1
    if max_timestamp_ms is None:
        max_timestamp_ms = newest if log_append_time_ms is None else log_append_time_ms
    body = bytes(content)
    attributes = (
        COMPRESSIONS.index(compression)
        | (LOG_APPEND_TIME if log_append_time_ms is not None else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    if count and compression != COMPRESSIONS[0]:
        body = compress(compression, body)
    return _assemble(
        body,
        (base_offset, HEADER_BYTES - LOG_OVERHEAD + len(body), partition_leader_epoch, 2),
        (
            attributes,
            last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ),
    )


def encode_pair(key: bytes | None, value: bytes | None, offset_delta: int) -> bytes:
    """Encode a key and a value as a record for `assemble_batch`.

    It has no headers, and the base timestamp of its batch. Raises `ValueError` for values that the
    format cannot hold.
    """
    body = b"".join(
        (
            b"\x00\x00",  # attributes, and the difference to the base timestamp
            _varint(offset_delta),
            _NULL if key is None else _varint(len(key)) + key,
            _NULL if value is None else _varint(len(value)) + value,
            b"\x00",  # no headers
        )
    )
    return _varint(len(body)) + body


def assemble_batch(
    records: bytes,
    count: int,
    *,
    base_offset: int,
    timestamp_ms: int,
    partition_leader_epoch: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Assemble a batch of records from the results of `encode_pair`.

    Gives the same bytes as `encode_batch`. Every record has the time `timestamp_ms`; offsets begin
    at `base_offset` and have no gaps.
    """
    return _assemble(
        records,
        (base_offset, HEADER_BYTES - LOG_OVERHEAD + len(records), partition_leader_epoch, 2),
        (
            TRANSACTIONAL if transactional else 0,
            count - 1,
            timestamp_ms,
            timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ),
    )


def encode_like(header: BatchHeader, records: Iterable[BatchRecord]) -> bytes:
    """Encode these records with `header`; an unchanged, uncompressed batch gives the same bytes.

    Batches with log-append time are an exception: their records no longer have the timestamps of
    the producer.
    """
    if header.magic < 2:
        append_time = header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        return encode_batch(records, magic=header.magic, compression=header.compression, log_append_time_ms=append_time)
    return encode_batch(
        records,
        compression=header.compression,
        log_append_time_ms=header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.transactional,
        control=header.control,
        partition_leader_epoch=header.partition_leader_epoch,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
        delete_horizon_ms=header.delete_horizon_ms,
    )


def encode_marker(
    *,
    commit: bool,
    offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Encode the control batch that ends a transaction (KIP-98).

    The coordinator writes it to every partition of the transaction.
    """
    marker = BatchRecord(
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=_MARKER_KEY.pack(0, 1 if commit else 0),
        value=_MARKER_VALUE.pack(0, coordinator_epoch),
    )
    return encode_batch(
        [marker],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=partition_leader_epoch,
    )


def _assemble(body: bytes, before_crc: tuple[int, int, int, int], after_crc: tuple[int, ...]) -> bytes:
    import google_crc32c

    header = HEADER.pack(*before_crc, 0, *after_crc)
    covered = header[CRC_START:] + body
    return HEADER.pack(*before_crc, google_crc32c.value(covered), *after_crc)[:CRC_START] + covered


def _check_legacy(
    records: list[BatchRecord], magic: int, compression: str, log_append_time_ms: int | None, producer: bool
) -> None:
    """Reject what message formats 0 and 1 cannot hold. Raises `ValueError`."""
    if compression == "zstd":
        raise ValueError(f"message format {magic} does not support zstd (KIP-110); use magic 2 or another compression")
    if any(record.headers for record in records):
        raise ValueError(f"message format {magic} has no record headers; use magic 2")
    if producer:
        raise ValueError(f"message format {magic} has no producers, transactions or control records; use magic 2")
    if magic == 0 and log_append_time_ms is not None:
        raise ValueError("message format 0 has no timestamps; use magic 1 or 2")


def _varint(value: int) -> bytes:
    """Encode an int32 or int64 as Kafka's zigzag varint."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    if rest < 0x80:
        return _ONE_BYTE[rest]
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]
_NULL = b"\x01"


def _record(record: BatchRecord, offset_delta: int, timestamp_delta: int) -> bytes:
    key, value = record.key, record.value
    parts = [
        b"\x00",  # attributes
        _varint(timestamp_delta),
        _varint(offset_delta),
        _NULL if key is None else _varint(len(key)) + key,
        _NULL if value is None else _varint(len(value)) + value,
        _varint(len(record.headers)),
    ]
    for name, content in record.headers:
        raw = name.encode("utf-8", "surrogateescape")
        parts += (_varint(len(raw)), raw, _NULL if content is None else _varint(len(content)) + content)
    body = b"".join(parts)
    return _varint(len(body)) + body

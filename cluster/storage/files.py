"""Codecs for the files next to segments: indexes, producer snapshots, checkpoints, properties.

The formats are those of Kafka's OffsetIndex, TimeIndex, AbortedTxn, ProducerSnapshot (its schema is
in Kafka's jars), CheckpointFile, PartitionMetadataFile and PropertiesUtils.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from struct import Struct, error, unpack_from

import google_crc32c

from quorate.codecs import Uuid
from quorate.codecs.errors import QuorateError
from quorate.codecs.lazy_dataclass import dataclass


class BadFileError(QuorateError, ValueError):
    """The file has another format or is damaged. It can be rebuilt from the segments."""


# ---- indexes: entries are relative to the segment's base offset

_INDEX_ENTRY_BYTES, _TIME_ENTRY_BYTES = 8, 12
_TIME_ENTRY = Struct(">qi")


def encode_index(base_offset: int, offsets: Sequence[int], positions: Sequence[int]) -> bytes:
    """Encode `.index`: last offset and position of a batch."""
    flat = chain.from_iterable(zip((offset - base_offset for offset in offsets), positions, strict=True))
    return Struct(f">{2 * len(offsets)}i").pack(*flat)


def decode_index(base_offset: int, data: bytes) -> tuple["array[int]", "array[int]"]:
    """Decode offsets and positions. Raises `BadFileError` unless both increase."""
    count, rest = divmod(len(data), _INDEX_ENTRY_BYTES)
    if rest:
        raise BadFileError(f"offset index with invalid size of {len(data)} bytes")
    flat = unpack_from(f">{2 * count}i", data)
    if flat and min(flat[:2]) < 0:
        raise BadFileError("negative entry in an offset index")
    offsets, positions = array("q", [base_offset + one for one in flat[::2]]), array("q", flat[1::2])
    _check_growing(offsets)
    _check_growing(positions)
    return offsets, positions


def encode_time_index(base_offset: int, times: Sequence[int], offsets: Sequence[int]) -> bytes:
    """Encode `.timeindex`: the greatest timestamp so far, and the last offset of its batch."""
    return b"".join(_TIME_ENTRY.pack(at_ms, offset - base_offset) for at_ms, offset in zip(times, offsets, strict=True))


def decode_time_index(base_offset: int, data: bytes) -> tuple["array[int]", "array[int]"]:
    """Decode timestamps and offsets. Raises `BadFileError` unless the timestamps increase."""
    if len(data) % _TIME_ENTRY_BYTES:
        raise BadFileError(f"time index with invalid size of {len(data)} bytes")
    entries = list(_TIME_ENTRY.iter_unpack(data))
    times = array("q", [at_ms for at_ms, _ in entries])
    _check_growing(times)
    return times, array("q", [base_offset + offset for _, offset in entries])


def _check_growing(numbers: Sequence[int]) -> None:
    if any(one >= next_one for one, next_one in pairwise(numbers)):
        raise BadFileError("index entries out of order")


# ---- aborted transactions

_ABORTED = Struct(">hqqqq")
ABORTED_BYTES = _ABORTED.size
"""Size of an entry of `.txnindex`."""


@dataclass(frozen=True, slots=True, order=True)
class AbortedTransaction:
    """An aborted transaction.

    `last_offset`: the offset of its marker. `last_stable_offset`: that of the log after the marker.
    """

    last_offset: int
    producer_id: int
    first_offset: int
    last_stable_offset: int


def encode_aborted(one: AbortedTransaction) -> bytes:
    """Encode an entry of `.txnindex`."""
    return _ABORTED.pack(0, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """Decode all entries of `.txnindex`. Raises `BadFileError`."""
    if len(data) % _ABORTED.size:
        raise BadFileError(f"transaction index with invalid size of {len(data)} bytes")
    found = []
    for version, producer_id, first, last, stable in _ABORTED.iter_unpack(data):
        if version != 0:
            raise BadFileError(f"transaction index entry with unknown version {version}")
        found.append(AbortedTransaction(last, producer_id, first, stable))
    return found


# ---- producers

_SNAPSHOT_HEAD = Struct(">hII")  # version, CRC, number of entries
_SNAPSHOT_CRC_START = 6
_PRODUCER = Struct(">qhiqiqiq")


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """State of a producer in a snapshot: its last batch and the start of its open transaction.

    -1 means none.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int


def encode_producers(producers: Iterable[ProducerEntry]) -> bytes:
    """Encode `.snapshot`."""
    entries = [
        _PRODUCER.pack(
            producer.producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_offset,
            producer.offset_delta,
            producer.timestamp_ms,
            producer.coordinator_epoch,
            producer.transaction_start,
        )
        for producer in producers
    ]
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    crc: int = google_crc32c.value(body)
    return (1).to_bytes(2, "big") + crc.to_bytes(4, "big") + body


def decode_producers(data: bytes) -> list[ProducerEntry]:
    """Decode the producers of a `.snapshot`. Raises `BadFileError`."""
    try:
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    except error:
        raise BadFileError(f"producer snapshot with invalid size of {len(data)} bytes") from None
    if version != 1 or len(data) != _SNAPSHOT_HEAD.size + count * _PRODUCER.size:
        raise BadFileError(f"producer snapshot with version {version} and {len(data)} bytes")
    if google_crc32c.value(data[_SNAPSHOT_CRC_START:]) != crc:
        raise BadFileError("the CRC of a producer snapshot does not match")
    return [ProducerEntry(*fields) for fields in _PRODUCER.iter_unpack(data[_SNAPSHOT_HEAD.size :])]


# ---- text


def encode_checkpoint(lines: Iterable[tuple[object, ...]]) -> bytes:
    """Encode a checkpoint file: version 0, the number of entries, and a line per entry."""
    entries = [" ".join(map(str, line)) for line in lines]
    return "".join(f"{line}\n" for line in ("0", str(len(entries)), *entries)).encode()


def decode_checkpoint(data: bytes) -> list[tuple[str, ...]]:
    """Decode a checkpoint file into the words of each entry. Raises `BadFileError`."""
    try:
        version, count, *entries = data.decode().splitlines()
        if version != "0" or int(count) != len(entries):
            raise ValueError
    except ValueError:
        raise BadFileError("not a checkpoint of version 0, or truncated") from None
    return [tuple(line.split()) for line in entries]


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """Encode `partition.metadata`: the topic id of a partition's folder (KIP-516)."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def encode_properties(properties: Mapping[str, object]) -> bytes:
    """Encode `meta.properties`, in the given order."""
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """Decode lines NAME=VALUE or NAME: VALUE, and skip comments. Raises `BadFileError`."""
    found = {}
    for line in data.decode(errors="replace").splitlines():
        if line.strip() and not line.startswith("#"):
            name, mark, value = line.partition("=" if "=" in line.partition(":")[0] else ":")
            if not mark:
                raise BadFileError(f"line without a value: {line!r}")
            found[name.strip()] = value.strip()
    return found

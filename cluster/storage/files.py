"""The small files next to segments, in Kafka's own form: indexes, producers, checkpoints, properties.

Bytes and text to values and back, nothing else.

Kafka's classes, whose forms these are: OffsetIndex, TimeIndex, AbortedTxn, ProducerSnapshot (its
schema is in Kafka's jars), CheckpointFile, PartitionMetadataFile, PropertiesUtils.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from struct import Struct, error, unpack_from

import google_crc32c

from quorate.codecs import Uuid
from quorate.codecs.errors import QuorateError

__all__ = [
    "AbortedTransaction",
    "BadFileError",
    "ProducerEntry",
    "decode_aborted",
    "decode_checkpoint",
    "decode_index",
    "decode_producers",
    "decode_properties",
    "decode_time_index",
    "encode_aborted",
    "encode_checkpoint",
    "encode_index",
    "encode_partition_metadata",
    "encode_producers",
    "encode_properties",
    "encode_time_index",
]


class BadFileError(QuorateError, ValueError):
    """The file is none of its kind, or damaged: what it says can be found out anew from the segments."""


# ---- indexes: entries are relative to the segment's base offset

_INDEX_ENTRY_BYTES, _TIME_ENTRY_BYTES = 8, 12
_TIME_ENTRY = Struct(">qi")


def encode_index(base_offset: int, offsets: Sequence[int], positions: Sequence[int]) -> bytes:
    """`.index`: last offset of a batch, and where the batch is."""
    flat = chain.from_iterable(zip((one - base_offset for one in offsets), positions, strict=True))
    return Struct(f">{2 * len(offsets)}i").pack(*flat)


def decode_index(base_offset: int, data: bytes) -> tuple["array[int]", "array[int]"]:
    """Offsets and positions. Raises `BadFileError` unless both grow."""
    count, rest = divmod(len(data), _INDEX_ENTRY_BYTES)
    if rest:
        raise BadFileError(f"an index of {len(data)} bytes")
    flat = unpack_from(f">{2 * count}i", data)
    if flat and min(flat[:2]) < 0:
        raise BadFileError("an entry of an index is negative")
    offsets, positions = array("q", [base_offset + one for one in flat[::2]]), array("q", flat[1::2])
    _check_growing(offsets)
    _check_growing(positions)
    return offsets, positions


def encode_time_index(base_offset: int, times: Sequence[int], offsets: Sequence[int]) -> bytes:
    """`.timeindex`: the greatest timestamp so far, and the last offset of the batch that had it."""
    return b"".join(_TIME_ENTRY.pack(at_ms, offset - base_offset) for at_ms, offset in zip(times, offsets, strict=True))


def decode_time_index(base_offset: int, data: bytes) -> tuple["array[int]", "array[int]"]:
    """Timestamps and offsets. Raises `BadFileError` unless the timestamps grow."""
    if len(data) % _TIME_ENTRY_BYTES:
        raise BadFileError(f"a time index of {len(data)} bytes")
    entries = list(_TIME_ENTRY.iter_unpack(data))
    times = array("q", [at_ms for at_ms, _ in entries])
    _check_growing(times)
    return times, array("q", [base_offset + offset for _, offset in entries])


def _check_growing(numbers: Sequence[int]) -> None:
    if any(one >= following for one, following in pairwise(numbers)):
        raise BadFileError("entries of an index are out of order")


# ---- aborted transactions

_ABORTED = Struct(">hqqqq")
ABORTED_BYTES = _ABORTED.size
"""Of an entry of `.txnindex`."""


@dataclass(frozen=True, slots=True, order=True)
class AbortedTransaction:
    """A transaction that was aborted: `last_offset` is its marker's, `last_stable_offset` that of the log right after the marker."""

    last_offset: int
    producer_id: int
    first_offset: int
    last_stable_offset: int


def encode_aborted(one: AbortedTransaction) -> bytes:
    """An entry of `.txnindex`."""
    return _ABORTED.pack(0, one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """All entries of `.txnindex`. Raises `BadFileError`."""
    if len(data) % _ABORTED.size:
        raise BadFileError(f"an index of transactions of {len(data)} bytes")
    found = []
    for version, producer_id, first, last, stable in _ABORTED.iter_unpack(data):
        if version != 0:
            raise BadFileError(f"an entry of version {version} in an index of transactions")
        found.append(AbortedTransaction(last, producer_id, first, stable))
    return found


# ---- producers

_SNAPSHOT_HEAD = Struct(">hII")  # version, CRC, number of entries
_SNAPSHOT_CRC_START = 6
_PRODUCER = Struct(">qhiqiqiq")


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """What a snapshot knows of a producer: its last batch (-1: none), and where its open transaction begins (-1: there is none)."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int


def encode_producers(producers: Iterable[ProducerEntry]) -> bytes:
    """`.snapshot`."""
    entries = [
        _PRODUCER.pack(
            one.producer_id,
            one.epoch,
            one.last_sequence,
            one.last_offset,
            one.offset_delta,
            one.timestamp_ms,
            one.coordinator_epoch,
            one.transaction_start,
        )
        for one in producers
    ]
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    crc: int = google_crc32c.value(body)
    return (1).to_bytes(2, "big") + crc.to_bytes(4, "big") + body


def decode_producers(data: bytes) -> list[ProducerEntry]:
    """The producers of a `.snapshot`. Raises `BadFileError`."""
    try:
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    except error:
        raise BadFileError(f"a snapshot of producers of {len(data)} bytes") from None
    if version != 1 or len(data) != _SNAPSHOT_HEAD.size + count * _PRODUCER.size:
        raise BadFileError(f"a snapshot of producers of version {version} with {len(data)} bytes")
    if google_crc32c.value(data[_SNAPSHOT_CRC_START:]) != crc:
        raise BadFileError("a snapshot of producers whose CRC does not match")
    return [ProducerEntry(*fields) for fields in _PRODUCER.iter_unpack(data[_SNAPSHOT_HEAD.size :])]


# ---- text


def encode_checkpoint(lines: Iterable[tuple[object, ...]]) -> bytes:
    """A checkpoint file: version 0, the number of entries, and a line for each."""
    entries = [" ".join(map(str, line)) for line in lines]
    return "".join(f"{line}\n" for line in ("0", str(len(entries)), *entries)).encode()


def decode_checkpoint(data: bytes) -> list[tuple[str, ...]]:
    """The entries' words. Raises `BadFileError`."""
    try:
        version, count, *entries = data.decode().splitlines()
        if version != "0" or int(count) != len(entries):
            raise ValueError
    except ValueError:
        raise BadFileError("this is no checkpoint of version 0, or it is cut off") from None
    return [tuple(line.split()) for line in entries]


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """`partition.metadata`: which topic a partition's folder is of (KIP-516)."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def encode_properties(properties: Mapping[str, object]) -> bytes:
    """`meta.properties`, in the order given."""
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """The properties of a file of lines NAME=VALUE, or NAME: VALUE.

    Comments are left out. Raises `BadFileError`.
    """
    found = {}
    for line in data.decode(errors="replace").splitlines():
        if line.strip() and not line.startswith("#"):
            name, mark, value = line.partition("=" if "=" in line.partition(":")[0] else ":")
            if not mark:
                raise BadFileError(f"a line without a value: {line!r}")
            found[name.strip()] = value.strip()
    return found

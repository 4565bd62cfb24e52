"""The metadata hash of a group (KIP-1101).

It covers the ids, partitions and racks of the subscribed topics. It is stored in
`ConsumerGroupMetadata`, `ShareGroupMetadata` and `StreamsGroupMetadata` records, and the group
epoch is incremented when it changes. This module computes hashes only. It does not track
subscriptions or brokers, or when to compute a hash again.

Kafka's released code and the text of the KIP describe different algorithms. A coordinator compares
the hash with its own, so a coordinator with another algorithm costs each group one group epoch when
it takes over.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain

import xxhash

_BLOCK = 500
"""Partitions that are encoded together. Their bytes stay below the size from which libc maps new
memory for each allocation: page faults took a quarter of the time for 10,000 partitions.
"""

MAGIC = b"\x00"
"""The first byte hashed: the version of the algorithm, 0 so far."""


class HashAlgorithm(StrEnum):
    """Which of the two descriptions of KIP-1101 to follow."""

    XXH3 = "xxh3"
    """Kafka's since 4.1.0: XXH3 with 64 bits and seed 0."""

    MURMUR3 = "murmur3"
    """The one in the text of the KIP: Murmur3. No release of Kafka uses it."""


def topic_hash(
    topic_id: bytes,
    name: str,
    partition_racks: Sequence[Iterable[str | None]],
    algorithm: HashAlgorithm | str = HashAlgorithm.XXH3,
) -> int:
    """Hash the id, name, partitions and racks of a topic.

    `topic_id` is a `Uuid` or 16 bytes, most significant first. `partition_racks[i]` holds the rack
    of each broker in partition i's assigned replica list (not only of those in sync), in any order
    and repeated if two replicas share a rack. Brokers that are not registered or have no rack are
    left out or given as `None`. A topic that does not exist has no hash; leave it out of
    `group_hash`.

    Returns a signed 64-bit integer, as in the records. Raises `ValueError` for an id that is not 16
    bytes or an unknown algorithm.

    `XXH3`, from Kafka's code since 4.1.0, everything little-endian: magic byte; most, then least
    significant half of the id as int64; name; number of partitions as int32; then for each
    partition its number as int32 and its racks in the order of their UTF-16 code units (Java's
    `String` order), each preceded by its length as int32. A string is its UTF-16 code units
    followed by their number as int32, so a rack's length is hashed twice.

    `MURMUR3`, from the KIP. Its text fixes the fields and their order: magic byte, topic id
    "(long)", topic name, partition size "(long)", then by partition id the id "(int)" and the
    sorted racks. It leaves open, and so we chose: the 128-bit x64 variant with seed 0, of which the
    first 64 bits count; little-endian numbers; both halves of the id, since one long cannot hold
    it; "size" as the number of partitions; racks sorted as above; strings in UTF-8 with their
    length in bytes as int32 in front, since without it racks "ab" and "a", "b" would be equal. (The
    KIP also speaks of summing a hash per rack, which contradicts its own list.)
    """
    if len(topic_id) != 16:
        raise ValueError(f"a topic id has 16 bytes, not {len(topic_id)}")
    most, least = struct.unpack(">qq", topic_id)
    if HashAlgorithm(algorithm) is HashAlgorithm.XXH3:
        head = MAGIC + struct.pack("<qq", most, least) + _utf16(name) + struct.pack("<i", len(partition_racks))
        return _xxh3(head, *_with_numbers(partition_racks, _RacksIn16))
    head = MAGIC + struct.pack("<qq", most, least) + _utf8(name) + struct.pack("<q", len(partition_racks))
    import mmh3

    data = b"".join((head, *_with_numbers(partition_racks, _RacksIn8)))
    return mmh3.hash64(data, seed=0, x64arch=True, signed=True)[0]


def group_hash(topic_hashes: Mapping[str, int], algorithm: HashAlgorithm | str = HashAlgorithm.XXH3) -> int:
    """Combine the hashes of a group's topics, given by topic name, into the group's metadata hash.

    No topics give 0, which is also what a record without a hash reads as. Returns a signed 64-bit
    integer. Raises `ValueError` for an unknown algorithm or a topic hash beyond 64 bits.

    `XXH3`: over the topic hashes as little-endian int64, by topic name in Java's `String` order
    (Kafka's code since 4.1.0). `MURMUR3`: the sum of the topic hashes in the same order, each
    multiplied by its position from 1, as the KIP has it; we reduce it to a signed 64-bit integer.
    """
    ordered = [topic_hashes[name] for name in sorted(topic_hashes, key=_java_order)]
    for value in ordered:
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError(f"topic hash {value} is not a signed 64-bit integer")
    if HashAlgorithm(algorithm) is HashAlgorithm.XXH3:
        return _xxh3(struct.pack(f"<{len(ordered)}q", *ordered)) if ordered else 0
    return _signed(sum(position * value for position, value in enumerate(ordered, start=1)))


def _java_order(text: str) -> bytes:
    """Sort key of Java's `String.compareTo`: UTF-16 code units, so U+10000 sorts before U+E000."""
    return text.encode("utf-16-be", "surrogatepass")


def _with_numbers(
    partition_racks: Sequence[Iterable[str | None]], encode: type["_Encoded"]
) -> Iterator[bytes | bytearray]:
    """Encode each partition's number followed by its racks, `_BLOCK` partitions at a time.

    Few different sets of racks occur, so each set is encoded once, and no loop over partitions runs
    in Python.
    """
    encoded = encode()
    racks = list(map(encoded.__getitem__, map(tuple, partition_racks)))
    lengths = set(map(len, encoded.values()))
    for first in range(0, len(racks), _BLOCK):
        block = racks[first : first + _BLOCK]
        numbers = struct.pack(f"<{len(block)}i", *range(first, first + len(block)))
        if len(lengths) == 1:  # the usual case; filling bytewise takes half the time
            width = 4 + len(block[0])
            data = bytearray(b"\0\0\0\0").join((b"", *block))
            for at in range(4):
                data[at::width] = numbers[at::4]
            yield data
        else:
            one_by_one = chain.from_iterable(struct.iter_unpack("4s", numbers))
            yield b"".join(chain.from_iterable(zip(one_by_one, block, strict=True)))


class _Encoded(dict[tuple[str | None, ...], bytes]):
    """Racks of a partition → the bytes that are hashed."""


class _RacksIn16(_Encoded):
    def __missing__(self, racks: tuple[str | None, ...]) -> bytes:
        encoded = map(_utf16, _sorted(racks))
        found = self[racks] = b"".join(units[-4:] + units for units in encoded)
        return found


class _RacksIn8(_Encoded):
    def __missing__(self, racks: tuple[str | None, ...]) -> bytes:
        found = self[racks] = b"".join(map(_utf8, _sorted(racks)))
        return found


def _sorted(racks: Iterable[str | None]) -> list[str]:
    return sorted((rack for rack in racks if rack is not None), key=_java_order)


def _utf16(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + struct.pack("<i", len(units) // 2)


def _utf8(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return struct.pack("<i", len(encoded)) + encoded


def _xxh3(*parts: bytes | bytearray) -> int:
    state = xxhash.xxh3_64()
    for part in parts:
        state.update(part)
    return _signed(state.intdigest())


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value

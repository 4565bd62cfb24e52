"""Java's `hashCode()` and comparison order for the keys of Kafka's maps.

Hashes are unsigned 32-bit numbers here.

| key | hash |
|---|---|
| `str` | `String`: `31 * hash + unit` over UTF-16 units |
| `int` | `Integer`: the number itself |
| `Uuid` | `org.apache.kafka.common.Uuid`: both halves, then both halves of that, by exclusive or |
| `(str, int)` | `TopicPartition` |
| `(Uuid, int)` | `TopicIdPartition` |
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quorate.codecs import Uuid

__all__ = [
    "Ints",
    "UInts",
    "comparable",
    "in_java_order",
    "java_hash",
    "partition_hashes",
    "spread",
    "string_hash",
    "string_hashes",
    "string_key",
    "string_order",
    "uuid_hashes",
]

UInts = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]

_MOST_TOGETHER = 1 << 24
"""Maximum number of characters that are hashed together."""

_INVERSE = pow(31, -1, 1 << 32)

_MASK = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """Return `String.hashCode()` as an unsigned 32-bit number."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) & _MASK
    return value


def string_hashes(texts: Sequence[str]) -> UInts:
    """Return `String.hashCode()` of each text."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.cumsum(lengths)
    if len(texts) < 8 or not 0 < ends[-1] <= _MOST_TOGETHER:
        return np.fromiter(map(string_hash, texts), np.uint32, len(texts))
    units = np.frombuffer("".join(texts).encode("utf-16-le", "surrogatepass"), "<u2")
    if len(units) != ends[-1]:  # some character takes two units
        return np.fromiter(map(string_hash, texts), np.uint32, len(texts))
    # 31 has an inverse modulo 2³². With units multiplied by powers of the inverse, the sum of a
    # text is the difference of two prefix sums.
    sums = np.zeros(len(units) + 1, np.uint32)
    np.cumsum(units * _powers(_INVERSE, len(units)), dtype=np.uint32, out=sums[1:])
    found: UInts = (sums[ends] - sums[ends - lengths]) * _powers(31, len(units))[np.maximum(ends, 1) - 1]
    return found


def _powers(base: int, count: int) -> UInts:
    powers = np.full(count, base, np.uint32)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32)


def string_key(text: str) -> bytes:
    """Return a sort key for the order of `String.compareTo`: UTF-16 units.

    That order differs from code points only above U+FFFF.
    """
    return text.encode("utf-16-be", "surrogatepass")


def in_java_order(texts: Iterable[str]) -> list[str]:
    """Sort texts as `String.compareTo` does."""
    given = list(texts)
    return sorted(given) if all(map(str.isascii, given)) else sorted(given, key=string_key)


def string_order(texts: Sequence[str]) -> Ints:
    """Return the positions of texts as `String.compareTo` sorts them; ties keep their order."""
    keys: Sequence[str] | list[bytes] = texts if "".join(texts).isascii() else list(map(string_key, texts))
    return np.array(sorted(range(len(texts)), key=keys.__getitem__), np.int64)


def partition_hashes(topic_hash: int | Ints, partitions: Ints) -> UInts:
    """Return `TopicPartition.hashCode()` of partitions.

    `topic_hash`: that of the topic's name; an array if each partition has a topic of its own.
    """
    return ((31 * (31 + partitions) + topic_hash) & _MASK).astype(np.uint32)


def uuid_hashes(most: Ints, least: Ints) -> UInts:
    """Return `Uuid.hashCode()`, from the upper and lower halves of the ids."""
    both = (most ^ least).view(np.uint64)
    return ((both >> np.uint64(32)) ^ both).astype(np.uint32)


def java_hash(key: Any) -> int:
    """Return the hash of a key of one of the types above."""
    if isinstance(key, str):
        return string_hash(key)
    if isinstance(key, int):
        return key & _MASK
    if isinstance(key, Uuid):
        most, least = _halves(key)
        both = most ^ least
        return ((both >> 32) ^ both) & _MASK
    outer: str | Uuid = key[0]
    partition: int = key[1]
    if isinstance(outer, str):
        return (31 * (31 + partition) + string_hash(outer)) & _MASK
    return (31 * java_hash(outer) + partition) & _MASK


def comparable(key: Any) -> Any:
    """Return a sort key for the order of the key type's `compareTo`.

    Tuples have none in Java; if their hashes collide too, Java's order differs between runs.
    """
    if isinstance(key, Uuid):
        most, least = _halves(key)
        return (most - ((most >> 63) << 64), least - ((least >> 63) << 64))
    return string_key(key) if isinstance(key, str) else key


def spread(hashes: UInts) -> UInts:
    """Mix the upper bits into the lower ones, as HashMap does before it chooses a bucket."""
    return hashes ^ (hashes >> np.uint32(16))


def _halves(uuid: Uuid) -> tuple[int, int]:
    return int.from_bytes(uuid[:8], "big"), int.from_bytes(uuid[8:], "big")

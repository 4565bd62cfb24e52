"""The order in which Java iterates its hash maps, where Kafka's answers show it. Nothing else in the house knows about it.

Orders are given as positions: `order[k]` is the position, in the order of insertion, of the key that is iterated as the k-th.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = [
    "computed_map_order",
    "hash_map_capacity",
    "hash_map_order",
    "partition_hashes",
    "string_hash",
    "string_hashes",
    "string_key",
]

UInts = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]

_MATRIX_LIMIT = 1 << 24
"""Characters up to which strings are hashed together."""


def string_hash(text: str) -> int:
    """`String.hashCode()`, as an unsigned 32-bit number."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def string_hashes(texts: Sequence[str]) -> UInts:
    """`String.hashCode()` of each text."""
    longest = max(map(len, texts), default=0)
    if len(texts) < 8 or longest * len(texts) > _MATRIX_LIMIT:
        return np.fromiter(map(string_hash, texts), np.uint32, len(texts))
    # Leading zeros do not change a hash, so texts of different length become rows of one matrix.
    units = np.frombuffer(
        "".join(text.rjust(longest, "\0") for text in texts).encode("utf-16-le", "surrogatepass"), "<u2"
    )
    if len(units) != longest * len(texts):  # some character takes two units
        return np.fromiter(map(string_hash, texts), np.uint32, len(texts))
    powers = np.ones(longest, np.uint32)
    powers[1:] = 31
    powers = np.multiply.accumulate(powers, dtype=np.uint32)[::-1]
    hashes: UInts = (units.reshape(len(texts), longest) * powers).sum(axis=1, dtype=np.uint32)
    return hashes


def hash_map_capacity(size: int, initial: int = 16) -> int:
    """Buckets of a HashMap after `size` puts of different keys: it doubles when more than three quarters are taken."""
    capacity = initial
    while size > capacity * 3 // 4:
        capacity *= 2
    return capacity


def hash_map_order(hashes: UInts, capacity: int | None = None) -> Ints:
    """The order of a default HashMap or HashSet into which keys with these hashes were put one after the other.

    Buckets ascending, and within a bucket as inserted: a new key goes to the end, and splits keep the order.
    """
    capacity = capacity or hash_map_capacity(len(hashes))
    buckets = (hashes ^ (hashes >> np.uint32(16))) & np.uint32(capacity - 1)
    return np.argsort(buckets, kind="stable")


def computed_map_order(hashes: UInts, *, last_is_new: bool) -> Ints:
    """The order of a default HashMap that was filled by `computeIfAbsent`, keys given in the order in which they first came.

    Unlike `put`, it adds at the head of a bucket, and grows, if too many keys are there already, before it looks the key up: so it also counts whether
    the last call brought a new key.
    """
    capacity = hash_map_capacity(len(hashes) - last_is_new)
    buckets = (hashes ^ (hashes >> np.uint32(16))) & np.uint32(capacity - 1)
    order: Ints = len(hashes) - 1 - np.argsort(buckets[::-1], kind="stable")
    return order


def partition_hashes(topic_hash: int, partitions: Ints) -> UInts:
    """`TopicPartition.hashCode()` of partitions of one topic, given the hash of its name."""
    return ((31 * (31 + partitions) + topic_hash) & 0xFFFFFFFF).astype(np.uint32)


def string_key(text: str) -> bytes:
    """Sorts texts as `String.compareTo` does: by UTF-16 units, which differs from code points only beyond U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")

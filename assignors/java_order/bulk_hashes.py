"""Java's `hashCode()` and string order of many keys, as arrays."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quorate.assignors.java_order.hashes import MASK, string_hash, string_places

UInts = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]

_MOST_TOGETHER = 1 << 24
"""Maximum number of characters that are hashed together."""

_INVERSE = pow(31, -1, 1 << 32)


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


def string_order(texts: Sequence[str]) -> Ints:
    """Return the positions of texts as `String.compareTo` sorts them; ties keep their order."""
    return np.array(string_places(texts), np.int64)


def partition_hashes(topic_hash: int | Ints, partitions: Ints) -> UInts:
    """Return `TopicPartition.hashCode()` of partitions.

    `topic_hash`: that of the topic's name; an array if each partition has a topic of its own.
    """
    return ((31 * (31 + partitions) + topic_hash) & MASK).astype(np.uint32)


def uuid_hashes(most: Ints, least: Ints) -> UInts:
    """Return `Uuid.hashCode()`, from the upper and lower halves of the ids."""
    both = (most ^ least).view(np.uint64)
    return ((both >> np.uint64(32)) ^ both).astype(np.uint32)


def spread(hashes: UInts) -> UInts:
    """Mix the upper bits into the lower ones, as HashMap does before it chooses a bucket."""
    return hashes ^ (hashes >> np.uint32(16))

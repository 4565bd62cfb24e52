"""What of Java shows in Kafka's answers: the order in which a HashMap is iterated."""

from collections.abc import Iterable

__all__ = ["hash_map_order", "string_hash"]


def string_hash(text: str) -> int:
    """`String.hashCode()`, as an unsigned 32-bit number."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """The order of a default HashMap on which `computeIfAbsent` was called with each of `keys`, repeats included.

    A new key goes to the head of its bucket. Each call, also one that finds its key, first doubles the table if it holds more than three quarters of
    its capacity. (Eight keys or more in one bucket become a tree, whose order is another; no test needs that.)
    """
    capacity = 16
    buckets: list[list[str]] = [[] for _ in range(capacity)]
    size = 0
    for key in keys:
        if size > capacity * 3 // 4:
            capacity *= 2
            # A split keeps the order within each half.
            halves: list[list[str]] = [[] for _ in range(capacity)]
            for held in (held for bucket in buckets for held in bucket):
                halves[_bucket(held, capacity)].append(held)
            buckets = halves
        bucket = buckets[_bucket(key, capacity)]
        if key not in bucket:
            bucket.insert(0, key)
            size += 1
    return [key for bucket in buckets for key in bucket]


def _bucket(key: str, capacity: int) -> int:
    spread = string_hash(key)
    return (spread ^ (spread >> 16)) & (capacity - 1)

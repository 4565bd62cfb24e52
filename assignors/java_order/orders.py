"""Orders of many keys at once, as arrays, from the keys' hashes.

Orders are given as positions: `order[k]` is the position, in the order of insertion, of the key
that is iterated as the k-th.

Why that needs no map: keys in one bucket were in one bucket of every smaller table as well, and
splits keep their order. So the order is that of the buckets of the last table, and within a bucket
that of insertion (`put`: last; `computeIfAbsent`: first). The exception are buckets of eight keys
and more, which make small tables grow and become trees in large ones; where some may occur, the
keys go through `JavaHashMap`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypedDict

import numpy as np

from quorate.assignors.java_order.hash_map import TREE_FROM, JavaHashMap, JavaHashSet, copied_set_capacity
from quorate.assignors.java_order.hashes import Ints, UInts, comparable, spread, string_hashes

__all__ = [
    "computed_map_order",
    "copied_set",
    "crowded",
    "hash_map_capacity",
    "hash_map_order",
    "placed",
    "timeline_order",
]

_FEW = 50
"""Fewer keys are put one after the other, which takes less time than arrays."""

_TIMELINE_FACTOR = np.uint64((-7046029254386353131) % (1 << 64))


def hash_map_capacity(size: int, initial: int = 16) -> int:
    """Buckets of a HashMap after `size` puts of different keys: it doubles when more than three quarters are taken."""
    capacity = initial
    while size > capacity * 3 // 4:
        capacity *= 2
    return capacity


def hash_map_order(hashes: UInts, capacity: int | None = None, *, keys: Sequence[Any] | None = None) -> Ints:
    """The order of a HashMap or HashSet into which keys with these hashes were put one after the other.

    `capacity`: buckets when it was made (a power of two; the default constructor's are 16); it
    grows as needed. `keys`: what the hashes are of; needed only for the order of keys with equal
    hashes in trees (that is, for texts that somebody chose so).
    """
    initial = capacity or 16
    spreaded = spread(hashes)
    if crowded(spreaded, initial, TREE_FROM + 1):
        made: JavaHashSet[int] = JavaHashSet(initial, **_positions(hashes, keys))
        for position in range(len(hashes)):
            made.add(position)
        return np.array(list(made), np.int64)
    buckets = spreaded & np.uint32(hash_map_capacity(len(hashes), initial) - 1)
    return np.argsort(buckets.astype(np.uint16) if len(buckets) < 1 << 15 else buckets, kind="stable")


def placed(texts: Collection[str], capacity: int) -> list[str] | None:
    """Texts as a HashMap of so many buckets, at least 64, iterates them, whatever else is in it.

    `None` if two are in one bucket: then it matters how they came there.
    """
    given = list(texts)
    buckets = (spread(string_hashes(given)) & np.uint32(capacity - 1)).tolist()
    places = dict(zip(buckets, given, strict=True))
    return [places[bucket] for bucket in sorted(places)] if len(places) == len(given) else None


def copied_set(texts: Sequence[str], jdk: int = 17) -> list[str]:
    """Texts as `new HashSet(collection)` iterates them on that JDK: as `JavaHashSet.of`, but fast where they are many."""
    if len(texts) < _FEW:
        return list(JavaHashSet.of(texts, jdk=jdk))
    keys = list(dict.fromkeys(texts))
    order = hash_map_order(string_hashes(keys), copied_set_capacity(len(texts), jdk), keys=keys)
    return list(map(keys.__getitem__, order.tolist()))


def computed_map_order(
    hashes: UInts, *, last_is_new: bool, capacity: int | None = None, keys: Sequence[Any] | None = None
) -> Ints:
    """The order of a HashMap that was filled by `computeIfAbsent`, keys given in the order in which they first came.

    `capacity`: buckets when it was made (a power of two; the default constructor's are 16). Unlike
    `put`, it adds at the head of a bucket, and grows, if too many keys are there already, before it
    looks the key up: so it also counts whether the last call brought a new key.
    """
    initial = capacity or 16
    spreaded = spread(hashes)
    if crowded(spreaded, initial, TREE_FROM):
        made: JavaHashMap[int, int] = JavaHashMap(initial, **_positions(hashes, keys))
        for position in range(len(hashes)):
            made.compute_if_absent(position, int)
        if not last_is_new:
            made.compute_if_absent(0, int)
        return np.array(list(made), np.int64)
    buckets = spreaded & np.uint32(hash_map_capacity(len(hashes) - last_is_new, initial) - 1)
    order: Ints = len(hashes) - 1 - np.argsort(buckets[::-1], kind="stable")
    return order


def timeline_order(hashes: UInts) -> Ints:
    """The order of Kafka's TimelineHashMap, made for no certain size, into which keys with these hashes were put one after the other.

    It starts with two slots and doubles before a key for which four thirds of them are too few;
    slots are chosen by the high bits of a product (`BaseHashTable`), and iterated newest key first.
    Members and target assignments of a group on the broker are in such maps.
    """
    capacity = 2
    while len(hashes) * 3 > capacity * 4:
        capacity *= 2
    signed = hashes.astype(np.int32).astype(np.int64).astype(np.uint64)
    slots = (signed * _TIMELINE_FACTOR) >> np.uint64(64 - capacity.bit_length() + 1)
    order: Ints = len(hashes) - 1 - np.argsort(slots[::-1], kind="stable")
    return order


def crowded(spreaded: UInts, initial: int, limit: int) -> bool:
    """Whether some bucket comes to hold `limit` keys while the table grows to take them all."""
    if len(spreaded) < limit:
        return False
    capacity = initial
    while True:
        # One more than fits: `put` grows afterwards, `computeIfAbsent` before the next.
        present = spreaded[: capacity * 3 // 4 + 1]
        if len(present) >= limit and np.bincount(present & np.uint32(capacity - 1)).max() >= limit:
            return True
        if len(spreaded) <= capacity * 3 // 4:
            return False
        capacity *= 2


class _Positions(TypedDict):
    hash_of: Callable[[int], int]
    order_of: Callable[[int], Any]


def _positions(hashes: UInts, keys: Sequence[Any] | None) -> _Positions:
    """Lets positions stand for the keys in a JavaHashMap."""
    return {
        "hash_of": hashes.tolist().__getitem__,
        "order_of": (lambda position: 0) if keys is None else (lambda position: comparable(keys[position])),
    }

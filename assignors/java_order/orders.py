"""Iteration orders of many keys at once, as arrays, computed from the keys' hashes.

An order is an array of positions: `order[k]` is the position, in insertion order, of the key that
is iterated as number `k`.

No map is needed: keys of one bucket were in one bucket of every smaller table too, and splits keep
their order. So keys are ordered by the buckets of the last table, and within a bucket by insertion
(`put`: last; `computeIfAbsent`: first). Buckets of eight keys and more are the exception: they make
small tables grow and become trees in large ones. If one may occur, the keys are inserted into a
`JavaHashMap`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypedDict

import numpy as np

from quorate.assignors.java_order.bulk_hashes import Ints, UInts, spread, string_hashes
from quorate.assignors.java_order.hash_map import TREE_FROM, JavaHashMap, JavaHashSet, hash_map_capacity
from quorate.assignors.java_order.hashes import comparable

_TIMELINE_FACTOR = np.uint64((-7046029254386353131) % (1 << 64))


def hash_map_order(hashes: UInts, capacity: int | None = None, *, keys: Sequence[Any] | None = None) -> Ints:
    """Return the iteration order of a HashMap or HashSet into which keys were put in turn.

    `capacity`: initial number of buckets (a power of two; 16 for the default constructor). `keys`:
    the keys of the hashes; needed only to order keys with equal hashes in tree buckets, which do
    not occur by chance.
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
    """Return texts in the iteration order of a HashMap with `capacity` buckets, at least 64.

    The map may have other keys. `None` if two texts share a bucket: then their order depends on the
    map's history.
    """
    given = list(texts)
    buckets = (spread(string_hashes(given)) & np.uint32(capacity - 1)).tolist()
    places = dict(zip(buckets, given, strict=True))
    return [places[bucket] for bucket in sorted(places)] if len(places) == len(given) else None


def computed_map_order(
    hashes: UInts, *, last_is_new: bool, capacity: int | None = None, keys: Sequence[Any] | None = None
) -> Ints:
    """Return the iteration order of a HashMap filled by `computeIfAbsent`.

    Keys are given in order of first insertion. `capacity`: initial number of buckets (a power of
    two; 16 for the default constructor). Unlike `put`, `computeIfAbsent` inserts at the head of a
    bucket, and grows a full table before the lookup. So `last_is_new` matters: whether the last
    call inserted a key.
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
    """Return the iteration order of Kafka's TimelineHashMap, into which keys were put in turn.

    Without an expected size it starts with two slots, and doubles before a key that exceeds four
    thirds of them. Slots are chosen by the high bits of a product (`BaseHashTable`), and iterated
    newest key first. On the broker, such maps hold a group's members and target assignments.
    """
    capacity = 2
    while len(hashes) * 3 > capacity * 4:
        capacity *= 2
    signed = hashes.astype(np.int32).astype(np.int64).astype(np.uint64)
    slots = (signed * _TIMELINE_FACTOR) >> np.uint64(64 - capacity.bit_length() + 1)
    order: Ints = len(hashes) - 1 - np.argsort(slots[::-1], kind="stable")
    return order


def crowded(spreaded: UInts, initial: int, limit: int) -> bool:
    """Return whether some bucket ever holds `limit` keys while the table grows to take all."""
    if len(spreaded) < limit:
        return False
    capacity = initial
    while True:
        # One key more than the threshold: `put` grows after it, `computeIfAbsent` before the next.
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
    """Return functions by which positions represent keys in a JavaHashMap."""
    return {
        "hash_of": hashes.tolist().__getitem__,
        "order_of": (lambda position: 0) if keys is None else (lambda position: comparable(keys[position])),
    }

"""Iteration orders of many small maps at once, such as one per member, or per member and topic.

The keys of all maps are in one array, map after map, each in insertion order. `maps[i]` is the
number of the map of key `i`, ascending.
"""

import numpy as np
import numpy.typing as npt

from quorate.assignors.java_order.bulk_hashes import Ints, UInts, spread

_COUNTED_AT_ONCE = 1 << 24
"""Maximum number of buckets that are counted in one array."""


def table_sizes(capacities: Ints) -> Ints:
    """Return the buckets of `new HashMap(capacity)` for each capacity: the next power of two."""
    _, bits = np.frexp((np.maximum(capacities, 1) - 1).astype(np.float64))
    return np.left_shift(1, bits.astype(np.int64))


def copied_set_capacities(sizes: Ints, jdk: int) -> Ints:
    """Return the buckets of `new HashSet(collection)` by size; see `copied_set_capacity`."""
    if jdk < 19:
        return table_sizes(np.maximum(sizes * 4 // 3 + 1, 16))
    return table_sizes((np.maximum(sizes, 12) * 4 + 2) // 3)


def grown(capacities: Ints, sizes: Ints) -> Ints:
    """Return the buckets of maps after inserts: a map doubles when over three quarters full.

    `capacities`: buckets before; `sizes`: keys in the end.
    """
    out = capacities.copy()
    while len(small := np.flatnonzero(sizes > out * 3 // 4)):
        out[small] *= 2
    return out


def set_order(maps: Ints, spreaded: UInts, capacities: Ints) -> Ints:
    """Return the positions of all keys in iteration order, map after map.

    Keys must have been inserted by `add` or `put`, and maps must not be crowded. `capacities`: the
    final number of buckets of each map.
    """
    return np.lexsort((spreaded.astype(np.int64) & (capacities - 1)[maps], maps))


def nested_order(
    of: Ints,
    maps: Ints,
    spreaded: UInts,
    capacities: Ints,
    new: npt.NDArray[np.bool_] | None,
    numbers: Ints,
    set_capacities: Ints,
) -> Ints:
    """Return the positions of all numbers in maps of sets, in iteration order.

    The order is by map, then by key, then by number. `of[i]`: the position of the key of number
    `i`; the numbers of a key are in insertion order. `maps` (ascending) and `spreaded` are per key,
    `capacities` per map, `set_capacities` per key. `new`: marks keys inserted by `computeIfAbsent`,
    after all keys inserted by `put`.
    """
    if not len(of):
        return np.empty(0, np.int64)
    sizes = np.bincount(maps, minlength=len(capacities))
    ranks = np.arange(len(maps)) - (np.cumsum(sizes) - sizes)[maps]
    most = int(sizes.max())
    if new is not None:
        ranks = np.where(new, most - 1 - ranks, most + ranks)
    buckets = spreaded.astype(np.int64) & (capacities - 1)[maps]
    places = (numbers ^ numbers >> 16) & (set_capacities - 1)[of]
    bits = [_bits(capacities) - 1, (2 * most).bit_length(), _bits(set_capacities) - 1, len(of).bit_length()]
    if len(capacities).bit_length() + sum(bits) > 63:
        return np.lexsort((np.arange(len(of)), places, ranks[of], buckets[of], maps[of]))
    key = (((maps << bits[0]) | buckets) << bits[1]) | ranks
    order = (key << bits[2])[of]
    order |= places
    if (order[1:] >= order[:-1]).all():
        return np.arange(len(of))
    order <<= bits[3]
    order |= np.arange(len(of))
    # The array is usually almost sorted, for which NumPy's stable sort is fast.
    order.sort(kind="stable")
    order &= (1 << bits[3]) - 1
    return order


def _bits(numbers: Ints) -> int:
    return int(numbers.max()).bit_length()


def crowded_maps(spreaded: UInts, initial: Ints, limit: int, *, sizes: Ints) -> npt.NDArray[np.bool_]:
    """Mark the maps in which some bucket ever holds `limit` keys.

    Each map grows from `initial[m]` buckets to take its `sizes[m]` keys. Marked maps must be
    followed step by step (`JavaHashMap`): such buckets make a small table grow and become trees in
    a large one.
    """
    crowded = np.zeros(len(initial), np.bool_)
    big = np.flatnonzero(sizes >= limit)
    if not len(big):
        return crowded
    starts = np.cumsum(sizes) - sizes
    # From here on only maps with at least `limit` keys, with new numbers.
    starts, sizes = starts[big], sizes[big]
    capacities = np.maximum(initial[big], _first_capacity(limit))
    alive = np.arange(len(big))
    while len(alive):
        # One key more than the threshold: `put` grows after it, `computeIfAbsent` before the next.
        present = np.minimum(sizes[alive], capacities[alive] * 3 // 4 + 1)
        ends = np.cumsum(present)
        keys = spreaded[np.repeat(starts[alive] - ends + present, present) + np.arange(ends[-1])]
        tables = capacities[alive]
        offsets = np.cumsum(tables) - tables
        buckets = (keys & np.repeat((tables - 1).astype(np.uint32), present)) + np.repeat(offsets, present)
        if int(tables.sum()) <= _COUNTED_AT_ONCE:
            many = np.flatnonzero(np.bincount(buckets) >= limit)
        else:
            different, counts = np.unique(buckets, return_counts=True)
            many = different[counts >= limit]
        crowded[big[alive[np.searchsorted(offsets, many, side="right") - 1]]] = True
        alive = alive[(sizes[alive] > capacities[alive] * 3 // 4) & ~crowded[big[alive]]]
        capacities[alive] *= 2
    return crowded


def crowded_numbers(numbers: Ints, initial: Ints, *, sizes: Ints) -> npt.NDArray[np.bool_]:
    """Return the same as `crowded_maps` with a limit of 9, for sets of numbers.

    Small numbers are usually too close together to share a bucket, which is checked first.
    """
    crowded = np.zeros(len(initial), np.bool_)
    if not len(numbers) or int(sizes.max()) < 9:
        return crowded
    starts = np.cumsum(sizes) - sizes
    spans = np.maximum.reduceat(numbers, starts) - np.minimum.reduceat(numbers, starts)
    # Nine numbers in one of n buckets are n apart; spreading does not change 16-bit numbers.
    apart = (sizes >= 9) & ((spans >= 8 * initial) | (int(numbers.max()) >> 16 > 0))
    if apart.any():
        chosen = np.flatnonzero(apart)
        keep = np.repeat(apart, sizes)
        spreaded = spread(numbers[keep].astype(np.uint32))
        crowded[chosen] = crowded_maps(spreaded, initial[chosen], 9, sizes=sizes[chosen])
    return crowded


def _first_capacity(limit: int) -> int:
    """Return the smallest table that can hold `limit` keys, and so have them in one bucket."""
    capacity = 1
    while capacity * 3 // 4 + 1 < limit:
        capacity *= 2
    return capacity

"""Orders of many small maps at once: one per member of a group, or one per member and topic.

Keys of all maps are in one array, map after map, within a map as they were inserted; `maps[i]` numbers the map of key `i`, ascending.
"""

import numpy as np
import numpy.typing as npt

from quorate.assignors.java_order.hashes import Ints, UInts

__all__ = ["copied_set_capacities", "crowded_maps", "grouped_order", "grown", "table_sizes"]

_COUNTED_AT_ONCE = 1 << 24
"""Buckets of many maps up to which one array counts them."""


def table_sizes(capacities: Ints) -> Ints:
    """Buckets of `new HashMap(capacity)`, for each capacity: the next powers of two."""
    _, bits = np.frexp((np.maximum(capacities, 1) - 1).astype(np.float64))
    return np.left_shift(1, bits.astype(np.int64))


def copied_set_capacities(sizes: Ints, jdk: int = 17) -> Ints:
    """Buckets of `new HashSet(collection)`, for each number of keys; see `copied_set_capacity`."""
    if jdk < 19:
        return table_sizes(np.maximum(sizes * 4 // 3 + 1, 16))
    return table_sizes((np.maximum(sizes, 12) * 4 + 2) // 3)


def grown(capacities: Ints, sizes: Ints) -> Ints:
    """Buckets after maps have taken so many keys, from what they had before: a map doubles when more than three quarters are taken."""
    out = capacities.copy()
    while len(small := np.flatnonzero(sizes > out * 3 // 4)):
        out[small] *= 2
    return out


def grouped_order(maps: Ints, spreaded: UInts, capacities: Ints, ranks: Ints | None = None) -> Ints:
    """The positions of all keys, map after map, each map's in the order of iteration.

    `capacities`: the buckets of each map, in the end. `ranks`: within a bucket, keys go by rank (below twice the number of keys) instead of as inserted.
    """
    count = len(maps)
    if count == 0:
        return np.empty(0, np.int64)
    buckets = spreaded.astype(np.int64)
    buckets &= (capacities - 1)[maps]
    rank_bits, bucket_bits = (2 * count).bit_length(), int(capacities.max()).bit_length() - 1
    if len(capacities).bit_length() + bucket_bits + rank_bits > 63:
        return np.lexsort((np.arange(count) if ranks is None else ranks, buckets, maps))
    keys = maps << bucket_bits
    keys |= buckets
    if ranks is None:
        if (keys[1:] >= keys[:-1]).all():
            return np.arange(count)
        keys <<= rank_bits
        keys |= np.arange(count)
        # Nearly sorted as a rule, which is what NumPy's stable sort is fast at.
        keys.sort(kind="stable")
        keys &= (1 << rank_bits) - 1
        return keys
    keys <<= rank_bits
    keys |= ranks
    return np.argsort(keys, kind="stable")


def crowded_maps(maps: Ints, spreaded: UInts, initial: Ints, limit: int) -> npt.NDArray[np.bool_]:
    """For each map, whether some bucket comes to hold `limit` keys while it grows from its `initial` buckets to take them all.

    Such maps have to be followed step by step (`JavaHashMap`): buckets of so many keys make a small table grow and become trees in a large one.
    """
    crowded = np.zeros(len(initial), np.bool_)
    sizes = np.bincount(maps, minlength=len(initial))
    big = sizes >= limit
    if not big.any():
        return crowded
    starts = np.cumsum(sizes) - sizes
    if not big.all():
        keep = big[maps]
        places = (np.arange(len(maps)) - starts[maps])[keep]
        maps, spreaded = maps[keep], spreaded[keep]
    else:
        places = np.arange(len(maps)) - starts[maps]
    capacities = initial.astype(np.int64)
    while len(maps):
        full = capacities * 3 // 4
        # One more than fits: `put` grows afterwards, `computeIfAbsent` before the next.
        present = places <= full[maps]
        buckets = _offsets(capacities)[maps[present]] + (spreaded[present] & (capacities - 1)[maps[present]])
        if int(capacities.sum()) <= _COUNTED_AT_ONCE:
            many = np.flatnonzero(np.bincount(buckets) >= limit)
        else:
            different, counts = np.unique(buckets, return_counts=True)
            many = different[counts >= limit]
        crowded[np.searchsorted(_offsets(capacities), many, side="right") - 1] = True
        growing = (sizes > full) & big & ~crowded
        keep = growing[maps]
        maps, spreaded, places = maps[keep], spreaded[keep], places[keep]
        capacities = np.where(growing, capacities * 2, capacities)
    return crowded


def _offsets(capacities: Ints) -> Ints:
    return np.cumsum(capacities) - capacities

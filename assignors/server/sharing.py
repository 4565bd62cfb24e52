"""The algorithm of `simple` for share groups (KIP-932): several members may own a partition.

Each partition goes to as many members as needed to give every member one. Partitions are shared in
pools: all topics if subscriptions are equal, otherwise each topic alone. In a pool of `n`
partitions and `m` subscribers each partition has `ceil(m / n)` holders, and the subscribers' shares
differ by one at most.

1. Members above their share lose partitions, and members that do not subscribe lose all.
2. Partitions with too many holders lose the first of them.
3. Partitions with too few holders are assigned to members with too few, one each, in rounds
   (`dealing`).

Which ones these are follows from the order of the broker's hash sets. Members are numbered in the
order of its HashMap here ("places").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from quorate.assignors import java_order
from quorate.assignors.java_order import JavaHashSet, UInts
from quorate.assignors.server.dealing import deal
from quorate.assignors.topology import Ints, concatenated

Bools = npt.NDArray[np.bool_]


class Pool:
    """Subscribers and the partitions shared among them.

    `subscribers`: places, ascending. `partitions`: the numbers of assignable partitions, in the
    order in which the broker lists them.
    """

    def __init__(self, subscribers: Ints, partitions: Ints) -> None:
        self.subscribers = subscribers
        self.partitions = partitions
        self.holders = -(-len(subscribers) // len(partitions)) if len(partitions) else 0
        """The required number of holders of each partition."""

    @cached_property
    def parts(self) -> Ints:
        """The number of partitions of each subscriber.

        Computed with doubles, to reproduce Kafka's rounding.
        """
        each = self.holders * len(self.partitions) / len(self.subscribers)
        sums: Ints = np.ceil(each * np.arange(len(self.subscribers) + 1)).astype(np.int64)
        return sums[1:] - sums[:-1]

    def parts_of(self, places: Ints) -> Ints:
        """Return the same for some places; 0 for those that do not subscribe."""
        found = np.minimum(np.searchsorted(self.subscribers, places), len(self.subscribers) - 1)
        return np.where(self.subscribers[found] == places, self.parts[found], 0)


@dataclass(frozen=True, slots=True)
class Held:
    """Held partitions: `pools[i]`, `places[i]`, `numbers[i]`.

    Sorted by pool, then by place, then in the broker's iteration order of a member's partitions.
    """

    pools: Ints
    places: Ints
    numbers: Ints


def share_out(pools: Sequence[Pool], held: Held, hashes: UInts, members: int) -> tuple[Ints, Ints, Ints]:
    """Return which of `held` are lost (positions), and the places and numbers of new ones.

    Both are in time order. `hashes`: of each partition of the topology, as a key of the broker's
    maps. Raises `AssignorError` where Kafka fails.
    """
    bounds = np.searchsorted(held.pools, np.arange(len(pools) + 1))
    kept = np.ones(len(held.places), np.bool_)
    above = _above_part(pools, held, bounds, hashes)
    kept[above] = False
    too_many = _in_map_order(pools, held, bounds, hashes, _too_many_holders(pools, held, kept))
    kept[too_many] = False
    places: list[Ints] = []
    numbers: list[Ints] = []
    # Pools of the same size without held partitions are assigned in the same way.
    made: dict[tuple[int, bytes, bytes], tuple[Ints, Ints]] = {}
    for pool, start, end in zip(pools, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if not len(pool.partitions):
            continue
        if start < end or len(pools) == 1:
            mine = slice(start, end)
            taking, taken = _dealt(pool, held, mine, kept[mine], hashes, members)
        else:
            base = pool.partitions[0]
            key = (len(pool.subscribers), (pool.partitions - base).tobytes(), hashes[pool.partitions].tobytes())
            if key not in made:
                row, taken = _dealt(pool, held, slice(0, 0), kept[:0], hashes, members)
                made[key] = np.searchsorted(pool.subscribers, row), taken - base
            taking, taken = pool.subscribers[made[key][0]], made[key][1] + base
        places.append(taking)
        numbers.append(taken)
    return np.concatenate([above, too_many]), concatenated(places), concatenated(numbers)


def _above_part(pools: Sequence[Pool], held: Held, bounds: Ints, hashes: UInts) -> Ints:
    """Return partitions above members' shares: of each member the first in HashSet order."""
    starts = np.flatnonzero((np.diff(held.pools, prepend=-1) != 0) | (np.diff(held.places, prepend=-1) != 0))
    sizes = np.diff(starts, append=len(held.places))
    pool_bounds = np.searchsorted(starts, bounds)
    parts = [
        pool.parts_of(held.places[starts[first:last]])
        for pool, first, last in zip(pools, pool_bounds[:-1].tolist(), pool_bounds[1:].tolist(), strict=True)
        if first < last
    ]
    excess = sizes - np.concatenate([np.empty(0, np.int64), *parts])
    over = np.flatnonzero(excess > 0)
    if not len(over):
        return over
    chosen = np.flatnonzero(np.repeat(excess > 0, sizes))
    order = _iterated(hashes[held.numbers[chosen]], sizes[over], np.ones(len(chosen), np.bool_))
    first_ones = _ranks(sizes[over]) < np.repeat(excess[over], sizes[over])
    return chosen[order[first_ones]]


def _too_many_holders(pools: Sequence[Pool], held: Held, kept: Bools) -> Ints:
    """Return the excess holders of partitions: of each partition the first in HashSet order."""
    if not len(held.numbers):
        return held.numbers
    limits = np.array([pool.holders for pool in pools])[held.pools]
    counts = np.bincount(held.numbers[kept], minlength=int(held.numbers.max()) + 1)
    chosen = np.flatnonzero(counts[held.numbers] > limits)
    if not len(chosen):
        return chosen
    # One partition after the other; its holders were added to the set in the order of their places.
    chosen = chosen[np.argsort(held.numbers[chosen], kind="stable")]
    starts = np.flatnonzero(np.diff(held.numbers[chosen], prepend=-1))
    sizes = np.diff(starts, append=len(chosen))
    alive = kept[chosen]
    # Holders that lost it have made the set grow, too.
    order = _iterated(held.places[chosen].astype(np.uint32), sizes, alive)
    excess = counts[held.numbers[chosen[starts]]] - limits[chosen[starts]]
    walked = chosen[order]
    still = np.cumsum(alive[order])
    before = np.repeat(np.append(0, still)[starts], sizes)
    first_ones: Ints = walked[alive[order] & (still - before <= np.repeat(excess, sizes))]
    return first_ones


def _in_map_order(pools: Sequence[Pool], held: Held, bounds: Ints, hashes: UInts, found: Ints) -> Ints:
    """Return the same positions in the order of the broker's map of held partitions."""
    out = [found[:0]]
    for number in np.unique(held.pools[found]).tolist():
        numbers = held.numbers[bounds[number] : bounds[number + 1]]
        known, firsts = _first_seen(numbers)
        order = java_order.computed_map_order(
            hashes[known], last_is_new=bool(firsts[-1] == len(numbers) - 1), capacity=_buckets(pools[number])
        )
        ranks = np.empty(len(known), np.int64)
        ranks[order] = np.arange(len(known))
        by_number = np.argsort(known)
        mine = found[held.pools[found] == number]
        places = by_number[np.searchsorted(known[by_number], held.numbers[mine])]
        out.append(mine[np.argsort(ranks[places], kind="stable")])
    return np.concatenate(out)


def _first_seen(numbers: Ints) -> tuple[Ints, Ints]:
    """Return the distinct numbers in order of first appearance, and the positions of the first."""
    if not len(numbers):
        return numbers, numbers
    keys = numbers - numbers.min()
    places = np.arange(len(keys), dtype=np.int32)
    first_places = np.empty(int(keys.max()) + 1, np.int32)
    first_places[keys[::-1]] = places[::-1]  # of equal keys the last one written remains
    firsts = np.flatnonzero(first_places[keys] == places)
    return numbers[firsts], firsts


def _buckets(pool: Pool) -> int:
    """Return the initial buckets of the broker's map of a pool's partitions."""
    return java_order.table_size((len(pool.partitions) + 1) * 4 // 3 + 1)


def _iterated(hashes: UInts, sizes: Ints, alive: Bools) -> Ints:
    """Return the positions of the keys of default HashSets, set after set in iteration order.

    The `i`-th set has `sizes[i]` keys. Keys that are not `alive` were removed after all were added;
    their position does not matter.
    """
    sets = np.repeat(np.arange(len(sizes)), sizes)
    sixteen = np.full(len(sizes), 16)
    spreaded = java_order.spread(hashes)
    order = java_order.set_order(sets, spreaded, java_order.grown(sixteen, sizes))
    starts = np.cumsum(sizes) - sizes
    for number in np.flatnonzero(java_order.crowded_maps(spreaded, sixteen, 9, sizes=sizes)).tolist():
        start, end = int(starts[number]), int(starts[number] + sizes[number])
        here = hashes[start:end].tolist()
        # Numbers with equal hashes are compared as numbers; pairs of topic and partition cannot be
        # compared.
        walked: JavaHashSet[int] = JavaHashSet(hash_of=here.__getitem__, order_of=here.__getitem__)
        for key in range(end - start):
            walked.add(key)
        out = [key for key in range(end - start) if not alive[start + key]]
        for key in out:
            walked.discard(key)
        order[start:end] = np.array([*walked, *out]) + start
    return order


def _ranks(sizes: Ints) -> Ints:
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _dealt(pool: Pool, held: Held, mine: slice, kept: Bools, hashes: UInts, members: int) -> tuple[Ints, Ints]:
    """Return the places and numbers of the partitions assigned in one pool."""
    places, numbers = held.places[mine], held.numbers[mine]
    left = pool.parts - np.bincount(places[kept], minlength=members)[pool.subscribers]
    row = np.flatnonzero(left > 0)
    if not len(row):
        return places[:0], numbers[:0]
    # The broker's map of partitions: those held before, then the others.
    known, _ = _first_seen(numbers)
    new = pool.partitions[~np.isin(pool.partitions, known)] if len(known) else pool.partitions
    keys = concatenated([known, new])
    base = keys.min()
    places, numbers = places[kept], numbers[kept]
    needs = pool.holders - np.bincount(numbers - base, minlength=int(keys.max() - base) + 1)[keys - base]
    wanting = needs > 0
    if not wanting.any():
        return places[:0], numbers[:0]
    order = java_order.computed_map_order(
        hashes[keys],
        last_is_new=len(new) > 0 and bool(new[-1] == pool.partitions[-1]),
        capacity=_buckets(pool),
    )
    if not wanting.all():
        order = order[wanting[order]]
    by_bucket = row[np.argsort(java_order.spread(pool.subscribers[row].astype(np.uint32)), kind="stable")]
    if len(numbers):
        touched = np.isin(numbers, keys[order])
        places, numbers = places[touched], numbers[touched]
    return deal(keys[order], needs[order], pool.subscribers[by_bucket], left[by_bucket], places, numbers, members)

"""The `max_moved` option of `lag-aware`.

Members keep their partitions, and few moves improve balance.

First partition counts are balanced, in the most uneven topic first; then lags. Each step is between
two members of a topic and makes their values more even, so no step makes balance worse, and the
steps end.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace

import numpy as np

from quorate.assignors.lag_aware.options import TopicDealer
from quorate.assignors.lag_aware.prepare import Table
from quorate.assignors.topology import Ints

_WORTH = 16
"""The smallest worthwhile step for lags: the lower member must gain 1/16 of the difference."""

_STUCK = 16
"""Number of members that cannot be improved before a topic is left as it is."""


def moved(table: Table, owner: Ints) -> int:
    """Return how many partitions move from an owner that subscribes to their topic."""
    return int(np.count_nonzero((table.owners >= 0) & (table.owners != owner)))


def within_bound(dealer: TopicDealer, bound: int) -> Ints:
    """Return the member of each partition (-1 without subscribers), with at most `bound` moves."""
    topics = [_Topic(dealer, topic) for topic in dealer.table.topics]
    skew = dealer.options.max_count_skew
    left = _repair(topics, bound, lambda topic: topic.count_gap - skew, lambda topic, left: topic.even_counts(skew))
    _repair(topics, left, lambda topic: topic.lag_gap, lambda topic, left: topic.even_lags(skew, left))
    owner: Ints = np.full(len(dealer.table.lags), -1, np.int64)
    for topic in topics:
        owner[topic.partitions] = topic.members[topic.holders()]
    return owner


def _repair(
    topics: "Sequence[_Topic]",
    left: int,
    gap: "Callable[[_Topic], int]",
    step: "Callable[[_Topic, int], int | None]",
) -> int:
    """Take steps in the topic with the largest gap, while moves and gaps are left.

    Returns the number of moves left.
    """
    queue = [(-gap(topic), number) for number, topic in enumerate(topics)]
    heapify(queue)
    while queue and queue[0][0] < 0 < left:
        topic = topics[queue[0][1]]
        cost = step(topic, left)
        if cost is None:  # no further improvement
            heappop(queue)
        else:
            left -= cost
            heapreplace(queue, (-gap(topic), queue[0][1]))
    return left


class _Topic:
    """The owners of a topic's partitions: at first the previous ones, and `deal` for the others."""

    def __init__(self, dealer: TopicDealer, topic: int) -> None:
        table = dealer.table
        first = table.topology.first
        self.partitions: Ints = table.by_lag[first[topic] : first[topic + 1]]
        self.members: Ints = table.subscribers(topic)
        self._lags = table.lags[self.partitions]
        owners = table.owners[self.partitions]
        self._owner: Ints = np.where(owners < 0, -1, np.searchsorted(self.members, owners))
        self._holder = self._owner.copy()
        free = self._owner < 0
        had = self._owner[~free]
        counts = np.bincount(had, minlength=len(self.members))
        totals = np.zeros(len(self.members), np.int64)
        np.add.at(totals, had, self._lags[~free])
        self._holder[free] = dealer.deal(topic, self.partitions[free], totals, counts)
        self._stuck: list[int] = []
        # Gaps are kept for all topics; details only for those that are repaired.
        self._detail: tuple[Ints, Ints, dict[int, list[tuple[int, int]]]] | None = None
        counts, totals = self._sums()
        self.count_gap = int(np.ptp(counts))
        self.lag_gap = int(np.ptp(totals))

    def holders(self) -> Ints:
        """Return for each of `partitions` the position in `members` of its owner."""
        return self._holder

    def _sums(self) -> tuple[Ints, Ints]:
        counts = np.bincount(self._holder, minlength=len(self.members))
        totals: Ints = np.zeros(len(self.members), np.int64)
        np.add.at(totals, self._holder, self._lags)
        return counts, totals

    def _details(self) -> tuple[Ints, Ints, dict[int, list[tuple[int, int]]]]:
        """Return counts, total lags, and each member's sorted (lag, position in `partitions`)."""
        if self._detail is None:
            held: dict[int, list[tuple[int, int]]] = {}
            for place in range(len(self.partitions) - 1, -1, -1):
                held.setdefault(int(self._holder[place]), []).append((int(self._lags[place]), place))
            for one in held.values():
                one.sort()
            self._detail = (*self._sums(), held)
        return self._detail

    def _give(self, giver: int, taker: int, item: tuple[int, int]) -> int:
        """Move one partition.

        Returns its cost: 1 if it leaves its owner, -1 if it returns to it.
        """
        counts, totals, held = self._details()
        lag, place = item
        held[giver].remove(item)
        insort(held.setdefault(taker, []), item)
        counts[giver] -= 1
        counts[taker] += 1
        totals[giver] -= lag
        totals[taker] += lag
        self._holder[place] = taker
        self.count_gap, self.lag_gap = int(np.ptp(counts)), int(np.ptp(totals))
        return self._cost(giver, taker, item)

    def _cost(self, giver: int, taker: int, item: tuple[int, int]) -> int:
        owner = int(self._owner[item[1]])
        return (owner == giver) - (owner == taker) if owner >= 0 else 0

    def even_counts(self, skew: int) -> int | None:
        """Move the partition that balances lags best from the member with the most partitions."""
        if self.count_gap <= skew:
            return None
        counts, totals, held = self._details()
        giver = _best(counts, totals)
        taker = _best(-counts, -totals)
        items = held[giver]
        ideal = (int(totals[giver]) - int(totals[taker])) // 2
        at = bisect_left(items, (ideal, -1))
        near = items[max(0, at - 1) : at + 1]
        return self._give(giver, taker, min(near, key=lambda item: (abs(item[0] - ideal), item)))

    def even_lags(self, skew: int, left: int) -> int | None:
        """Move or swap partitions between the members with the most and the least lag.

        Returns the cost; `None` if the topic cannot be improved. A member that cannot be improved
        is skipped next time.
        """
        counts, totals, held = self._details()
        givers = totals.copy()
        givers[self._stuck] = -1
        giver, taker = int(np.argmax(givers)), int(np.argmin(totals))
        gap = int(givers[giver]) - int(totals[taker])
        if gap <= 0:
            return None
        mine, theirs = held.get(giver, []), held.get(taker, [])
        best: tuple[int, int, tuple[int, int], tuple[int, int] | None] | None = None  # gain, -cost, given, taken
        highest, lowest = max(int(counts.max()), int(counts[taker]) + 1), min(int(counts.min()), int(counts[giver]) - 1)
        if highest - lowest <= max(skew, self.count_gap):
            at = bisect_left(mine, (gap // 2, -1))
            for item in mine[max(0, at - 1) : at + 1]:
                cost = self._cost(giver, taker, item)
                if cost <= left:
                    best = max(best or (0, 0, item, None), (min(item[0], gap - item[0]), -cost, item, None))
        if theirs:
            given = np.array([lag for lag, _ in mine], np.int64)
            taken = np.array([lag for lag, _ in theirs], np.int64)
            at_or_after = np.searchsorted(taken, given - gap // 2)
            for index in (np.minimum(at_or_after, len(taken) - 1), np.maximum(at_or_after - 1, 0)):
                shift = given - taken[index]
                gains = np.minimum(shift, gap - shift)
                place = int(np.argmax(gains))
                item, other = mine[place], theirs[int(index[place])]
                cost = self._cost(giver, taker, item) + self._cost(taker, giver, other)
                if cost <= left and (best is None or (int(gains[place]), -cost) > best[:2]):
                    best = (int(gains[place]), -cost, item, other)
        if best is None or best[0] <= 0 or best[0] * _WORTH < gap:
            self._stuck.append(giver)
            return None if len(self._stuck) > _STUCK else 0
        _, _, item, back = best
        return self._give(giver, taker, item) + (0 if back is None else self._give(taker, giver, back))


def _best(first: Ints, second: Ints) -> int:
    """Return the index of the largest `first`, and among equals the largest `second`."""
    among = np.flatnonzero(first == first.max())
    return int(among[np.argmax(second[among])])

"""What `lag-aware` does when its answer would move more partitions than may move: everybody keeps what it has, and few moves repair what is worst.

First numbers of partitions, topic by topic, the most uneven first; then lags. A repair is a step
between two members of a topic that makes these two more even than they were, so no step makes
anything worse, and the repairs end.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace

import numpy as np

from quorate.assignors.lag_aware.options import TopicDealer
from quorate.assignors.lag_aware.prepare import Table
from quorate.assignors.topology import Ints

__all__ = ["moved", "within_bound"]

_WORTH = 16
"""A step that evens out lags has to be worth it: what the lower of two members gains is at least
this part of their difference, 1/16.
"""

_STUCK = 16
"""Members of a topic that may turn out to be as low as they can get before the topic is left alone."""


def moved(table: Table, owner: Ints) -> int:
    """How many partitions go from a member that has them, and subscribes to their topic, to another one."""
    return int(np.count_nonzero((table.owners >= 0) & (table.owners != owner)))


def within_bound(dealer: TopicDealer, bound: int) -> Ints:
    """The member of each partition (-1: nobody subscribes), with at most `bound` partitions moved, in the sense of `moved`."""
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
    """Take steps in the topic with the largest gap while there are moves left and gaps.

    Returns the moves that are left.
    """
    queue = [(-gap(topic), number) for number, topic in enumerate(topics)]
    heapify(queue)
    while queue and queue[0][0] < 0 < left:
        topic = topics[queue[0][1]]
        cost = step(topic, left)
        if cost is None:  # nothing helps here
            heappop(queue)
        else:
            left -= cost
            heapreplace(queue, (-gap(topic), queue[0][1]))
    return left


class _Topic:
    """Who has which partitions of a topic: at first what it had before, and what nobody had goes where least is."""

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
        # Of all topics only the gaps are kept; who has what in detail only of those that are
        # repaired.
        self._detail: tuple[Ints, Ints, dict[int, list[tuple[int, int]]]] | None = None
        counts, totals = self._sums()
        self.count_gap = int(np.ptp(counts))
        self.lag_gap = int(np.ptp(totals))

    def holders(self) -> Ints:
        """For each of `partitions` the place in `members` of who has it."""
        return self._holder

    def _sums(self) -> tuple[Ints, Ints]:
        counts = np.bincount(self._holder, minlength=len(self.members))
        totals: Ints = np.zeros(len(self.members), np.int64)
        np.add.at(totals, self._holder, self._lags)
        return counts, totals

    def _details(self) -> tuple[Ints, Ints, dict[int, list[tuple[int, int]]]]:
        """Counts, total lags, and of each member (lag, place in `partitions`) ascending."""
        if self._detail is None:
            held: dict[int, list[tuple[int, int]]] = {}
            for place in range(len(self.partitions) - 1, -1, -1):
                held.setdefault(int(self._holder[place]), []).append((int(self._lags[place]), place))
            for one in held.values():
                one.sort()
            self._detail = (*self._sums(), held)
        return self._detail

    def _give(self, giver: int, taker: int, item: tuple[int, int]) -> int:
        """Hand one partition over.

        Returns what that costs: 1 if it leaves its owner, -1 if it comes back.
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
        """One partition from who has the most to who has the fewest: the one that evens out their lags best."""
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
        """A move, or an exchange of two partitions, between who has the most and who has the least lag; who cannot get lower is passed over next time.

        Returns the cost, `None` if the topic is to be left alone.
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
    """The index of the largest `first`, among equals of the largest `second`."""
    among = np.flatnonzero(first == first.max())
    return int(among[np.argmax(second[among])])

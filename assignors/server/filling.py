"""Assigns partitions of one topic after the other to the least loaded of its subscribers.

Subscribers are sorted by load. Those with the smallest load get one partition each, in that order.
Then they have the load of the next level, whose members join them at the end, and the round starts
again from the first. Loads are over all topics; each topic sorts again.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quorate.assignors.topology import Ints


def lowest_first(subscribers: Ints, loads: Ints) -> Ints:
    """Return the subscribers (ascending) sorted by load."""
    # NumPy's stable sort takes linear time for 16-bit numbers.
    least = int(loads.min())
    keys = (loads - least).astype(np.uint16) if int(loads.max()) - least < 1 << 16 else loads
    lowest: Ints = subscribers[np.argsort(keys, kind="stable")]
    return lowest


def takers_in_order(lowest: Ints, loads: Ints, count: int) -> Ints:
    """Return the member of each of `count` partitions, for subscribers sorted by `loads`."""
    level = int(loads[0])
    first = int(np.searchsorted(loads, level, side="right"))
    if count <= first:
        return lowest[:count]
    # One round per level, until all are at one level or no partition is left; then rounds of all.
    rounds = min(int(loads[-1]) - level + 1, count // first + 1)
    ends = np.searchsorted(loads, np.arange(level, level + rounds), side="right")
    given = np.cumsum(ends)
    if given[-1] < count:
        more = -(-(count - int(given[-1])) // len(lowest))
        ends = np.concatenate([ends, np.full(more, len(lowest))])
        given = np.cumsum(ends)
    used = int(np.searchsorted(given, count)) + 1
    ends, given = ends[:used], given[:used]
    places = np.arange(given[-1]) - np.repeat(given - ends, ends)
    takers: Ints = lowest[places[:count]]
    return takers


class Filler:
    """Assigns partitions to the subscribers of some topics.

    `alone`: these members subscribe to no topics of other fillers, so the next one is known without
    sorting each time. `loads` (per member of the group) is shared by all fillers. Those of such
    members are up to date only after `settle`.
    """

    __slots__ = ("_alone", "_flat", "_level", "_loads", "_next", "_row", "_row_members", "subscribers")

    def __init__(self, subscribers: Ints, loads: Ints, *, alone: bool) -> None:
        self.subscribers = subscribers
        self._loads = loads
        self._alone = alone
        # Members at the lowest level, as places among the subscribers and as members; the first
        # `_next` of them have got a partition and are one level higher.
        self._row: Ints = subscribers[:0]
        self._row_members: Ints = subscribers[:0]
        self._next = 0
        self._level = 0
        # Whether all others are exactly one level higher.
        self._flat = False

    def fill(self, count: int) -> Ints:
        """Return the members of the next `count` partitions, at least one, of a topic."""
        end = self._next + count
        if end > len(self._row):
            if not self._alone:
                return self._fill_sorted(count)
            if not self._flat:
                self.settle()
                self._find_lowest()
                end = count
            if end > len(self._row):
                return self._fill_two_levels(count) if self._flat else self._fill_sorted(count)
        takers: Ints = self._row_members[self._next : end]
        self._next = end
        return takers

    def settle(self) -> None:
        """Bring the loads up to date."""
        self._loads[self._row_members[: self._next]] = self._level + 1
        if self._flat:
            self._loads[self.subscribers] = self._level + 1
            self._loads[self._row_members[self._next :]] = self._level
        self._row, self._row_members, self._next, self._flat = self._row[:0], self._row_members[:0], 0, False

    def _find_lowest(self) -> None:
        loads = self._loads[self.subscribers]
        self._level = int(loads.min())
        self._row = np.flatnonzero(loads == self._level)
        self._row_members = self.subscribers[self._row]
        self._next = 0
        self._flat = int(loads.max()) <= self._level + 1

    def _fill_two_levels(self, count: int) -> Ints:
        """Return the members if all are at two levels: the rest of the lower, then all in turn."""
        low = self._row[self._next :]
        high = np.ones(len(self.subscribers), np.bool_)
        high[low] = False
        order = np.concatenate([low, high.nonzero()[0]])
        rounds, more = divmod(count - len(low), len(order))
        takers: Ints = self.subscribers[np.concatenate([low, *[order] * rounds, order[:more]])]
        self._row = np.sort(order[more:])
        self._row_members = self.subscribers[self._row]
        self._next = 0
        self._level += 1 + rounds
        return takers

    def _fill_sorted(self, count: int) -> Ints:
        loads = self._loads[self.subscribers]
        lowest = lowest_first(self.subscribers, loads)
        takers = takers_in_order(lowest, self._loads[lowest], count)
        self._row, self._row_members, self._next = self._row[:0], self._row_members[:0], 0
        if count <= int((loads == loads.min()).sum()):
            self._loads[takers] += 1  # each once
        else:
            self._loads += np.bincount(takers, minlength=len(self._loads))
        return takers


def fillers(places: Sequence[Ints], loads: Ints) -> list[Filler]:
    """Return one filler for each set of subscribers."""
    cover = np.bincount(np.concatenate([np.empty(0, np.int64), *places]), minlength=len(loads))
    shared: npt.NDArray[np.bool_] = cover > 1
    return [Filler(place, loads, alone=not shared[place].any()) for place in places]

"""Hands partitions of one topic after the other to the least loaded of its subscribers, as water fills a vessel.

Subscribers stand sorted by load. Those with the least get one partition each, in that order; then
they are as many as those of the next level, who join them at the end, and it starts over from the
first. Loads are of all topics; the next topic sorts anew.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quorate.assignors.topology import Ints

__all__ = ["Vessel", "lowest_first", "poured", "vessels"]


def lowest_first(subscribers: Ints, loads: Ints) -> Ints:
    """The subscribers (ascending) by their loads."""
    # Of 16-bit numbers NumPy's stable sort takes linear time.
    least = int(loads.min())
    keys = (loads - least).astype(np.uint16) if int(loads.max()) - least < 1 << 16 else loads
    lowest: Ints = subscribers[np.argsort(keys, kind="stable")]
    return lowest


def poured(lowest: Ints, loads: Ints, count: int) -> Ints:
    """Who gets each of `count` partitions, of subscribers that are sorted by `loads`."""
    level = int(loads[0])
    first = int(np.searchsorted(loads, level, side="right"))
    if count <= first:
        return lowest[:count]
    # One round per level, until all are at one level or nothing is left; then all of them again and
    # again.
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


class Vessel:
    """The subscribers of some topics.

    `alone`: no topic with other subscribers has any of them, so who is next is known without
    sorting them each time.

    `loads` (per member of the group) is shared by all vessels; that of those who stand alone is up
    to date only after `settle`.
    """

    __slots__ = ("_alone", "_flat", "_level", "_loads", "_next", "_row", "_row_members", "subscribers")

    def __init__(self, subscribers: Ints, loads: Ints, *, alone: bool) -> None:
        self.subscribers = subscribers
        self._loads = loads
        self._alone = alone
        # Those of the lowest level, as places among the subscribers and as members; the first
        # `_next` of them got theirs, and are one level higher.
        self._row: Ints = subscribers[:0]
        self._row_members: Ints = subscribers[:0]
        self._next = 0
        self._level = 0
        # All others are just one level higher.
        self._flat = False

    def pour(self, count: int) -> Ints:
        """Who gets the next `count` partitions, at least one, of a topic."""
        end = self._next + count
        if end > len(self._row):
            if not self._alone:
                return self._generally(count)
            if not self._flat:
                self.settle()
                self._look()
                end = count
            if end > len(self._row):
                return self._round_and_round(count) if self._flat else self._generally(count)
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

    def _look(self) -> None:
        loads = self._loads[self.subscribers]
        self._level = int(loads.min())
        self._row = np.flatnonzero(loads == self._level)
        self._row_members = self.subscribers[self._row]
        self._next = 0
        self._flat = int(loads.max()) <= self._level + 1

    def _round_and_round(self, count: int) -> Ints:
        """All are at two levels: first what is left of the lower one, then all in the order in which they stand now, again and again."""
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

    def _generally(self, count: int) -> Ints:
        loads = self._loads[self.subscribers]
        lowest = lowest_first(self.subscribers, loads)
        takers = poured(lowest, self._loads[lowest], count)
        self._row, self._row_members, self._next = self._row[:0], self._row_members[:0], 0
        if count <= int((loads == loads.min()).sum()):
            self._loads[takers] += 1  # each once
        else:
            self._loads += np.bincount(takers, minlength=len(self._loads))
        return takers


def vessels(places: Sequence[Ints], loads: Ints) -> list[Vessel]:
    """One for each set of subscribers."""
    cover = np.bincount(np.concatenate([np.empty(0, np.int64), *places]), minlength=len(loads))
    shared: npt.NDArray[np.bool_] = cover > 1
    return [Vessel(one, loads, alone=not shared[one].any()) for one in places]

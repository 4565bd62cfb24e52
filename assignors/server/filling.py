"""Hands partitions of one topic after the other to the least loaded of its subscribers, as water fills a vessel.

Subscribers stand sorted by load. Those with the least get one partition each, in that order; then they are as many as those of the next level, who join them at
the end, and it starts over from the first. Loads are of all topics; the next topic sorts anew.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from quorate.assignors.topology import Ints

__all__ = ["Vessel", "lowest_first", "poured"]


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
    # One round per level, until all are at one level or nothing is left; then all of them again and again.
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
    """The subscribers of some topics. `alone`: no other topic has subscribers of them, so while there are some of the lowest level left, they are the next.

    `loads` (per member of the group) is shared by all vessels; that of one who stands alone is up to date only after `settle`.
    """

    __slots__ = ("_alone", "_loads", "_next", "_row", "subscribers")

    def __init__(self, subscribers: Ints, loads: Ints, *, alone: bool) -> None:
        self.subscribers = subscribers
        self._loads = loads
        self._alone = alone
        self._row: Ints = subscribers[:0]
        self._next = 0

    def pour(self, count: int) -> Ints:
        """Who gets the next `count` partitions, at least one, of a topic."""
        end = self._next + count
        if end <= len(self._row):
            some: Ints = self._row[self._next : end]
            self._next = end
            return some
        self.settle()
        loads = self._loads[self.subscribers]
        if self._alone:
            row: Ints = self.subscribers[loads == loads.min()]
            if count <= len(row):
                self._row, self._next = row, count
                return row[:count]
        lowest = lowest_first(self.subscribers, loads)
        out = poured(lowest, self._loads[lowest], count)
        if count <= len(self.subscribers) and count <= int((loads == loads.min()).sum()):
            self._loads[out] += 1  # each once
        else:
            self._loads += np.bincount(out, minlength=len(self._loads))
        return out

    def settle(self) -> None:
        """Count in what went to those of the lowest level."""
        self._loads[self._row[: self._next]] += 1
        self._row, self._next = self._row[:0], 0


def vessels(places: Sequence[Ints], loads: Ints) -> list[Vessel]:
    """One for each set of subscribers."""
    cover = np.bincount(np.concatenate([np.empty(0, np.int64), *places]), minlength=len(loads))
    shared: npt.NDArray[np.bool_] = cover > 1
    return [Vessel(one, loads, alone=not shared[one].any()) for one in places]

"""Balances one topic: moves partitions from its most to its least loaded subscribers.

It ends when loads differ by one at most, or nothing can move. Members with the most partitions give
one each, from the end of the sorted subscribers backwards. Then the level falls by one, and members
at that level join in front. A member without partitions of the topic is swapped with the last of
those that give, and leaves.
"""

from typing import NamedTuple

import numpy as np

from quorate.assignors.server.filling import lowest_first
from quorate.assignors.topology import Ints

__all__ = ["Transfer", "transfers"]


class Transfer(NamedTuple):
    """A partition (by its position in the topic) that moves from one member to another."""

    partition: int
    giver: int
    taker: int


def transfers(subscribers: Ints, loads: Ints, owners: Ints) -> list[Transfer]:
    """Return the moves within one topic, in time order; the arguments are not changed.

    `subscribers` ascending, `loads` per member of the group, `owners` of the topic's partitions.
    Every owner must be a subscriber.
    """
    sorted_members = lowest_first(subscribers, loads[subscribers])
    level = loads[sorted_members]
    if int(loads[owners].max(initial=0)) - int(level[0]) <= 1:
        return []  # no owner has too many
    by_owner = np.argsort(owners, kind="stable")
    ordered = owners[by_owner]
    starts = np.searchsorted(ordered, sorted_members, side="left")
    ends = np.searchsorted(ordered, sorted_members, side="right")
    # Members after the first one that gives have left: swaps with itself change nothing.
    top = int(np.flatnonzero(ends > starts)[-1])
    return _moves(
        _Drain(sorted_members.tolist(), level.tolist(), starts.tolist(), ends.tolist(), top), by_owner.tolist()
    )


class _Drain:
    """Subscribers by sorted place; `row[i]` is the place of the one at position `i` after swaps."""

    __slots__ = ("ends", "giver", "giving_end", "giving_level", "giving_start", "level", "member", "row", "starts")

    def __init__(self, member: list[int], level: list[int], starts: list[int], ends: list[int], top: int) -> None:
        self.member = member
        self.level = level
        self.starts = starts
        self.ends = ends
        self.row = list(range(len(member)))
        self.giving_level = level[top]
        self.giving_start = self.giving_end = top + 1
        self._sink_to(self.giving_level)

    def _sink_to(self, level: int) -> None:
        self.giving_level = level
        row, levels = self.row, self.level
        start = self.giving_start
        while start > 0 and levels[row[start - 1]] == level:
            start -= 1
        self.giving_start = start
        self.giver = self.giving_end - 1

    def next_giver(self) -> int:
        """Return the place of the next member that gives a partition; -1 if there is none."""
        row, starts, ends = self.row, self.starts, self.ends
        while True:
            if self.giver < self.giving_start:
                if self.giving_end <= self.giving_start and self.giving_start > 0:
                    self._sink_to(self.level[row[self.giving_start - 1]])
                else:
                    self._sink_to(self.giving_level - 1)
            if self.giver < 0:
                return -1
            place = row[self.giver]
            if ends[place] > starts[place]:
                self.giver -= 1
                return place
            self.giving_end -= 1
            row[self.giver], row[self.giving_end] = row[self.giving_end], place
            self.giver -= 1


def _moves(drain: _Drain, by_owner: list[int]) -> list[Transfer]:
    moves: list[Transfer] = []
    row, level, member = drain.row, drain.level, drain.member
    taking_level, taking_end, taker = level[row[0]] - 1, 0, 0
    while (giving := drain.next_giver()) >= 0:
        drain.ends[giving] -= 1
        partition = by_owner[drain.ends[giving]]
        if taker >= taking_end:
            taking_level += 1
            while taking_end < len(row) and level[row[taking_end]] == taking_level:
                taking_end += 1
            taker = 0
        taking = row[taker]
        taker += 1
        if drain.giving_level - taking_level <= 1:
            break
        level[giving] -= 1
        level[taking] += 1
        moves.append(Transfer(partition, member[giving], member[taking]))
    return moves

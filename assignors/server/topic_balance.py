"""Balances one topic: moves partitions from its most to its least loaded subscribers.

A member's load is its number of partitions of all topics. The moves end when loads differ by one at
most, or no partition can move. Donors are the members with the highest load. Each gives one
partition, from the end of the sorted subscribers backwards. Then their load is lower by one, and
members with that load become donors, too. A donor that has no more partitions of the topic is
swapped with the last donor, and is no longer one.
"""

from typing import NamedTuple

import numpy as np

from quorate.assignors.server.filling import lowest_first
from quorate.assignors.topology import Ints


class PartitionMove(NamedTuple):
    """A partition (by its position in the topic) that moves from one member to another."""

    partition: int
    old_owner: int
    new_owner: int


def balancing_moves(subscribers: Ints, loads: Ints, owners: Ints) -> list[PartitionMove]:
    """Return the moves within one topic, in time order; the arguments are not changed.

    `subscribers` ascending, `loads` per member of the group, `owners` of the topic's partitions.
    Every owner must be a subscriber.
    """
    sorted_members = lowest_first(subscribers, loads[subscribers])
    sorted_loads = loads[sorted_members]
    if int(loads[owners].max(initial=0)) - int(sorted_loads[0]) <= 1:
        return []  # no owner has too many
    by_owner = np.argsort(owners, kind="stable")
    sorted_owners = owners[by_owner]
    starts = np.searchsorted(sorted_owners, sorted_members, side="left")
    ends = np.searchsorted(sorted_owners, sorted_members, side="right")
    # The last subscriber with a partition is the first donor: swaps of later ones change nothing.
    top = int(np.flatnonzero(ends > starts)[-1])
    donors = _Donors(sorted_members.tolist(), sorted_loads.tolist(), starts.tolist(), ends.tolist(), top)
    return _moves(donors, by_owner.tolist())


class _Donors:
    """The subscribers, of which those at `order[start:end]` are donors.

    `members`, `loads`, `starts` and `ends` are by sorted place. Of the partitions sorted by owner,
    a member's are those from `starts` to `ends`. `order[i]`: the place of the member at position
    `i` after swaps. `load`: the donors' load. `position`: that of the next donor.
    """

    __slots__ = ("end", "ends", "load", "loads", "members", "order", "position", "start", "starts")

    def __init__(self, members: list[int], loads: list[int], starts: list[int], ends: list[int], top: int) -> None:
        self.members = members
        self.loads = loads
        self.starts = starts
        self.ends = ends
        self.order = list(range(len(members)))
        self.load = loads[top]
        self.start = self.end = top + 1
        self._lower_to(self.load)

    def _lower_to(self, load: int) -> None:
        self.load = load
        order, loads = self.order, self.loads
        start = self.start
        while start > 0 and loads[order[start - 1]] == load:
            start -= 1
        self.start = start
        self.position = self.end - 1

    def next_donor(self) -> int:
        """Return the place of the next member that gives a partition; -1 if there is none."""
        order, starts, ends = self.order, self.starts, self.ends
        while True:
            if self.position < self.start:
                if self.end <= self.start and self.start > 0:
                    self._lower_to(self.loads[order[self.start - 1]])
                else:
                    self._lower_to(self.load - 1)
            if self.position < 0:
                return -1
            place = order[self.position]
            if ends[place] > starts[place]:
                self.position -= 1
                return place
            self.end -= 1
            order[self.position], order[self.end] = order[self.end], place
            self.position -= 1


def _moves(donors: _Donors, by_owner: list[int]) -> list[PartitionMove]:
    moves: list[PartitionMove] = []
    order, loads, members = donors.order, donors.loads, donors.members
    receivers_load, receivers_end, position = loads[order[0]] - 1, 0, 0
    while (donor := donors.next_donor()) >= 0:
        donors.ends[donor] -= 1
        partition = by_owner[donors.ends[donor]]
        if position >= receivers_end:
            receivers_load += 1
            while receivers_end < len(order) and loads[order[receivers_end]] == receivers_load:
                receivers_end += 1
            position = 0
        receiver = order[position]
        position += 1
        if donors.load - receivers_load <= 1:
            break
        loads[donor] -= 1
        loads[receiver] += 1
        moves.append(PartitionMove(partition, members[donor], members[receiver]))
    return moves

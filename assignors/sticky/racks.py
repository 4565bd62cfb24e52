"""Racks in the sticky assignors (KIP-881)."""

from dataclasses import dataclass

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.sticky.ownership import Bools
from quorate.assignors.topology import Ints


@dataclass(frozen=True, slots=True)
class RackView:
    """Racks of members and partitions.

    `aware`: whether racks affect the assignment; otherwise no pair mismatches. `readers`: for each
    of the topology's `rack_sets` the number of members in one of its racks; `None` if no member has
    a rack. `readers` orders the partitions even if `aware` is false.
    """

    group: GroupSpec
    aware: bool
    readers: Ints | None

    def mismatch(self, member: Ints, number: Ints) -> Bools:
        """Mark the pairs where `member[i]` would read partition `number[i]` from another rack.

        Members without a rack never mismatch.
        """
        if not self.aware:
            return np.zeros(len(member), np.bool_)
        rack = self.group.rack_of[member]
        return (rack >= 0) & ~self.group.local[rack, self.group.topology.replica_racks_of[number]]


def rack_view(group: GroupSpec, assignable: Bools) -> RackView:
    """Return whether and how racks matter.

    They do not if no member has a rack, no partition of the `assignable` topics is in one of the
    members' racks, or all these partitions are in the same racks.
    """
    if not group.racks:
        return RackView(group, False, None)
    topology = group.topology
    set_of = topology.replica_racks_of
    if not assignable.all():
        set_of = set_of[assignable[topology.topic_of]]
    members_in = np.bincount(group.rack_of[group.rack_of >= 0], minlength=len(group.racks))
    readers: Ints = members_in @ group.local.astype(np.int64)
    occurring = np.flatnonzero(np.bincount(set_of, minlength=len(topology.rack_sets))).tolist()
    every = frozenset[str]().union(*(topology.rack_sets[one] for one in occurring))
    aware = not every.isdisjoint(group.racks) and any(topology.rack_sets[one] != every for one in occurring)
    return RackView(group, aware, readers)

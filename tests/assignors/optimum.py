"""The worth of all assignments of a small group, in the order of goals of `rack-aware-uniform`."""

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from quorate.assignors import Assignment, GroupSpec, Member, Topology
from quorate.assignors.owners import previous_owners
from tests.assignors.groups import local, moves

Worth = tuple[tuple[int, ...], int, int]
"""Partition counts from largest to smallest, remote partitions, moves."""


def all_worths(members: Mapping[str, Member], topology: Topology, *, leader: bool = False) -> Iterator[Worth]:
    """Yield the worth of every assignment."""
    ids = list(members)
    owners = previous_owners(GroupSpec(members, topology)).tolist()
    choices, racks = [], []
    for number, at in enumerate(topology.topic_partitions(np.arange(int(topology.first[-1])))):
        candidates = [place for place, member in enumerate(ids) if at.topic in members[member].topics]
        if candidates:
            listed = topology.replica_racks[topology.replica_racks_of[number]]
            racks.append(((listed[:1] if leader else listed), owners[number]))
            choices.append(candidates)
    for chosen in product(*choices):
        counts = [0] * len(ids)
        remote = moved = 0
        for place, (listed, owner) in zip(chosen, racks, strict=True):
            counts[place] += 1
            remote += not (members[ids[place]].rack and members[ids[place]].rack in listed)
            moved += owner not in (-1, place)
        yield tuple(sorted(counts, reverse=True)), remote, moved


def worth(assignment: Assignment, members: Mapping[str, Member], topology: Topology, *, leader: bool = False) -> Worth:
    """Return the worth of one assignment."""
    remote = len(assignment.partitions) - local(assignment, members, leader=leader)
    return tuple(sorted(assignment.counts.tolist(), reverse=True)), remote, moves(assignment, members, topology)

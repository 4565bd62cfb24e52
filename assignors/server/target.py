"""Builds the target assignment of a group from the new targets of changed members."""

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.server.assignor import TargetAssignment
from quorate.assignors.topology import Ints, runs

__all__ = ["target_of_all", "target_of_changed"]


def target_of_changed(group: GroupSpec, changed: Ints, numbers: Ints, counts: Ints) -> TargetAssignment:
    """Return the target assignment if only the members `changed` get new partitions.

    `numbers`: their partitions, member after member, `counts[i]` of the `i`-th.
    """
    lengths = group.owned_counts.copy()
    lengths[changed] = counts
    new_offsets = np.zeros(len(group) + 1, np.int64)
    np.cumsum(lengths, out=new_offsets[1:])
    partitions = np.empty(new_offsets[-1], np.int64)
    if len(changed) < len(group):
        same = np.ones(len(group), np.bool_)
        same[changed] = False
        partitions[np.repeat(same, lengths)] = group.owned[same[group.owning]]
    partitions[runs(new_offsets[changed], counts)] = numbers
    assignment = Assignment(group.topology, group.member_ids, new_offsets, partitions)
    return TargetAssignment(group, assignment, changed)


def target_of_all(group: GroupSpec, numbers: Ints, counts: Ints) -> TargetAssignment:
    """Return the target assignment of partitions `numbers`, member after member in group order.

    Determines which members' targets differ from the previous ones.
    """
    ends = np.cumsum(counts)
    differ = counts != group.owned_counts
    if len(group.owned):
        owner = np.full(group.topology.first[-1] + 1, -1, np.int64)  # the last one is that of -1, a deleted partition
        owner[numbers] = np.repeat(np.arange(len(group)), counts)
        owner[-1] = -1
        differ[group.owning[owner[group.owned] != group.owning]] = True
    changed = group.hash_order[differ[group.hash_order]]
    if len(changed) == len(group):
        offsets = np.concatenate([[0], ends])
        return TargetAssignment(group, Assignment(group.topology, group.member_ids, offsets, numbers), changed)
    mine = runs((ends - counts)[changed], counts[changed])
    return target_of_changed(group, changed, numbers[mine], counts[changed])

"""Makes the new target of a group out of the new targets of those members whose target changed."""

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.server.assignor import TargetAssignment
from quorate.assignors.topology import Ints

__all__ = ["target_of_all", "target_of_changed"]


def target_of_changed(group: GroupSpec, changed: Ints, numbers: Ints, counts: Ints) -> TargetAssignment:
    """`numbers`: the partitions of the members `changed`, member after member, `counts[i]` of the `i`-th. All others keep what they own."""
    offsets = group.owned_offsets
    lengths = np.diff(offsets)
    lengths[changed] = counts
    new_offsets = np.zeros(len(group) + 1, np.int64)
    np.cumsum(lengths, out=new_offsets[1:])
    partitions = np.empty(new_offsets[-1], np.int64)
    if len(changed) < len(group):
        same = np.ones(len(group), np.bool_)
        same[changed] = False
        partitions[np.repeat(same, lengths)] = group.owned[np.repeat(same, np.diff(offsets))]
    starts = np.cumsum(counts) - counts
    partitions[np.repeat(new_offsets[:-1][changed] - starts, counts) + np.arange(len(numbers))] = numbers
    assignment = Assignment(group.topology, group.member_ids, new_offsets, partitions)
    return TargetAssignment(group, assignment, changed)


def target_of_all(group: GroupSpec, numbers: Ints, counts: Ints) -> TargetAssignment:
    """`numbers`: the partitions of all members, member after member in the group's order. Finds out whose content is another than before."""
    ends = np.cumsum(counts)
    lengths = np.diff(group.owned_offsets)
    differ = counts != lengths
    if len(group.owned):
        owner = np.full(
            group.topology.first[-1] + 1, -1, np.int64
        )  # the last one is that of -1, a partition that is gone
        owner[numbers] = np.repeat(np.arange(len(group)), counts)
        owner[-1] = -1
        members = np.repeat(np.arange(len(group)), lengths)
        differ[members[owner[group.owned] != members]] = True
    changed = group.hash_order[differ[group.hash_order]]
    if len(changed) == len(group):
        offsets = np.concatenate([[0], ends])
        return TargetAssignment(group, Assignment(group.topology, group.member_ids, offsets, numbers), changed)
    counts_changed = counts[changed]
    starts = np.cumsum(counts_changed) - counts_changed
    mine = np.repeat((ends - counts)[changed] - starts, counts_changed) + np.arange(counts_changed.sum())
    return target_of_changed(group, changed, numbers[mine], counts_changed)

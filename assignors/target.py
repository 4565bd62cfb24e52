"""Target assignments of the coordinator: which members changed, and their records."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.topology import BLOCK, Ints, runs
from quorate.codecs import Uuid
from quorate.codecs.message_methods import positional

Record = tuple[tuple[Uuid, tuple[int, ...]], ...]
"""A member's target assignment as the coordinator writes it: topic ids with partitions."""


class TargetAssignment:
    """A new target assignment.

    - `assignment`: that of all members. The partitions of changed members are in record order.
    - `special_records`: records with deleted topics or topics without partitions, which
      `assignment` cannot hold.
    """

    __slots__ = ("_changed", "assignment", "group", "special_records")

    def __init__(
        self,
        group: GroupSpec,
        assignment: Assignment,
        changed: Ints | Callable[[], Ints],
        special_records: Mapping[int, Record] = MappingProxyType({}),
    ) -> None:
        self.group = group
        self.assignment = assignment
        self._changed: Ints | list[int] | Callable[[], Ints] | None = changed
        self.special_records = special_records

    @property
    def changed(self) -> Ints:
        """The numbers of members whose target differs from the previous one.

        They are in the order in which the coordinator writes their records. (For a member without a
        previous target it writes an empty record too.)
        """
        changed = self._changed
        if callable(changed):
            changed = changed()
        elif changed is None:
            changed = changed_members(self.group, self.assignment.partitions, self.assignment.counts)
        elif isinstance(changed, list):
            changed = np.array(changed, np.int64)
        self._changed = changed
        return changed

    def record(self, member: int) -> Record:
        """Return the record of a changed member; `member` is its number in the group."""
        if member in self.special_records:
            return self.special_records[member]
        topology = self.group.topology
        numbers = self.assignment.partitions[self.assignment.offsets[member] : self.assignment.offsets[member + 1]]
        pairs = zip(topology.topic_of[numbers].tolist(), topology.partition_of[numbers].tolist(), strict=True)
        return tuple(
            (_required(topology.topics[topic].id), tuple(partition for _, partition in partitions))
            for topic, partitions in groupby(pairs, key=itemgetter(0))
        )


def _required(topic_id: Uuid | None) -> Uuid:
    assert topic_id is not None  # assigned topics have an id
    return topic_id


def target_of_changed(group: GroupSpec, changed: Ints, numbers: Ints, counts: Ints) -> TargetAssignment:
    """Return the target assignment if only the members `changed` get new partitions.

    `numbers`: their partitions, member after member, `counts[i]` of the `i`-th.
    """
    lengths = group.owned_counts.copy()
    lengths[changed] = counts
    new_offsets = np.zeros(len(group) + 1, np.int64)
    np.cumsum(lengths, out=new_offsets[1:])
    partitions = np.empty(new_offsets[-1], np.int64)
    _keep_others(group, changed, new_offsets, partitions)
    step = _members_at_once(group, len(partitions))
    for start in range(0, len(changed), step):
        places = runs(new_offsets[changed[start : start + step]], counts[start : start + step])
        partitions[places] = numbers[: len(places)]
        numbers = numbers[len(places) :]
    assignment = Assignment(group.topology, group.member_ids, new_offsets, partitions)
    return TargetAssignment(group, assignment, changed)


def target_of_all(group: GroupSpec, numbers: Ints, counts: Ints) -> TargetAssignment:
    """Return the target assignment of partitions `numbers`, member after member in group order."""
    offsets = np.concatenate([[0], np.cumsum(counts)])
    assignment = Assignment(group.topology, group.member_ids, offsets, numbers)
    return TargetAssignment(group, assignment, lambda: changed_members(group, numbers, counts))


def changed_members(group: GroupSpec, numbers: Ints, counts: Ints) -> Ints:
    """Return the members whose partitions differ from the previous ones, in HashMap order.

    `numbers`: the new partitions, member after member in group order, `counts[m]` of member `m`.
    """
    differ = counts != group.owned_counts
    if len(group.owned):
        owner = np.full(group.topology.first[-1] + 1, -1, np.int32)  # the last one is that of -1, a deleted partition
        owner[numbers] = np.repeat(np.arange(len(group), dtype=np.int32), counts)
        owner[-1] = -1
        differ[group.owning[owner[group.owned] != group.owning]] = True
    changed: Ints = group.hash_order[differ[group.hash_order]]
    return changed


def _keep_others(group: GroupSpec, changed: Ints, offsets: Ints, partitions: Ints) -> None:
    """Write the owned partitions of members that are not `changed` to `partitions`."""
    if len(changed) == len(group) or not len(group.owned):
        return
    same = np.ones(len(group), np.bool_)
    same[changed] = False
    lengths = np.diff(offsets)
    step = _members_at_once(group, len(partitions))
    for start in range(0, len(group), step):
        block, end = slice(start, start + step), min(start + step, len(group))
        new = partitions[offsets[start] : offsets[end]]
        old = group.owned[group.owned_offsets[start] : group.owned_offsets[end]]
        new[np.repeat(same[block], lengths[block])] = old[np.repeat(same[block], group.owned_counts[block])]


def _members_at_once(group: GroupSpec, partitions: int) -> int:
    """Return for how many members the arrays of their partitions are short; see `BLOCK`."""
    return max(1, len(group) * BLOCK // (partitions + len(group.owned) + 1))


_target = positional(TargetAssignment, "group", "assignment", "_changed", "special_records")
_NO_RECORDS: Mapping[int, Record] = MappingProxyType({})


def target_of_lists(
    group: GroupSpec, numbers: list[Sequence[int]], changed: list[int] | None = None
) -> TargetAssignment:
    """Return the target assignment of the partitions of each member.

    `changed`: members that get new ones; by default they are found when they are read.
    """
    return _target(group, Assignment.from_lists(group.topology, group.member_ids, numbers), changed, _NO_RECORDS)

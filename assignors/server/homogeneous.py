"""`uniform` for equal subscriptions: all members get the same number of partitions, or one more.

Members are visited in the order of the broker's HashMap. Each may keep its share of owned
partitions. Partitions above that, and those without an owner, are assigned in one row to members
below their share. The extra partitions go to members that would lose one otherwise, and then to the
last members (KAFKA-18688; in 4.0.0 to the first members, whatever they own).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, filterfalse

import numpy as np
import numpy.typing as npt

from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, AssignorError
from quorate.assignors.server.homogeneous_few import (
    LEFT_OVER,
    FewMembers,
    Previous,
    assign_lists,
    previous_target,
)
from quorate.assignors.server.ids import few_in_broker_order, subscribed_few, subscribed_set
from quorate.assignors.server.layout import Step, lay_out, lay_out_first, replayed
from quorate.assignors.server.old_targets import OldTargets, deleted_topics, old_targets
from quorate.assignors.target import TargetAssignment, target_of_changed, target_of_lists
from quorate.assignors.topology import Ints, stable_order
from quorate.codecs.extension import extension

Bools = npt.NDArray[np.bool_]

FEW = 1000
"""For so many members and partitions together, or fewer, lists are faster.

A quarter of that without previous targets: then all members change.
"""


def assign_homogeneous(group: GroupSpec, jdk: int, *, stable: bool) -> TargetAssignment:
    """Return the new target assignment.

    `stable`: members keep their extra partition, as since `STABLE_SINCE`. Raises `AssignorError` if
    a topic has no id, or if partitions are left over, which happens only if a partition has several
    owners.
    """
    if group.size <= FEW and (group.size <= FEW // 4 or any(group.owned_lists)):
        return assign_few(group, jdk, stable=stable)
    topology = group.topology
    order = group.hash_order
    topics = subscribed_set(group, int(group.listing_of[order[0]]), jdk)
    subscribed = np.zeros(len(topology), np.bool_)
    subscribed[topics] = True
    lengths = group.owned_counts[order]
    has = _owned_of(group, subscribed)[order]
    total = int(topology.sizes[topics].sum())
    shares = _shares(has, total, stable=stable)
    keeps = np.minimum(has, shares)
    wanted = shares - keeps
    if total and not len(group.owned) and not len(group.withheld) and topology.has_short_ranges:
        return _first_target(group, topics, wanted, jdk)
    row = _unowned(group, topics)
    # From here on only members whose target changes. A slot is one of them, in HashMap order.
    changing = np.flatnonzero((keeps < lengths) | (wanted > 0))
    old = old_targets(group, order[changing], jdk)
    kept, revoked = _revoked(old, subscribed, keeps[changing])
    row = np.concatenate([row, revoked]) if len(revoked) else row
    if len(row) > wanted.sum():
        raise AssignorError(LEFT_OVER)
    got = wanted[changing]
    if len(row) < got.sum():  # some partitions have several owners
        got = np.diff(np.minimum(np.cumsum(got), len(row)), prepend=0)
    new_slots = np.repeat(np.arange(len(changing)), got)
    numbers, crowded = lay_out(topology, old, kept, new_slots, row, None, jdk, each_once=not len(revoked))
    counts = keeps[changing] + got
    ends = np.cumsum(counts)
    for slot in np.flatnonzero(crowded).tolist():
        steps = _steps(old, kept, subscribed, slot, row[new_slots == slot])
        numbers[ends[slot] - counts[slot] : ends[slot]] = replayed(group, int(order[changing[slot]]), steps, None, jdk)
    if not (changed := (counts != lengths[changing]) | (got > 0)).all():
        numbers, counts, changing = numbers[np.repeat(changed, counts)], counts[changed], changing[changed]
    return target_of_changed(group, order[changing], numbers, counts)


def assign_few(group: GroupSpec, jdk: int, *, stable: bool) -> TargetAssignment:
    """Return the same, computed in C or with lists."""
    native = extension()
    targets: list[Sequence[int]] = [*group.owned_lists]
    if native is not None and not len(group.withheld):
        order = group.hash_places
        topics, names = few_in_broker_order(group, group.listing_numbers[order[0]], jdk)
        changed = native.assign_uniform(group.topology.lists.packed, topics, names, order, targets, jdk, stable)
        if changed is not None:
            return target_of_lists(group, targets, changed)
        targets = [*group.owned_lists]
    found = assign_lists(_few_members(group, jdk), jdk, stable=stable)
    for member, target in found:
        targets[member] = target
    return target_of_lists(group, targets, [member for member, _ in found])


def _first_target(group: GroupSpec, topics: Ints, wanted: Ints, jdk: int) -> TargetAssignment:
    """Return the target assignment if no partition has an owner."""
    topology = group.topology
    changing = np.flatnonzero(wanted)
    members, counts = group.hash_order[changing], wanted[changing]
    numbers, crowded = lay_out_first(topology, topics, members, counts)
    lengths = np.zeros(len(group), np.int64)
    lengths[members] = counts
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if crowded.any():
        row, ends = topology.partitions_of(topics), np.cumsum(counts)
        for slot in np.flatnonzero(crowded).tolist():
            steps = [(Step.ADD, number) for number in row[ends[slot] - counts[slot] : ends[slot]].tolist()]
            member = int(members[slot])
            numbers[offsets[member] : offsets[member + 1]] = replayed(group, member, steps, None, jdk)
    return TargetAssignment(group, Assignment(topology, group.member_ids, offsets, numbers), members)


def _few_members(group: GroupSpec, jdk: int) -> FewMembers:
    """Return the group as lists."""
    lists, owned = group.topology.lists, group.owned_lists
    first, topic_of = lists.first, lists.topic_of
    order = group.hash_places
    topics = subscribed_few(group, group.listing_numbers[order[0]], jdk)
    unowned: list[int] = []
    for topic in topics:
        unowned += range(first[topic], first[topic + 1])
    total = len(unowned)
    counts = usable = list(map(len, owned))
    if not any(counts) and not len(group.withheld):
        return FewMembers(lists, topics, order, counts, counts, unowned, total, partial(previous_of, group, jdk))
    taken = taken_partitions(group)
    unowned = [*filterfalse(taken.__contains__, unowned)]
    if total < group.topology.partition_count or -1 in taken:
        subscribed = frozenset(topics)
        usable = [sum(number >= 0 and topic_of[number] in subscribed for number in numbers) for numbers in owned]
    return FewMembers(lists, topics, order, counts, usable, unowned, total, partial(previous_of, group, jdk))


def taken_partitions(group: GroupSpec) -> frozenset[int]:
    """Return the partitions that have an owner for the broker."""
    found: frozenset[int] | None = group.from_owned.get("taken")
    if found is None:
        found = group.from_owned["taken"] = frozenset(chain(*group.owned_lists, group.withheld.tolist()))
    return found


def previous_of(group: GroupSpec, jdk: int, member: int) -> Previous:
    """Return the previous target of a member as the broker's map has it."""
    key = ("previous", member, jdk)
    found: Previous | None = group.from_owned.get(key)
    if found is None:
        lists, numbers, deleted = group.topology.lists, group.owned_lists[member], 0
        if -1 in numbers:
            numbers, deleted = [number for number in numbers if number >= 0], deleted_topics(group, member)
        found = group.from_owned[key] = previous_target(lists, lists.by_topic(numbers), deleted, jdk)
    return found


def _unowned(group: GroupSpec, topics: Ints) -> Ints:
    """Return the partitions of the topics, topic after topic, that have no owner for the broker."""
    topology = group.topology
    if not len(group.owned) and not len(group.withheld):
        return topology.partitions_of(topics)
    free = np.ones(topology.first[-1] + 1, np.bool_)
    free[group.owned] = False
    free[group.withheld] = False
    row = np.flatnonzero(free[:-1])  # the last one is that of -1, a deleted partition
    rank = np.full(len(topology), len(topics), np.int64)
    rank[topics] = np.arange(len(topics))
    ranks = rank[topology.topic_of[row]]
    return row[stable_order(ranks, len(topics) + 1)[: np.count_nonzero(ranks < len(topics))]]


def _owned_of(group: GroupSpec, subscribed: Bools) -> Ints:
    """Return the number of owned partitions of subscribed topics for each member."""
    owned = group.owned
    if not len(owned) or (subscribed.all() and owned.min() >= 0):
        return group.owned_counts
    if not len(group.topology.topic_of):  # all topics were deleted, or have no partitions
        return np.zeros(len(group), np.int64)
    counting = np.zeros(len(owned) + 1, np.int64)
    np.cumsum(subscribed[group.topology.topic_of[owned]] & (owned >= 0), out=counting[1:])
    return np.diff(counting[group.owned_offsets])


def _shares(has: Ints, total: int, *, stable: bool) -> Ints:
    """Return the number of partitions of each member, in HashMap order."""
    members = len(has)
    least, extra = divmod(total, members)
    shares = np.full(members, least)
    if not stable:
        shares[:extra] += 1
    elif extra:
        more = has > least
        left = np.maximum(extra - np.cumsum(more) + more, 0)
        # Once members left are no more than extra partitions left, each of them gets one.
        rest = np.flatnonzero((np.arange(members, 0, -1) <= left) & (left > 0))
        shares += more & (left > 0)
        if len(rest):
            shares[rest[0] :] = least + 1
    return shares


def _revoked(old: OldTargets, subscribed: Bools, keeps: Ints) -> tuple[Bools | None, Ints]:
    """Return which partitions members keep (`None`: all), and those above their share, in order."""
    if not len(old.numbers):
        return None, old.numbers
    wanted = subscribed[old.topics]
    before = np.arange(len(wanted)) if wanted.all() else np.cumsum(wanted) - wanted
    starts = np.searchsorted(old.slots, np.arange(len(keeps)))
    first = before[np.minimum(starts, len(before) - 1)]
    within = before - first[old.slots] < keeps[old.slots]
    kept = wanted & within
    return (None if kept.all() else kept), old.numbers[wanted & ~within]


def _steps(old: OldTargets, kept: Bools | None, subscribed: Bools, slot: int, new: Ints) -> Iterator[tuple[Step, int]]:
    """Yield the changes of one member's target, in time order."""
    here = np.flatnonzero(old.slots == slot)
    dropped: set[int] = set()
    for place in here.tolist() if kept is not None else ():
        topic = int(old.topics[place])
        if not subscribed[topic]:
            if topic not in dropped:
                dropped.add(topic)
                yield Step.DROP, topic
        elif kept is not None and not kept[place]:
            yield Step.REMOVE, int(old.numbers[place])
    for number in new.tolist():
        yield Step.ADD, number

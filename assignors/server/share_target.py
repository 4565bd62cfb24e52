"""Builds the target assignment of a share group from revoked and assigned partitions.

It works as `layout` for consumer groups, with two differences: a topic whose partitions a member
lost stays in its map without partitions, and deleted topics may stay too.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.assignors.model import Assignment
from quorate.assignors.server.layout import lay_out
from quorate.assignors.server.old_targets import old_targets
from quorate.assignors.server.sharing import Held
from quorate.assignors.target import Record, TargetAssignment, target_of_changed
from quorate.assignors.topology import Ints, stable_order
from quorate.codecs import Uuid

Bools = npt.NDArray[np.bool_]


def share_target(
    group: GroupSpec, given: Held, places: Ints, numbers: Ints, subscribed: Bools | None, jdk: int
) -> TargetAssignment:
    """Return the target assignment.

    `given`: partitions that members lost; `places` got `numbers`. Both are in time order.
    `subscribed`: the topics that members subscribe to, all others are removed; `None` removes none.
    """
    topology, order = group.topology, group.hash_order
    total = int(topology.first[-1])
    lost_keys, new_keys = given.places * total + given.numbers, places * total + numbers
    back = np.intersect1d(lost_keys, new_keys) if len(lost_keys) and len(new_keys) else lost_keys[:0]
    dropped = _dropped(group, subscribed)
    changed = dropped.copy()
    changed[given.places[~np.isin(lost_keys, back)]] = True
    changed[places[~np.isin(new_keys, back)] if len(back) else places] = True
    changing = np.flatnonzero(changed)
    slot_of = np.full(len(group), -1, np.int64)
    slot_of[changing] = np.arange(len(changing))
    exact = _has_unnumbered(group)[order[changing]]
    exact[slot_of[back // total][slot_of[back // total] >= 0]] = True
    again = np.zeros(len(new_keys), np.bool_)
    if (np.bincount(numbers) > 1).any():
        again[:] = True
        again[np.unique(new_keys, return_index=True)[1]] = False
    if again.any():
        exact[slot_of[places[again]]] = True  # another lookup of a topic may make the map grow
    old = old_targets(group, order[changing], jdk)
    kept = ~np.isin(changing[old.slots] * total + old.numbers, lost_keys)
    stays = np.ones(len(kept), np.bool_) if subscribed is None else subscribed[old.topics]
    kept &= stays
    new_slots = slot_of[places]
    mine = (new_slots >= 0) & ~again
    new_slots, new_numbers = new_slots[mine], numbers[mine]
    by_slot = stable_order(new_slots, len(changing))
    new_slots, new_numbers = new_slots[by_slot], new_numbers[by_slot]
    laid_out, crowded = lay_out(
        topology, old, None if kept.all() else kept, new_slots, new_numbers, None, jdk, each_once=False
    )
    counts = np.bincount(old.slots[kept], minlength=len(changing)) + np.bincount(new_slots, minlength=len(changing))
    exact |= crowded
    left = np.bincount(old.segments.of[kept], minlength=len(old.segments.slots))
    exact[old.segments.slots[(left == 0) & stays[old.segments.first]]] = True  # a topic without partitions stays
    records: dict[int, Record] = {}
    if exact.any():
        ends = np.cumsum(counts)
        pieces: list[Ints] = []
        start = 0
        for slot in np.flatnonzero(exact).tolist():
            place = int(changing[slot])
            member = int(order[place])
            target = held_target(group, member, jdk)
            copy: JavaHashMap[Uuid, JavaHashSet[int]] = deep_copy(target, jdk)
            if dropped[place]:
                _drop(group, copy, subscribed)
            lost = given.numbers[given.places == place]
            _move(group, copy, lost.tolist(), numbers[places == place].tolist())
            records[member] = tuple((topic, tuple(partitions)) for topic, partitions in copy.items())
            listed = _numbers(group, records[member])
            pieces += [laid_out[start : ends[slot] - counts[slot]], np.array(listed, np.int64)]
            start, counts[slot] = int(ends[slot]), len(listed)
        laid_out = np.concatenate([*pieces, laid_out[start:]])
    made = target_of_changed(group, order[changing], laid_out, counts)
    return TargetAssignment(group, _without_unnumbered(made.assignment), made.changed, records)


def held_target(group: GroupSpec, member: int, jdk: int) -> JavaHashMap[Uuid, JavaHashSet[int]]:
    """Return the previous target of one member as the broker holds it.

    It includes topics without partitions and deleted topics.
    """
    topology = group.topology
    numbers = group.owned[group.owned_offsets[member] : group.owned_offsets[member + 1]]
    lists: dict[Uuid, list[int]] = {}
    if (numbers >= 0).all():
        for number in numbers.tolist():
            lists.setdefault(_id(group, number), []).append(int(topology.partition_of[number]))
    else:
        for topic, partition in group.members[group.member_ids[member]].owned:
            topic_id = _id_of(group, topic)
            if topic_id is not None:
                lists.setdefault(topic_id, []).extend([partition] if partition >= 0 else [])
    target: JavaHashMap[Uuid, JavaHashSet[int]] = JavaHashMap()
    for topic_id, partitions in lists.items():
        target.put(topic_id, JavaHashSet.of(partitions, jdk=jdk))
    return target


def deep_copy(target: JavaHashMap[Uuid, JavaHashSet[int]], jdk: int) -> JavaHashMap[Uuid, JavaHashSet[int]]:
    """Copy a target as the broker does before it changes it."""
    copy: JavaHashMap[Uuid, JavaHashSet[int]] = JavaHashMap(len(target))
    for topic, partitions in target.items():
        copy.put(topic, JavaHashSet.of(partitions, jdk=jdk))
    return copy


def _drop(group: GroupSpec, target: JavaHashMap[Uuid, JavaHashSet[int]], subscribed: Bools | None) -> None:
    assert subscribed is not None
    stay = {group.topology.topics[topic].id for topic in np.flatnonzero(subscribed).tolist()}
    for topic in [topic for topic in target if topic not in stay]:
        target.remove(topic)


def _move(
    group: GroupSpec, target: JavaHashMap[Uuid, JavaHashSet[int]], lost: Iterable[int], got: Iterable[int]
) -> None:
    partition_of = group.topology.partition_of
    for number in lost:
        target[_id(group, number)].discard(int(partition_of[number]))
    for number in got:
        partitions: JavaHashSet[int] = target.compute_if_absent(_id(group, number), JavaHashSet)
        partitions.add(int(partition_of[number]))


def _id(group: GroupSpec, number: int) -> Uuid:
    found = group.topology.topics[int(group.topology.topic_of[number])].id
    assert found is not None
    return found


def _id_of(group: GroupSpec, name: str) -> Uuid | None:
    """Return the id of a topic by its name, or of a deleted topic if the name is its id."""
    index = group.topology.index.get(name)
    if index is not None:
        return group.topology.topics[index].id
    try:
        return Uuid.parse(name)
    except ValueError:
        return None


def _numbers(group: GroupSpec, record: Record) -> list[int]:
    """Return the partition numbers of a record that the topology has."""
    names = {topic.id: topic.name for topic in group.topology.topics}
    return [
        group.topology.number(names[topic], partition)
        for topic, partitions in record
        if topic in names
        for partition in partitions
        if group.topology.number(names[topic], partition) >= 0
    ]


def _has_unnumbered(group: GroupSpec) -> Bools:
    """Mark members with owned partitions or topics that have no partition number."""
    unnumbered = np.zeros(len(group), np.bool_)
    if len(group.owned) and int(group.owned.min()) < 0:
        unnumbered[group.owning[group.owned < 0]] = True
    return unnumbered


def _dropped(group: GroupSpec, subscribed: Bools | None) -> Bools:
    """Mark the places that have topics to which they do not subscribe, and so lose them."""
    dropped = np.zeros(len(group), np.bool_)
    if subscribed is None or not len(group.owned):
        return dropped
    if len(group.topology.topic_of):  # unless no topic has partitions
        foreign = (group.owned >= 0) & ~subscribed[group.topology.topic_of[group.owned]]
        dropped[group.owning[foreign]] = True
    index = group.topology.index
    for member in np.flatnonzero(_has_unnumbered(group)).tolist():
        for topic, _ in group.members[group.member_ids[member]].owned:
            if topic not in index or not subscribed[index[topic]]:
                dropped[member] = True
    return dropped[group.hash_order]


def _without_unnumbered(assignment: Assignment) -> Assignment:
    partitions = assignment.partitions
    if not len(partitions) or int(partitions.min()) >= 0:
        return assignment
    numbered = np.zeros(len(partitions) + 1, np.int64)
    np.cumsum(partitions >= 0, out=numbered[1:])
    return Assignment(
        assignment.topology, assignment.member_ids, numbered[assignment.offsets], partitions[partitions >= 0]
    )

"""The previous targets of some members, in the broker's iteration order.

The broker reads a record into a HashMap of topics, each with a HashSet created from the list of
partitions. Only members whose target changes need this order, so it is computed for them only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.assignors.server.ids import id_hashes
from quorate.assignors.topology import Ints, Topology, grouped, runs


@dataclass(frozen=True, slots=True)
class Segments:
    """Elements (partitions) grouped by member and topic.

    `of[e]` is the segment of element `e`; segments are numbered by slot, then by first appearance.
    `slots`, `topics`, `first` (the first element) and `sizes` are per segment.
    """

    of: Ints
    slots: Ints
    topics: Ints
    first: Ints
    sizes: Ints

    @classmethod
    def found(cls, slots: Ints, topics: Ints, topic_count: int, *, each_once: bool = False) -> "Segments":
        """Create segments from the slot (ascending) and the topic of each element.

        `each_once`: no topic appears again later in a slot.
        """
        if not len(slots):
            return cls(slots, slots, slots, slots, slots)
        keys = slots * topic_count + topics
        starts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
        starts = np.concatenate([[0], starts])
        lengths = np.diff(starts, append=len(keys))
        if each_once:
            return cls(np.repeat(np.arange(len(starts)), lengths), slots[starts], topics[starts], starts, lengths)
        run_keys = keys[starts]
        # A topic that appears again later continues its segment.
        order = np.argsort(run_keys, kind="stable")
        ordered = run_keys[order]
        new = np.empty(len(order), np.bool_)
        new[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
        if new.all():
            of = np.repeat(np.arange(len(starts)), lengths)
            return cls(of, slots[starts], topics[starts], starts, lengths)
        firsts = order[new]
        by_first = np.argsort(firsts)
        rank = np.empty(len(firsts), np.int64)
        rank[by_first] = np.arange(len(firsts))
        of_run = np.empty(len(order), np.int64)
        of_run[order] = rank[np.cumsum(new) - 1]
        first = starts[firsts[by_first]]
        sizes = np.bincount(of_run, weights=lengths).astype(np.int64)
        return cls(np.repeat(of_run, lengths), slots[first], topics[first], first, sizes)


@dataclass(frozen=True, slots=True)
class OldTargets:
    """Partitions of the topology, slot after slot, each in the broker's iteration order.

    Slot `i` is the `i`-th of the requested members. `slots` and `topics` are per partition.
    `segments`: partitions by slot and topic. `topic_counts`: topics of each slot, including deleted
    ones.
    """

    numbers: Ints
    slots: Ints
    topics: Ints
    segments: Segments
    topic_counts: Ints


def old_targets(group: GroupSpec, members: Ints, jdk: int) -> OldTargets:
    """Return the previous targets of these members."""
    topology = group.topology
    lengths = group.owned_counts[members]
    numbers = group.owned[runs(group.owned_offsets[members], lengths)]
    slots = np.repeat(np.arange(len(members)), lengths)
    deleted = np.zeros(len(members), np.int64)
    if (numbers < 0).any():
        for slot in np.unique(slots[numbers < 0]).tolist():
            deleted[slot] = deleted_topics(group, int(members[slot]))
        slots, numbers = slots[numbers >= 0], numbers[numbers >= 0]
    topics = topology.topic_of[numbers]
    found = Segments.found(slots, topics, len(topology))
    topic_counts = np.bincount(found.slots, minlength=len(members)) + deleted
    if not len(numbers):
        return OldTargets(numbers, slots, topics, found, topic_counts)
    # If a topic's partitions are given in several pieces, the record has them in one.
    if (found.of[1:] < found.of[:-1]).any():
        together = np.argsort(found.of, kind="stable")
        numbers, slots, topics = numbers[together], slots[together], topics[together]
        found = Segments.found(slots, topics, len(topology))
    hashes = id_hashes(topology)[found.topics]
    partitions = topology.partition_of[numbers]
    sixteen = np.full(len(members), 16)
    capacities = java_order.copied_set_capacities(found.sizes, jdk)
    order = java_order.nested_order(
        found.of, found.slots, hashes, java_order.grown(sixteen, topic_counts), None, partitions, capacities
    )
    crowded = java_order.crowded_maps(hashes, sixteen, 9, sizes=np.bincount(found.slots, minlength=len(members)))
    crowded[found.slots[java_order.crowded_numbers(partitions, capacities, sizes=found.sizes)]] = True
    numbers = numbers[order]
    for slot in np.flatnonzero(crowded).tolist():
        numbers[slots == slot] = iterated_target(group, int(members[slot]), jdk)
    topics = topology.topic_of[numbers]
    return OldTargets(
        numbers, slots, topics, Segments.found(slots, topics, len(topology), each_once=True), topic_counts
    )


def topic_map(topology: Topology, capacity: int | None = None) -> JavaHashMap[int, Any]:
    """Create a `new HashMap(capacity)` whose keys are topic numbers in the topology."""
    most, least = topology.id_halves
    hashes = java_order.uuid_hashes(most, least)
    return JavaHashMap(
        capacity,
        hash_of=lambda topic: int(hashes[topic]),
        order_of=lambda topic: (int(most[topic]), int(least[topic])),
    )


def read_target(group: GroupSpec, member: int, jdk: int) -> JavaHashMap[int, JavaHashSet[int]]:
    """Return the previous target of one member as the broker holds it, without deleted topics."""
    topology = group.topology
    numbers = group.owned[group.owned_offsets[member] : group.owned_offsets[member + 1]]
    numbers = numbers[numbers >= 0]
    topics, partitions_of = topology.topic_of[numbers].tolist(), topology.partition_of[numbers].tolist()
    lists = grouped(zip(topics, partitions_of, strict=True))
    target: JavaHashMap[int, JavaHashSet[int]] = topic_map(topology)
    for topic, partitions in lists.items():
        target.put(topic, JavaHashSet.of(partitions, jdk=jdk))
    return target


def iterated_target(group: GroupSpec, member: int, jdk: int) -> list[int]:
    """Return the partition numbers of `read_target`, in iteration order."""
    return in_numbers(group.topology, read_target(group, member, jdk))


def in_numbers(topology: Topology, target: JavaHashMap[int, JavaHashSet[int]]) -> list[int]:
    """Return the partition numbers of a map of topics and partitions, in iteration order."""
    return [
        topology.number(topology.topics[topic].name, partition)
        for topic, partitions in target.items()
        for partition in partitions
    ]


def deleted_topics(group: GroupSpec, member: int) -> int:
    """Return how many topics of a member's previous target were deleted.

    Topics without any of the target's partitions count as deleted.
    """
    numbers = group.owned[group.owned_offsets[member] : group.owned_offsets[member + 1]]
    if (numbers >= 0).all():
        return 0
    owned = group.members[group.member_ids[member]].owned
    known = {topic for (topic, _), number in zip(owned, numbers.tolist(), strict=True) if number >= 0}
    return len({topic for topic, _ in owned} - known)

"""Orders the partitions of members with a changed target as in their records.

The broker copies the previous target of such a member: a HashMap sized by the number of topics,
with copies of the sets. It removes lost partitions and adds new ones: `computeIfAbsent` for topics,
`add` for partitions. The record has the iteration order of the result.
"""

from collections.abc import Iterable
from enum import Enum, auto
from functools import partial

import numpy as np
import numpy.typing as npt

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.assignors.server.ids import id_hashes
from quorate.assignors.server.old_targets import (
    OldTargets,
    Segments,
    deleted_topics,
    in_numbers,
    read_target,
    topic_map,
)
from quorate.assignors.topology import Ints, Topology


def lay_out(
    topology: Topology,
    old: OldTargets,
    kept: npt.NDArray[np.bool_] | None,
    new_slots: Ints,
    new_numbers: Ints,
    new_set_capacities: Ints | None,
    jdk: int,
    *,
    each_once: bool = False,
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return all slots' partition numbers in iteration order, and which slots need `replayed`.

    `kept`: which partitions of `old` are kept (`None`: all). `new_numbers`: partitions added to
    `new_slots` (ascending), in time order. `new_set_capacities`: the initial buckets of a new set
    of partitions, per topic of the topology; 16 by default. `each_once`: no slot gets partitions of
    a topic in several pieces.
    """
    count = len(old.topic_counts)
    old_sizes = old.segments.sizes[old.segments.of]
    numbers, slots = (old.numbers, old.slots) if kept is None else (old.numbers[kept], old.slots[kept])
    old_sizes = old_sizes if kept is None else old_sizes[kept]
    each_once = each_once and not len(numbers)
    if not len(numbers):
        numbers, slots, old_sizes = new_numbers, new_slots, np.zeros(len(new_numbers), np.int64)
    elif len(new_numbers):
        merged = np.argsort(np.concatenate([slots, new_slots]), kind="stable")
        numbers = np.concatenate([numbers, new_numbers])[merged]
        slots = np.concatenate([slots, new_slots])[merged]
        old_sizes = np.concatenate([old_sizes, np.zeros(len(new_numbers), np.int64)])[merged]
    crowded = np.zeros(count, np.bool_)
    if not len(numbers):
        return numbers, crowded
    topics = topology.topic_of[numbers]
    partitions = topology.partition_of[numbers]
    found = Segments.found(slots, topics, len(topology), each_once=each_once)
    copied = old_sizes[found.first] > 0
    hashes = id_hashes(topology)[found.topics]
    map_capacities = _map_capacities(old, found, copied, slots)
    initial = np.full(len(copied), 16) if new_set_capacities is None else new_set_capacities[found.topics]
    if copied.any():
        initial[copied] = java_order.copied_set_capacities(old_sizes[found.first[copied]], jdk)
    order = java_order.nested_order(
        found.of,
        found.slots,
        hashes,
        map_capacities,
        None if copied.all() else ~copied,
        partitions,
        java_order.grown(initial, found.sizes),
    )
    copies = java_order.table_sizes(old.topic_counts)
    crowded |= java_order.crowded_maps(hashes, copies, 8, sizes=np.bincount(found.slots, minlength=count))
    if kept is not None:  # removed partitions were in the copy as well
        before = old.segments
        sizes = np.bincount(before.slots, minlength=count)
        crowded |= java_order.crowded_maps(id_hashes(topology)[before.topics], copies, 8, sizes=sizes)
        copied_sets = java_order.copied_set_capacities(before.sizes, jdk)
        had = java_order.crowded_numbers(topology.partition_of[old.numbers], copied_sets, sizes=before.sizes)
        crowded[before.slots[had]] = True
    if (found.of[1:] < found.of[:-1]).any():
        partitions = partitions[np.argsort(found.of, kind="stable")]
    crowded[found.slots[java_order.crowded_numbers(partitions, initial, sizes=found.sizes)]] = True
    return numbers[order], crowded


def _map_capacities(old: OldTargets, found: Segments, copied: npt.NDArray[np.bool_], slots: Ints) -> Ints:
    """Return the final buckets of each slot's map of topics."""
    count = len(old.topic_counts)
    capacities = java_order.grown(java_order.table_sizes(old.topic_counts), old.topic_counts)
    if copied.all():
        return capacities
    topics = np.bincount(found.slots, minlength=count)
    # `computeIfAbsent` grows a full table before the lookup, so a topic that only the last call
    # added is not counted.
    last_elements = np.flatnonzero(np.append(slots[1:] != slots[:-1], True))
    last_segments = found.of[last_elements]
    brought = (found.first[last_segments] == last_elements) & ~copied[last_segments]
    topics[slots[last_elements]] -= brought
    return java_order.grown(capacities, topics)


class Step(Enum):
    """A change of one member's target."""

    DROP = auto()
    """A topic is removed with all its partitions."""
    REMOVE = auto()
    """A partition is removed, and with the last one its topic."""
    ADD = auto()
    """A partition is added."""


def replayed(
    group: GroupSpec, member: int, steps: Iterable[tuple[Step, int]], new_set_capacities: Ints | None, jdk: int
) -> list[int]:
    """Return one member's partition numbers in record order after changes in time order.

    Exact in all cases, but for one member at a time. A step is about a topic of the topology
    (`DROP`) or a partition number.
    """
    topology = group.topology
    old = read_target(group, member, jdk)
    # Deleted topics count for the size of the copy, but are removed again.
    count = len(old) + deleted_topics(group, member)
    capacity = java_order.table_size(count)
    target: JavaHashMap[int, JavaHashSet[int]] = topic_map(
        topology, capacity if count == len(old) else java_order.hash_map_capacity(count, capacity)
    )
    for topic, partitions in old.items():
        target.put(topic, JavaHashSet.of(partitions, jdk=jdk))
    for step, number in steps:
        if step is Step.DROP:
            target.remove(number)
            continue
        topic, partition = int(topology.topic_of[number]), int(topology.partition_of[number])
        if step is Step.ADD:
            buckets = 16 if new_set_capacities is None else int(new_set_capacities[topic])
            target.compute_if_absent(topic, partial(JavaHashSet, buckets)).add(partition)
            continue
        left = target.get(topic)
        if left is not None:
            left.discard(partition)
            if not len(left):
                target.remove(topic)
    return in_numbers(topology, target)

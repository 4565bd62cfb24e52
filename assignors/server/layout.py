"""Orders the partitions of members with a changed target as in their records.

The broker copies the previous target of such a member: a HashMap sized by the number of topics,
with copies of the sets. It removes lost partitions and adds new ones: `computeIfAbsent` for topics,
`add` for partitions. The record has the iteration order of the result.
"""

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from itertools import pairwise

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
from quorate.assignors.topology import BLOCK, Ints, Topology, runs, stable_order


def lay_out(
    topology: Topology,
    old: OldTargets,
    kept: npt.NDArray[np.bool_] | None,
    new_slots: Ints,
    new_numbers: Ints,
    new_set_capacities: Ints | None,
    jdk: int,
    *,
    each_once: bool,
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return all slots' partition numbers in iteration order, and which slots need `replayed`.

    `kept`: which partitions of `old` are kept (`None`: all). `new_numbers`: partitions added to
    `new_slots` (ascending), in time order. `new_set_capacities`: the initial buckets of a new set
    of partitions, per topic of the topology; 16 by default. `each_once`: no slot gets partitions of
    a topic in several pieces.
    """
    count = len(old.topic_counts)
    if not len(old.numbers) and len(new_numbers) > BLOCK and count > 1:
        # Some slots at a time, so that their arrays are short; see `BLOCK`.
        first_slots = range(0, count, max(1, count * BLOCK // len(new_numbers)))
        parts: list[tuple[Ints, npt.NDArray[np.bool_]]] = []
        for first, end in pairwise([*first_slots, count]):
            block = replace(old, topic_counts=old.topic_counts[first:end])
            mine = slice(*np.searchsorted(new_slots, [first, end]))
            slots, numbers = new_slots[mine] - first, new_numbers[mine]
            parts.append(lay_out(topology, block, None, slots, numbers, new_set_capacities, jdk, each_once=each_once))
        return np.concatenate([numbers for numbers, _ in parts]), np.concatenate([crowded for _, crowded in parts])
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
    map_capacities = _map_capacities(old.topic_counts, found, copied)
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


def lay_out_first(topology: Topology, topics: Ints, members: Ints, counts: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return all members' partition numbers in iteration order, and which slots need `replayed`.

    None has a previous target. Slot `i` is that of `members[i]`, and takes `counts[i]` of the
    partitions of `topics`, one topic after the other. The result is ordered by member. Topics have
    the partitions 0, 1, 2 … up to 65,535 at most. So a segment is a range, and a set has it in one
    or two ranges: no array but the result has all partitions.
    """
    topics = topics[topology.sizes[topics] > 0]
    topic_sizes = topology.sizes[topics]
    ends, topic_ends = np.cumsum(counts), np.cumsum(topic_sizes)
    last_slots = np.searchsorted(ends, topic_ends)  # those that get the last partitions of topics
    cut = ends[last_slots] > topic_ends
    bounds = np.insert(ends, last_slots[cut], topic_ends[cut])
    slots = np.insert(np.arange(len(ends)), last_slots[cut], last_slots[cut])
    places = np.repeat(np.arange(len(topics)), np.diff(np.searchsorted(bounds, topic_ends), prepend=-1))
    sizes = np.diff(bounds, prepend=0)
    first = bounds - sizes
    every, zeros, none = np.arange(len(first)), np.zeros_like(first), np.zeros_like(counts)
    found = Segments(every, slots, topics[places], first, sizes)
    hashes = id_hashes(topology)[found.topics]
    capacities = _map_capacities(none, found, zeros > 0)
    order = java_order.nested_order(every, slots, hashes, capacities, zeros == 0, zeros, zeros + 1)
    order = order[stable_order(members[slots], int(members.max()) + 1)]
    # A set is iterated by the lower bits of its numbers.
    set_capacities = java_order.grown(zeros + 16, sizes)
    lowest = first - (topic_ends - topic_sizes)[places]
    before_wrap = np.minimum(set_capacities - (lowest & (set_capacities - 1)), sizes)
    starts = topology.first[found.topics] + lowest
    numbers = runs(
        np.stack([starts + before_wrap, starts], axis=1)[order].ravel(),
        np.stack([sizes - before_wrap, before_wrap], axis=1)[order].ravel(),
    )
    return numbers, java_order.crowded_maps(hashes, none + 1, 8, sizes=np.bincount(slots, minlength=len(counts)))


def _map_capacities(old_counts: Ints, found: Segments, copied: npt.NDArray[np.bool_]) -> Ints:
    """Return the final buckets of each slot's map of topics."""
    capacities = java_order.grown(java_order.table_sizes(old_counts), old_counts)
    if copied.all():
        return capacities
    topics = np.bincount(found.slots, minlength=len(old_counts))
    # `computeIfAbsent` grows a full table before the lookup, so a topic that only the last call
    # added is not counted: a segment that begins with its slot's last element.
    last = np.flatnonzero(np.append(found.slots[1:] != found.slots[:-1], True))
    topics[found.slots[last]] -= (found.first[last] == np.cumsum(found.sizes)[last] - 1) & ~copied[last]
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

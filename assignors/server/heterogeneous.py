"""`uniform` for different subscriptions (since 4.0, KAFKA-17710): balances topic after topic.

1. Members keep owned partitions of subscribed topics.
2. Partitions without an owner are assigned topic by topic to the least loaded subscribers
   (`filling`), topics with the most partitions per subscriber first.
3. Topic by topic, in the same order, partitions move from the most to the least loaded subscribers
   (`topic_balance`), until no partition moved in a round of all topics, for 16 rounds at most.

Members are numbered in the order of the broker's HashMap here ("places").
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec
from quorate.assignors.owners import subscribes
from quorate.assignors.server.filling import fillers
from quorate.assignors.server.ids import need_ids
from quorate.assignors.server.layout import Step, lay_out, replayed
from quorate.assignors.server.old_targets import OldTargets, old_targets
from quorate.assignors.server.topic_balance import balancing_moves
from quorate.assignors.subscribers import SubscriberSets, subscriber_sets
from quorate.assignors.target import TargetAssignment, target_of_changed
from quorate.assignors.topology import Ints, runs, stable_order

Bools = npt.NDArray[np.bool_]

MOST_ROUNDS = 16
"""Maximum number of balancing rounds over all topics."""


def assign_heterogeneous(group: GroupSpec, jdk: int) -> TargetAssignment:
    """Return the new target assignment. Raises `AssignorError` if a topic has no id."""
    topology = group.topology
    order = group.hash_order
    topics = group.subscribed_topics
    need_ids(topology, topics)
    sets = subscriber_sets(group, order)
    counts = np.array([len(place) for place in sets.places])[sets.set_of[topics]]
    partitions = topology.sizes[topics]
    sorted_topics = topics[_topic_order(group, topics, partitions, counts)]
    usable, owners, loads = _kept(group)
    assigned, new_owners = _filled(group, sorted_topics, sets, owners, loads)
    owners[assigned] = new_owners
    moves = _balanced(group, sorted_topics, sets, owners, loads)
    capacities = np.zeros(len(topology), np.int64)
    capacities[topics] = java_order.table_sizes(-(-partitions // counts) * 4 // 3 + 1)
    return _target(group, usable, _Changes(assigned, new_owners, moves), capacities, jdk)


def _topic_order(group: GroupSpec, topics: Ints, partitions: Ints, subscribers: Ints) -> Ints:
    """Return topics by most partitions per subscriber, then fewest subscribers, then id."""
    most, least = group.topology.id_halves
    return np.lexsort((least[topics], most[topics], subscribers, -(partitions / subscribers)))


# ---- 1. kept partitions


def _kept(group: GroupSpec) -> tuple[Bools, Ints, Ints]:
    """Return which owned partitions are kept, and the resulting owners and loads.

    Owners are places, -1 for none; loads are the numbers of partitions of each place.
    """
    owned = group.owned
    owners = np.full(group.topology.first[-1], -1, np.int64)
    if not len(owned) or not len(owners):  # no owned partitions, or all topics were deleted
        return np.zeros(len(owned), np.bool_), owners, np.zeros(len(group), np.int64)
    usable = subscribes(group, group.owning, group.topology.topic_of[owned]) & (owned >= 0)
    numbers, places = owned[usable], group.hash_place[group.owning[usable]]
    owners[numbers] = places
    if int((owners >= 0).sum()) != len(numbers):  # of several owners the last one wins
        np.maximum.at(owners, numbers, places)
    return usable, owners, np.bincount(places, minlength=len(group))


# ---- 2. partitions without an owner


def _filled(group: GroupSpec, topics: Ints, sets: SubscriberSets, owners: Ints, loads: Ints) -> tuple[Ints, Ints]:
    """Return the partitions without an owner in assignment order, and the places that get them.

    Adds them to `loads`.
    """
    topology = group.topology
    free = np.flatnonzero(owners < 0)
    bounds = np.searchsorted(free, topology.first)
    free_counts = np.diff(bounds)[topics]
    topics = topics[free_counts > 0]
    if not len(topics):
        return free[:0], free[:0]
    counts = free_counts[free_counts > 0]
    numbers = free[runs(bounds[topics], counts)]
    topic_fillers = fillers(sets.places, loads)
    new_owners = [
        topic_fillers[number].fill(count)
        for number, count in zip(sets.set_of[topics].tolist(), counts.tolist(), strict=True)
    ]
    for filler in topic_fillers:
        filler.settle()
    return numbers, np.concatenate(new_owners)


# ---- 3. moves


class _Moves(NamedTuple):
    """Partition numbers that moved, in time order, and the places of their old and new owners."""

    numbers: list[int]
    old_owners: list[int]
    new_owners: list[int]


def _balanced(group: GroupSpec, topics: Ints, sets: SubscriberSets, owners: Ints, loads: Ints) -> _Moves:
    moves = _Moves([], [], [])
    shared = np.array([len(place) >= 2 for place in sets.places], np.bool_)
    if not len(topics) or not any(_uneven(place, loads) for place in sets.places):
        return moves
    topics = topics[shared[sets.set_of[topics]]]
    first = group.topology.first
    todo = [
        (number, int(first[topic]), int(first[topic + 1]))
        for number, topic in zip(sets.set_of[topics].tolist(), topics.tolist(), strict=True)
    ]
    even_at: dict[int, int] = {}
    quiet_at: dict[int, int] = {}
    last_moved = -1
    for _ in range(MOST_ROUNDS):
        for index, (number, start, end) in enumerate(todo):
            if index == last_moved:
                return moves
            now = len(moves.numbers)
            if even_at.get(number) != now and quiet_at.get(index) != now:
                if not _uneven(sets.places[number], loads):
                    even_at[number] = now
                else:
                    topic_moves = balancing_moves(sets.places[number], loads, owners[start:end])
                    if not topic_moves:
                        quiet_at[index] = now
                    for partition, old_owner, new_owner in topic_moves:
                        owners[start + partition] = new_owner
                        loads[old_owner] -= 1
                        loads[new_owner] += 1
                        moves.numbers.append(start + partition)
                        moves.old_owners.append(old_owner)
                        moves.new_owners.append(new_owner)
            if len(moves.numbers) > now or last_moved == -1:
                last_moved = index
    return moves


def _uneven(places: Ints, loads: Ints) -> bool:
    some = loads[places]
    return len(some) > 1 and int(some.max()) - int(some.min()) > 1


# ---- the new target assignment


class _Changes(NamedTuple):
    """Changes after step 1 in time order: partitions assigned to places, then moves."""

    assigned: Ints
    new_owners: Ints
    moves: _Moves


def _target(group: GroupSpec, usable: Bools, changes: _Changes, capacities: Ints, jdk: int) -> TargetAssignment:
    order = group.hash_order
    lost = np.zeros(len(group), np.bool_)
    lost[group.owning[~usable]] = True
    lost = lost[order]
    giving, receiving = np.zeros(len(group), np.bool_), np.zeros(len(group), np.bool_)
    giving[changes.moves.old_owners] = True
    receiving[changes.new_owners] = True
    receiving[changes.moves.new_owners] = True
    changing = np.flatnonzero(lost | giving | receiving)
    slot_of = np.full(len(group), -1, np.int64)
    slot_of[changing] = np.arange(len(changing))
    old = old_targets(group, order[changing], jdk)
    kept = subscribes(group, order[changing][old.slots], old.topics)
    if changes.moves.numbers:
        moved = np.zeros(group.topology.first[-1], np.bool_)
        moved[changes.moves.numbers] = True
        kept &= ~(moved[old.numbers] & giving[changing][old.slots])
    # For some members that give and receive partitions the order of changes matters. For the
    # others only the result does.
    new_slots = slot_of[np.concatenate([changes.new_owners, np.array(changes.moves.new_owners, np.int64)])]
    new_numbers = np.concatenate([changes.assigned, np.array(changes.moves.numbers, np.int64)])
    followed = np.zeros(len(group), np.bool_)
    if changes.moves.numbers:
        followed[_order_matters(group, giving & receiving, changes)] = True
        followed[_owning_with_others(group, usable, changes.moves)] = True
    followed = followed[changing]
    if followed.any():
        single = ~followed[new_slots]
        new_slots, new_numbers = new_slots[single], new_numbers[single]
    by_slot = stable_order(new_slots, len(changing))
    new_slots, new_numbers = new_slots[by_slot], new_numbers[by_slot]
    numbers, crowded = lay_out(
        group.topology,
        old,
        None if kept.all() else kept,
        new_slots,
        new_numbers,
        capacities,
        jdk,
        each_once=not changes.moves.numbers,
    )
    counts = np.bincount(old.slots[kept], minlength=len(changing)) + np.bincount(new_slots, minlength=len(changing))
    exact = np.flatnonzero(crowded | followed)
    if not len(exact):
        return target_of_changed(group, order[changing], numbers, counts)
    ends = np.cumsum(counts)
    lists = {}
    dropped = ~subscribes(group, order[changing][old.slots], old.topics)
    steps = _steps(old, dropped, changes, changing[exact].tolist(), exact.tolist())
    for slot, place in zip(exact.tolist(), changing[exact].tolist(), strict=True):
        lists[slot] = replayed(group, int(order[place]), steps[place], capacities, jdk)
    pieces: list[Ints] = []
    start = 0
    for slot, listed in lists.items():
        pieces += [numbers[start : ends[slot] - counts[slot]], np.array(listed, np.int64)]
        start = int(ends[slot])
    numbers = np.concatenate([*pieces, numbers[start:]])
    for slot, listed in lists.items():
        counts[slot] = len(listed)
    differ = np.ones(len(changing), np.bool_)
    offsets = group.owned_offsets
    for slot, listed in lists.items():
        member = int(order[changing[slot]])
        # A partition that was given away may have returned.
        if sorted(listed) == sorted(group.owned[offsets[member] : offsets[member + 1]].tolist()):
            differ[slot] = False
    if not differ.all():
        numbers, counts, changing = numbers[np.repeat(differ, counts)], counts[differ], changing[differ]
    return target_of_changed(group, order[changing], numbers, counts)


def _order_matters(group: GroupSpec, both: Bools, changes: _Changes) -> list[int]:
    """Return which of the places that give and receive partitions must be replayed step by step.

    Java's sets and maps grow but never shrink. So the order does not matter if two things are true:
    a member does not both give and receive partitions of the same topic, and its map of topics does
    not grow for all new topics together.
    """
    topic_of, offsets, order = group.topology.topic_of, group.owned_offsets, group.hash_order
    receiving: dict[int, set[int]] = {place: set() for place in np.flatnonzero(both).tolist()}
    mine = np.flatnonzero(both[changes.new_owners])
    new_owners = zip(changes.new_owners[mine].tolist(), topic_of[changes.assigned[mine]].tolist(), strict=True)
    moved = topic_of[changes.moves.numbers].tolist()
    for place, topic in (*new_owners, *zip(changes.moves.new_owners, moved, strict=True)):
        if place in receiving:
            receiving[place].add(topic)
    followed = {
        place
        for place, topic in zip(changes.moves.old_owners, moved, strict=True)
        if place in receiving and topic in receiving[place]
    }
    for place in receiving.keys() - followed:
        member = int(order[place])
        owned = group.owned[offsets[member] : offsets[member + 1]]
        before = set(topic_of[owned].tolist())
        capacity = java_order.hash_map_capacity(len(before), java_order.table_size(len(before)))
        if (owned < 0).any() or len(before | receiving[place]) > capacity * 3 // 4:
            followed.add(place)
    return sorted(followed)


def _owning_with_others(group: GroupSpec, usable: Bools, moves: _Moves) -> Ints:
    """Return the places of members that shared the ownership of a partition that moved.

    A static member that replaces another can leave a partition with two owners. The new owner may
    own the partition already, and the owner from which it did not move keeps it.
    """
    numbers = group.owned[usable]
    owners = np.bincount(numbers, minlength=group.topology.first[-1])
    if not len(numbers) or owners.max() < 2:
        return np.empty(0, np.int64)
    moved = np.zeros(len(owners), np.bool_)
    moved[moves.numbers] = True
    return group.hash_place[group.owning[usable][moved[numbers] & (owners[numbers] > 1)]]


def _steps(
    old: OldTargets, dropped: Bools, changes: _Changes, places: list[int], slots: list[int]
) -> dict[int, list[tuple[Step, int]]]:
    """Return the changes of the members at these places, in time order."""
    steps: dict[int, list[tuple[Step, int]]] = {place: [] for place in places}
    for place, slot in zip(places, slots, strict=True):
        topics = old.topics[(old.slots == slot) & dropped]
        steps[place] += [(Step.DROP, topic) for topic in dict.fromkeys(topics.tolist())]
    mine = np.flatnonzero(np.isin(changes.new_owners, places))
    for place, number in zip(changes.new_owners[mine].tolist(), changes.assigned[mine].tolist(), strict=True):
        steps[place].append((Step.ADD, number))
    for number, old_owner, new_owner in zip(*changes.moves, strict=True):
        if old_owner in steps:
            steps[old_owner].append((Step.REMOVE, number))
        if new_owner in steps:
            steps[new_owner].append((Step.ADD, number))
    return steps

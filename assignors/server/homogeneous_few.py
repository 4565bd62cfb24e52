"""`uniform` for equal subscriptions, for groups of which lists are faster than arrays.

It returns the same as `homogeneous`, whose arrays take about a millisecond for the smallest group.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import (
    JavaHashSet,
    copied_set_capacity,
    hash_map_capacity,
    table_size,
)
from quorate.assignors.java_order.hash_map import TREE_FROM
from quorate.assignors.model import AssignorError
from quorate.assignors.server.ids import id_hashes, subscribed_in_order, subscribed_set
from quorate.assignors.server.old_targets import deleted_topics, topic_map
from quorate.assignors.target import TargetAssignment, target_of_changed

__all__ = ["LEFT_OVER", "assign_few"]

LEFT_OVER = "partitions would be left over: a partition of the previous target has several owners; give it one"
_DEFAULT = 16
"""Buckets of a new map or set."""
_UNSPREAD = (1 << 16) - 1
"""Java mixes in the upper 16 bits of a hash, which numbers up to this one do not have."""


def assign_few(group: GroupSpec, jdk: int, *, stable: bool) -> TargetAssignment:
    """Return the new target assignment; see `homogeneous.assign_homogeneous`."""
    order = group.hash_order.tolist()
    topics = _subscribed(group, int(group.listing_of[order[0]]), jdk)
    lists = _Lists(group, topics)
    row = lists.unowned(topics)
    total = sum(lists.first[topic + 1] - lists.first[topic] for topic in topics)
    shares = _shares([lists.count(member) for member in order], total, stable=stable)
    # The changes of each member: what it keeps, and how many it gets. What members lose follows
    # what had no owner.
    changing: list[tuple[int, _Target, int, bool]] = []
    wanted_by_all = 0
    for member, (has, share) in zip(order, shares, strict=True):
        keeps = min(has, share)
        wanted = share - keeps
        wanted_by_all += wanted
        loses = keeps < lists.offsets[member + 1] - lists.offsets[member]
        if wanted or loses:
            target = _Target(lists, member, jdk)
            if loses:
                row += target.keep(keeps)
            changing.append((member, target, wanted, loses))
    if len(row) > wanted_by_all:
        raise AssignorError(LEFT_OVER)
    at = 0
    changed: list[int] = []
    numbers: list[int] = []
    counts: list[int] = []
    for member, target, wanted, loses in changing:
        added = row[at : at + wanted]  # fewer if some partitions have several owners
        at += len(added)
        if added or loses:
            found = target.with_added(added)
            changed.append(member)
            numbers += found
            counts.append(len(found))
    return target_of_changed(group, *(np.array(one, np.int64) for one in (changed, numbers, counts)))


def _subscribed(group: GroupSpec, listing: int, jdk: int) -> list[int]:
    topics = subscribed_in_order(group, listing, jdk)
    ordered: list[int] = (topics if len(topics) < 2 else subscribed_set(group, listing, jdk)).tolist()
    return ordered


def _shares(has: Sequence[int], total: int, *, stable: bool) -> list[tuple[int, int]]:
    """Return what each member has and its share, in HashMap order; see `homogeneous`."""
    least, extra = divmod(total, len(has))
    if not stable:
        return [(count, least + (place < extra)) for place, count in enumerate(has)]
    shares: list[tuple[int, int]] = []
    for place, count in enumerate(has):
        if len(has) - place <= extra:  # each of the last members gets an extra partition
            shares += [(one, least + 1) for one in has[place:]]
            break
        more = count > least and extra > 0
        shares.append((count, least + more))
        extra -= more
    return shares


class _Lists:
    """A group as lists: the numbers of `GroupSpec` and `Topology`."""

    def __init__(self, group: GroupSpec, topics: Sequence[int]) -> None:
        topology = group.topology
        self.group = group
        self.subscribed = frozenset(topics)
        self.all_subscribed = len(self.subscribed) == len(topology)
        self.first: list[int] = topology.first.tolist()
        self.topic_of: list[int] = topology.topic_of.tolist()
        self.partition_of: list[int] = topology.partition_of.tolist()
        self.hashes: list[int] = id_hashes(topology).tolist()
        self.owned: list[int] = group.owned.tolist()
        self.offsets: list[int] = group.owned_offsets.tolist()

    def owned_by(self, member: int) -> list[int]:
        """Return the owned partitions of a member."""
        return self.owned[self.offsets[member] : self.offsets[member + 1]]

    def number(self, topic: int, partition: int) -> int:
        """Return the number of a partition that exists."""
        known = self.group.topology.topics[topic]
        return self.first[topic] + (partition if known.numbers is None else known.numbers.index(partition))

    def count(self, member: int) -> int:
        """Return how many owned partitions of a member belong to subscribed topics."""
        subscribed, topic_of, owned = self.subscribed, self.topic_of, self.owned_by(member)
        if self.all_subscribed and (not owned or min(owned) >= 0):
            return len(owned)
        return sum(number >= 0 and topic_of[number] in subscribed for number in owned)

    def unowned(self, topics: Iterable[int]) -> list[int]:
        """Return the partitions of the topics, topic after topic, that have no owner."""
        taken = {*self.owned, *self.group.withheld.tolist()}
        return [
            number
            for topic in topics
            for number in range(self.first[topic], self.first[topic + 1])
            if number not in taken
        ]


class _Target:
    """The target of one member, from the previous one to the new one.

    The broker reads the previous one from its record, and changes a copy. `partitions`: those of
    each topic as they were read. `names`: the topics of the copy; `sets`: its changed sets.
    """

    def __init__(self, lists: _Lists, member: int, jdk: int) -> None:
        self.lists = lists
        self.jdk = jdk
        owned = lists.owned_by(member)
        deleted = deleted_topics(lists.group, member) if owned and min(owned) < 0 else 0
        read: dict[int, list[int]] = {}
        for number in owned:
            if number >= 0:
                read.setdefault(lists.topic_of[number], []).append(lists.partition_of[number])
        topics: Iterable[int] = read
        if len(read) > 1:
            given = _Names(lists, _DEFAULT)
            for topic in read:
                given.put(topic)
            topics = given.ordered()
        self.partitions = {topic: _as_copied(read[topic], jdk) for topic in topics}
        self.sets: dict[int, _Set] = {}
        # The copy of that map. Deleted topics count for its size.
        count = len(read) + deleted
        capacity = table_size(count)
        self.names = _Names(lists, hash_map_capacity(count, capacity) if deleted else capacity)
        for topic in self.partitions:
            self.names.put(topic)

    def keep(self, most: int) -> list[int]:
        """Keep so many partitions of subscribed topics; return the others of these, in order."""
        lost: list[int] = []
        for topic, partitions in list(self.partitions.items()):
            if topic not in self.lists.subscribed:
                self._drop(topic)
                continue
            if len(partitions) > most:
                lost += [self.lists.number(topic, partition) for partition in partitions[most:]]
                if most:
                    self.sets[topic] = changed = _Set(partitions, self.jdk)
                    for partition in partitions[most:]:
                        changed.discard(partition)
                else:
                    self._drop(topic)
            most -= min(most, len(partitions))
        return lost

    def with_added(self, numbers: Iterable[int]) -> list[int]:
        """Add partitions; return all in record order."""
        topic_of, partition_of = self.lists.topic_of, self.lists.partition_of
        for number in numbers:
            topic = topic_of[number]
            self.names.compute(topic)
            if topic not in self.sets:
                self.sets[topic] = _Set(self.partitions[topic], self.jdk) if topic in self.partitions else _Set([])
            self.sets[topic].add(partition_of[number])
        number_of = self.lists.number
        return [
            number_of(topic, partition)
            for topic in self.names.ordered()
            for partition in (
                self.sets[topic].ordered() if topic in self.sets else _as_copied(self.partitions[topic], self.jdk)
            )
        ]

    def _drop(self, topic: int) -> None:
        del self.partitions[topic]
        self.names.remove(topic)


def _as_copied(partitions: Sequence[int], jdk: int) -> Sequence[int]:
    """Return partitions in the order of `new HashSet(partitions)`."""
    return partitions if len(partitions) == 1 else _Set(partitions, jdk).ordered()


class _Names:
    """A HashMap of topics.

    A bucket is in order of insertion, which a growing table keeps: `put` inserts at its end,
    `compute` (`computeIfAbsent`) at its head. Where a bucket might become a tree, all steps are
    repeated with a `JavaHashMap`.
    """

    def __init__(self, lists: _Lists, capacity: int) -> None:
        self.lists = lists
        self.first = self.buckets = capacity
        self.places: dict[int, int] = {}
        self.steps: list[tuple[str, int]] = []

    def put(self, topic: int) -> None:
        """Put a topic that is not in the map."""
        self.steps.append(("put", topic))
        self.places[topic] = len(self.steps)
        self._grow_if_full()

    def compute(self, topic: int) -> None:
        """Put a topic unless it is in the map."""
        self.steps.append(("compute", topic))
        self._grow_if_full()
        self.places.setdefault(topic, -len(self.steps))

    def remove(self, topic: int) -> None:
        """Remove a topic."""
        self.steps.append(("remove", topic))
        del self.places[topic]

    def ordered(self) -> list[int]:
        """Return the topics in iteration order."""
        places, hashes, mask = self.places, self.lists.hashes, self.buckets - 1
        if len(places) < 2:
            return list(places)
        if _may_be_crowded([hashes[topic] for topic in {topic for _, topic in self.steps}], self.first):
            return self._step_by_step()
        return sorted(places, key=lambda topic: (hashes[topic] & mask, places[topic]))

    def _grow_if_full(self) -> None:
        if len(self.places) > self.buckets * 3 // 4:
            self.buckets *= 2

    def _step_by_step(self) -> list[int]:
        made = topic_map(self.lists.group.topology, self.first)
        for step, topic in self.steps:
            if step == "put":
                made.put(topic, None)
            elif step == "compute":
                made.compute_if_absent(topic, lambda: None)
            else:
                made.remove(topic)
        return list(made)


class _Set:
    """A HashSet of partitions: with `jdk` a copy of `given`, else new and empty.

    Its order is found as that of `_Names`. A number is its own hash.
    """

    __slots__ = ("buckets", "first", "given", "highest", "places", "steps")

    def __init__(self, given: Sequence[int], jdk: int | None = None) -> None:
        self.first = _DEFAULT if jdk is None else copied_set_capacity(len(given), jdk)
        self.given = given
        self.places = dict(zip(given, range(len(given)), strict=True))
        self.steps: list[tuple[int, bool]] = []
        self.buckets = hash_map_capacity(len(self.places), self.first)
        self.highest = max(given, default=0)

    def add(self, partition: int) -> None:
        """Add a partition that is not in the set."""
        self.steps.append((partition, True))
        self.places[partition] = len(self.given) + len(self.steps)
        if partition > self.highest:
            self.highest = partition
        if len(self.places) > self.buckets * 3 // 4:
            self.buckets *= 2

    def discard(self, partition: int) -> None:
        """Remove a partition that is in the set."""
        self.steps.append((partition, False))
        del self.places[partition]

    def ordered(self) -> list[int]:
        """Return the partitions in iteration order."""
        places, mask = self.places, self.buckets - 1
        if self.highest <= mask:  # each has a bucket of its own
            return sorted(places)
        if self.highest > _UNSPREAD or _may_be_crowded(
            {*self.given, *(partition for partition, _ in self.steps)}, self.first
        ):
            return self._step_by_step()
        return sorted(places, key=lambda partition: (partition & mask, places[partition]))

    def _step_by_step(self) -> list[int]:
        made: JavaHashSet[int] = JavaHashSet(self.first)
        for partition in self.given:
            made.add(partition)
        for partition, is_added in self.steps:
            if is_added:
                made.add(partition)
            else:
                made.discard(partition)
        return list(made)


def _may_be_crowded(hashes: Collection[int], first: int) -> bool:
    """Return whether a bucket may become a tree, or make a small table grow."""
    if len(hashes) < TREE_FROM:
        return False
    mask = max(first, _DEFAULT) - 1  # smaller tables do not hold so many keys
    return max(Counter(hashed & mask for hashed in hashes).values()) >= TREE_FROM

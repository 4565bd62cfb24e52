"""The server-side `range`: each topic is divided among its subscribers, static members first.

Owned partitions are ignored. Topics with the same numbers of partitions and subscribers are
co-partitioned.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec
from quorate.assignors.range_few import divided
from quorate.assignors.server.assignor import KafkaServerAssignor
from quorate.assignors.server.ids import few_in_broker_order, id_hashes, subscribed_in_order
from quorate.assignors.server.old_targets import topic_map
from quorate.assignors.small_groups import small_groups_in_c
from quorate.assignors.subscribers import range_owners, subscriber_sets
from quorate.assignors.subscription_type import HOMOGENEOUS
from quorate.assignors.target import TargetAssignment, target_of_all, target_of_lists
from quorate.assignors.topology import Ints, Topology, grouped, sorted_by, stable_order
from quorate.codecs.releases import KafkaVersion

OLDEST = KafkaVersion(4, 0, 0)
"""The first release whose algorithm is implemented."""

FEW = 1000
"""For so many members and partitions together, or fewer, lists are faster."""


class ServerRangeAssignor(KafkaServerAssignor):
    """Kafka's `org.apache.kafka.coordinator.group.assignor.RangeAssignor`, with its results.

    `version` must be 4.0.0 or later. Early-access releases used racks (until KAFKA-16694) or owned
    partitions, which is not implemented.
    """

    name: ClassVar[str] = "range"

    def target(self, group: GroupSpec) -> TargetAssignment:
        """Return the target assignment; see `KafkaServerAssignor.target`."""
        if self.version is not self._checked:
            self._require_version(OLDEST)
        if not group.member_ids:
            return target_of_all(group, np.empty(0, np.int64), np.empty(0, np.int64))
        if (self.subscription_type or group.subscription_type) is HOMOGENEOUS:
            if group.size <= FEW:
                found = assign_few(group, self.jdk)
                if found is not None:
                    return found
            members = group.sorted_order
            # All get partitions of the topics that the first member in sorted order subscribes to.
            topics = subscribed_in_order(group, int(group.listing_of[members[0]]), self.jdk)
            maps = _TopicMaps(group.topology, [topics], [len(topics)], np.zeros(len(group), np.int64))
            return _assigned(group, maps, topics, np.zeros(len(topics), np.int64), [members])
        # A member's map is sized by the names in its subscription, known or not.
        maps = _TopicMaps(
            group.topology,
            [subscribed_in_order(group, listing, self.jdk) for listing in range(len(group.listings))],
            [len(set(names)) for names in group.listings],
            group.listing_of,
        )
        sets = subscriber_sets(group)
        topics = group.subscribed_topics
        return _assigned(group, maps, topics, sets.set_of[topics], sets.members)


def assign_few(group: GroupSpec, jdk: int) -> TargetAssignment | None:
    """Return the target assignment of a group with one subscription, computed in C or with lists.

    `None` if a map of topics may have a crowded bucket. Raises `AssignorError`.
    """
    in_c, lists = small_groups_in_c(), group.topology.lists
    if in_c is not None and len(group.listings) == 1:
        topics, _ = few_in_broker_order(group, 0, jdk)
        found = in_c.server_range(group.members, topics, lists.packed)
        if found is not None:
            return target_of_lists(group, found)
    members = group.sorted_places
    topics, _ = few_in_broker_order(group, group.listing_numbers[members[0]], jdk)
    capacity = java_order.table_size(len(topics) * 4 // 3 + 1)
    if lists.is_crowded(topics, capacity):
        return None
    return target_of_lists(group, [*divided(lists.first, lists.ordered(topics, capacity), members)])


class _TopicMaps:
    """The iteration order of topics of members with the same list of names.

    `topics`: per list, in insertion order.
    """

    def __init__(self, topology: Topology, topics: Sequence[Ints], sizes: Sequence[int], listing_of: Ints) -> None:
        self.topics = topics
        self.listing_of = listing_of
        self.capacities = [java_order.table_size(size * 4 // 3 + 1) for size in sizes]
        hashes = id_hashes(topology)
        self.orders: list[Ints] = []
        self.crowded: list[int] = []
        for number, (one, capacity) in enumerate(zip(topics, self.capacities, strict=True)):
            self.orders.append(one[np.argsort(hashes[one] & np.uint32(capacity - 1), kind="stable")])
            if java_order.crowded_maps(hashes[one], np.array([capacity]), 9, sizes=np.array([len(one)])).any():
                self.crowded.append(number)

    def ranks(self, topics: Ints, topic_count: int) -> Ints | None:
        """Return the place of each topic in an order common to all lists.

        `None` if no such order is obvious.
        """
        ranks = np.full(topic_count, -1, np.int64)
        for order in self.orders:
            if (ranks[order] >= 0).any():
                return None
            ranks[order] = np.arange(len(order))
        return ranks[topics]


def _assigned(group: GroupSpec, maps: _TopicMaps, topics: Ints, set_of: Ints, sets: Sequence[Ints]) -> TargetAssignment:
    """Return the target assignment.

    `set_of[i]`: the index in `sets` (sorted members) of the subscribers of `topics[i]`.
    """
    topology = group.topology
    ranks = maps.ranks(topics, len(topology))
    if ranks is not None:
        order = np.argsort(ranks, kind="stable")
        topics, set_of = topics[order], set_of[order]
    numbers = topology.partitions_of(topics)
    owners = np.concatenate([np.empty(0, np.int64), *range_owners(sets, set_of, topology.sizes[topics])])
    if ranks is None:
        by_rank = _by_rank(maps, topology, owners, numbers)
        numbers, owners = numbers[by_rank], owners[by_rank]
    numbers, lengths = sorted_by(owners, numbers, len(group)), np.bincount(owners, minlength=len(group))
    for listing in maps.crowded:
        _reorder_crowded(topology, maps, listing, numbers, lengths)
    return target_of_all(group, numbers, lengths)


def _by_rank(maps: _TopicMaps, topology: Topology, owners: Ints, numbers: Ints) -> Ints:
    """Sort partitions by their topic's place in the map of the member that gets them."""
    count = len(topology)
    lengths = [len(order) for order in maps.orders]
    keys = np.repeat(np.arange(len(lengths)), lengths) * count + np.concatenate(maps.orders)
    places = np.concatenate([np.arange(length) for length in lengths])
    wanted = maps.listing_of[owners] * count + topology.topic_of[numbers]
    if len(lengths) * count <= 1 << 24:
        table = np.zeros(len(lengths) * count, np.int64)
        table[keys] = places
        ranks = table[wanted]
    else:
        by_key = np.argsort(keys)
        ranks = places[by_key][np.searchsorted(keys[by_key], wanted)]
    return stable_order(ranks, count)


def _reorder_crowded(topology: Topology, maps: _TopicMaps, listing: int, numbers: Ints, lengths: Ints) -> None:
    """Correct the order of members whose map has a crowded bucket, one by one."""
    ends = np.cumsum(lengths)
    for member in np.flatnonzero(maps.listing_of == listing).tolist():
        mine = numbers[ends[member] - lengths[member] : ends[member]]
        by_topic = grouped(zip(topology.topic_of[mine].tolist(), mine.tolist(), strict=True))
        target = topic_map(topology, maps.capacities[listing])
        for topic in maps.topics[listing].tolist():
            if topic in by_topic:
                target.put(topic, by_topic[topic])
        mine[:] = [number for _, listed in target.items() for number in listed]

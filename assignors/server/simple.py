"""`simple` of KIP-932, for share groups: balanced, and as sticky as balance allows.

Several members may own the same partition.
"""

from collections.abc import Collection, Mapping
from typing import ClassVar

import numpy as np

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec, SubscriptionType
from quorate.assignors.model import AssignorError
from quorate.assignors.server.assignor import KafkaServerAssignor
from quorate.assignors.server.ids import subscribed_in_order
from quorate.assignors.server.old_targets import old_targets
from quorate.assignors.server.share_target import deep_copy, held_target, share_target
from quorate.assignors.server.sharing import Held, Pool, share_out
from quorate.assignors.subscribers import subscriber_sets
from quorate.assignors.target import Record, TargetAssignment, target_of_changed
from quorate.assignors.topology import BLOCK, Ints, Topology, stable_order
from quorate.codecs.releases import KafkaVersion


class SimpleAssignor(KafkaServerAssignor):
    """Kafka's `org.apache.kafka.coordinator.group.assignor.SimpleAssignor`, with its results.

    `assignable`: topic → the partitions that may be assigned; topics not listed have none. The
    coordinator assigns those whose share-group state is initialized (KIP-932). By default all.
    `version` must be 4.2.0 or later, the first release with share groups for production.

    Two peculiarities are Kafka's. With different subscriptions, members keep partitions of topics
    without any subscriber, even deleted ones. And a record still lists topics whose partitions were
    all lost. In `Member.owned`, -1 stands for a topic without partitions, and the text of a topic
    id for the name of a deleted topic. `GroupSpec.with_owned` drops both.
    """

    name: ClassVar[str] = "simple"

    def __init__(
        self,
        *,
        version: KafkaVersion = KafkaVersion.NEWEST,
        jdk: int = 17,
        subscription_type: SubscriptionType | None = None,
        assignable: Mapping[str, Collection[int]] | None = None,
    ) -> None:
        super().__init__(version=version, jdk=jdk, subscription_type=subscription_type)
        if assignable is not None and not isinstance(assignable, Mapping):
            raise AssignorError(f"`assignable` must map topics to partitions, not be {assignable!r}")
        self.assignable = assignable

    def target(self, group: GroupSpec) -> TargetAssignment:
        """Return the target assignment; see `KafkaServerAssignor.target`.

        Raises `AssignorError` also where Kafka's assignor fails: if members own partitions that are
        not assignable.
        """
        self._require_version(KafkaVersion(4, 2, 0))
        if not len(group):
            return _empty_target(group)
        homogeneous = self._type_of(group) is SubscriptionType.HOMOGENEOUS
        topology = group.topology
        topics = _of_the_first(group, self.jdk) if homogeneous else _of_all(group, self.jdk)
        if not len(topics):
            return _empty_target(group)
        pool_of = np.full(len(topology), -1, np.int64)
        if homogeneous:
            pool_of[topics] = 0
            pools = [Pool(np.arange(len(group)), assignable_partitions(topology, topics, self.assignable))]
        else:
            pool_of[topics] = np.arange(len(topics))
            pools = _pools(group, topics, self.assignable)
        held = _held(group, pool_of, self.jdk)
        given_up, places, numbers = share_out(pools, held, _key_hashes(topology, homogeneous), len(group))
        given = Held(held.pools[given_up], held.places[given_up], held.numbers[given_up])
        return share_target(group, given, places, numbers, pool_of >= 0 if homogeneous else None, self.jdk)

    def unchanged(self, group: GroupSpec, member: int) -> Record:
        """Return the record of a member whose target `target` did not change.

        It is in the order of the broker's map: a copy, if subscriptions are equal and the member
        has its full share.
        """
        held = held_target(group, member, self.jdk)
        topics = _of_the_first(group, self.jdk)
        if self._type_of(group) is SubscriptionType.HOMOGENEOUS and len(topics):
            partitions = assignable_partitions(group.topology, topics, self.assignable)
            part = Pool(np.arange(len(group)), partitions).parts[group.hash_place[member]]
            if sum(map(len, dict(held.items()).values())) >= part:
                held = deep_copy(held, self.jdk)
        return tuple((topic, tuple(numbers)) for topic, numbers in held.items())


def assignable_partitions(topology: Topology, topics: Ints, assignable: Mapping[str, Collection[int]] | None) -> Ints:
    """Return the assignable partitions of these topics, topic after topic, ascending."""
    numbers = topology.partitions_of(topics)
    if assignable is None:
        return numbers
    names = [topology.topics[topic].name for topic in topics.tolist()]
    wanted = [topology.number(name, partition) for name in names for partition in assignable.get(name, ())]
    return numbers[np.isin(numbers, np.array(wanted, np.int64))]


def _of_the_first(group: GroupSpec, jdk: int) -> Ints:
    """Return the topics of the first member, in the broker's iteration order."""
    return subscribed_in_order(group, int(group.listing_of[group.hash_order[0]]), jdk)


def _of_all(group: GroupSpec, jdk: int) -> Ints:
    """Return all subscribed topics in the order of the broker's HashSet of their ids.

    The broker adds the ids member after member.
    """
    topology = group.topology
    _, firsts = np.unique(group.listing_of[group.hash_order], return_index=True)
    listings = group.listing_of[group.hash_order[np.sort(firsts)]].tolist()
    added = [topic for listing in listings for topic in subscribed_in_order(group, listing, jdk).tolist()]
    topics = np.array(list(dict.fromkeys(added)), np.int64)
    most, least = topology.id_halves
    ids = [topology.topics[topic].id for topic in topics.tolist()]
    return topics[java_order.hash_map_order(java_order.uuid_hashes(most[topics], least[topics]), keys=ids)]


def _pools(group: GroupSpec, topics: Ints, assignable: Mapping[str, Collection[int]] | None) -> list[Pool]:
    """Return one pool for each topic."""
    sets = subscriber_sets(group, group.hash_order)
    numbers = assignable_partitions(group.topology, topics, assignable)
    counts = np.bincount(group.topology.topic_of[numbers], minlength=len(group.topology))[topics]
    parts = np.split(numbers, np.cumsum(counts)[:-1])
    return [Pool(sets.places[number], part) for number, part in zip(sets.set_of[topics].tolist(), parts, strict=True)]


def _held(group: GroupSpec, pool_of: Ints, jdk: int) -> Held:
    order = group.hash_order
    places, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    step = max(1, len(order) * BLOCK // (len(group.owned) + 1))  # members at a time; see `BLOCK`
    for start in range(0, len(order), step):
        old = old_targets(group, order[start : start + step], jdk)
        wanted = np.flatnonzero(pool_of[old.topics] >= 0)
        places.append(old.slots[wanted] + start)
        numbers.append(old.numbers[wanted])
    held = np.concatenate(numbers)
    pools = pool_of[group.topology.topic_of[held]]
    by_pool = stable_order(pools, len(pool_of))
    return Held(pools[by_pool], np.concatenate(places)[by_pool], held[by_pool])


def _key_hashes(topology: Topology, homogeneous: bool) -> java_order.UInts:
    """Return the hash of each partition as the broker's map key.

    The key is a `TopicIdPartition`, or within one topic the partition number.
    """
    partitions = topology.partition_of.astype(np.uint32)
    if not homogeneous:
        return partitions
    hashes: java_order.UInts = java_order.uuid_hashes(*topology.id_halves)[topology.topic_of] * np.uint32(31)
    return hashes + partitions


def _empty_target(group: GroupSpec) -> TargetAssignment:
    """Return a target assignment without partitions."""
    changed = group.hash_order[group.owned_counts[group.hash_order] > 0]
    return target_of_changed(group, changed, np.empty(0, np.int64), np.zeros(len(changed), np.int64))

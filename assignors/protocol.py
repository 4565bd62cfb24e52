"""The protocol of plug-in assignors for brokers, modelled on Kafka's (KIP-848)."""

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from quorate.assignors.group import GroupSpec
from quorate.assignors.topology import Topology
from quorate.codecs import Uuid

GroupAssignment = Mapping[str, Mapping[Uuid, Iterable[int]]]
"""A target assignment: member id → topic id → partitions. Members without an entry get none."""


class SubscribedTopicDescriber:
    """Partitions and racks of a group's topics, from the cluster metadata.

    Each call takes constant time.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def num_partitions(self, topic_id: Uuid) -> int:
        """Return the number of partitions, -1 if the topic does not exist."""
        index = self._topology.index_by_id.get(topic_id)
        return -1 if index is None else self._topology.topics[index].partitions

    def racks_for_partition(self, topic_id: Uuid, partition: int) -> frozenset[str]:
        """Return the racks of the brokers that have replicas, whether these are in sync or not.

        Empty if the partition does not exist, or if no broker has a rack.
        """
        topology = self._topology
        index = topology.index_by_id.get(topic_id)
        if index is None or not topology.topics[index].racks:
            return frozenset()
        topic = topology.topics[index]
        number = topology.number(topic.name, partition)
        if number < 0:
            return frozenset()
        return frozenset(rack for rack in topic.racks[number - int(topology.first[index])] if rack)


@runtime_checkable
class ServerAssignor(Protocol):
    """A server-side assignor of consumer groups (KIP-848), as a plug-in for a broker.

    Modelled on Kafka's `ConsumerGroupPartitionAssignor`. Members select it by `name`, with the
    consumer's config `group.remote.assignor`. One instance serves all groups and brokers of an
    embedded cluster.
    """

    @property
    def name(self) -> str:
        """The name in requests of members, and in descriptions of groups."""

    def assign(self, group_spec: GroupSpec, topic_describer: SubscribedTopicDescriber, /) -> GroupAssignment:
        """Return the target assignment of a group.

        Called while a member's heartbeat is handled, so it must not block. If it raises, or returns
        something else than existing partitions of subscribed topics, each at most once, the
        heartbeat fails and the group keeps its last target assignment.
        """

"""`roundrobin`, the client-side assignor: all partitions in the order of topics, dealt out one by one to the sorted members that subscribe."""

from typing import ClassVar

import numpy as np

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.subscribers import assigned_by_topic, subscriber_sets, topics_by_name

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor(Assignor):
    """Kafka's `org.apache.kafka.clients.consumer.RoundRobinAssignor`, with its answers in its order.

    Each partition goes to the next member after the one that got the last partition, members that
    do not subscribe to the topic being passed over. Racks and what members own do not count. Where
    metadata lacks partitions of a topic, Kafka counts from 0 and hands out some that do not exist;
    this one hands out those that do.
    """

    name: ClassVar[str] = "roundrobin"

    def assign_group(self, group: GroupSpec) -> Assignment:
        """Assign a prepared group; see `Assignor.assign`."""
        topology = group.topology
        topics = topics_by_name(group, group.subscribed_topics)
        topics = topics[topology.sizes[topics] > 0]
        subscribers = subscriber_sets(group)
        turn = 0  # whose turn it is, among all members as they sort
        owners = []
        for topic in topics.tolist():
            number = subscribers.set_of[topic]
            members, places = subscribers.members[number], subscribers.places[number]
            count = int(topology.sizes[topic])
            start = int(np.searchsorted(places, turn))
            owners.append(members[(start + np.arange(count)) % len(members)])
            turn = int(places[(start + count - 1) % len(places)]) + 1
        return assigned_by_topic(group, topics, owners)

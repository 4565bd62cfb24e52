"""The client-side `roundrobin` assignor.

Partitions in topic order are assigned in turn to the sorted subscribers.
"""

from typing import ClassVar

import numpy as np

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.subscribers import assigned_by_topic, subscriber_sets, topics_by_name


class RoundRobinAssignor(Assignor):
    """Kafka's `org.apache.kafka.clients.consumer.RoundRobinAssignor`: its results in its order.

    Each partition is assigned to the next member, in sorted order, that subscribes to its topic.
    Racks and owned partitions are ignored. Where metadata lacks partitions of a topic, Kafka counts
    from 0 and assigns some that do not exist; this assignor assigns only those that exist.
    """

    name: ClassVar[str] = "roundrobin"

    def assign_group(self, group: GroupSpec) -> Assignment:
        """Assign a prepared group; see `Assignor.assign`."""
        topology = group.topology
        topics = topics_by_name(group, group.subscribed_topics)
        topics = topics[topology.sizes[topics] > 0]
        subscribers = subscriber_sets(group)
        turn = 0  # position of the next member among all sorted members
        owners = []
        for topic in topics.tolist():
            number = subscribers.set_of[topic]
            members, places = subscribers.members[number], subscribers.places[number]
            count = int(topology.sizes[topic])
            start = int(np.searchsorted(places, turn))
            owners.append(members[(start + np.arange(count)) % len(members)])
            turn = int(places[(start + count - 1) % len(places)]) + 1
        return assigned_by_topic(group, topics, owners)

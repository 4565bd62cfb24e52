"""The client-side `roundrobin` assignor.

Partitions in topic order are assigned in turn to the sorted subscribers.
"""

from typing import ClassVar, Final

import numpy as np

from quorate.assignors import java_order
from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.subscribers import assigned_by_topic, subscriber_sets, topics_by_name

FEW: Final = 1000
"""For so many members and partitions together, or fewer, lists are faster."""


class RoundRobinAssignor(Assignor):
    """Kafka's `org.apache.kafka.clients.consumer.RoundRobinAssignor`: its results in its order.

    Each partition is assigned to the next member, in sorted order, that subscribes to its topic.
    Racks and owned partitions are ignored. Where metadata lacks partitions of a topic, Kafka counts
    from 0 and assigns some that do not exist; this assignor assigns only those that exist.
    """

    name: ClassVar[str] = "roundrobin"

    def assign_group(self, group: GroupSpec) -> Assignment:
        """Assign a prepared group; see `Assignor.assign`."""
        if len(group.subscriptions) == 1 and group.size <= FEW:
            return assign_few(group)
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


def assign_few(group: GroupSpec) -> Assignment:
    """Return the same for a group with one subscription, with lists: no member is ever skipped."""
    topology = group.topology
    index, first = topology.index, topology.lists.first
    names = [name for name in dict.fromkeys(group.listings[0]) if name in index]
    partitions: list[int] = []
    for place in java_order.string_places(names):
        topic = index[names[place]]
        partitions += range(first[topic], first[topic + 1])
    assigned: list[list[int]] = [[] for _ in group.member_ids]
    for turn, member in enumerate(group.sorted_places):
        assigned[member] = partitions[turn :: len(assigned)]
    return Assignment.from_lists(topology, group.member_ids, assigned)

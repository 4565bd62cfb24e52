"""The partition order of the general sticky assignment, and potential owners.

Topics are sorted by the number of potential owners, then by name. Members are numbered by the rank
of their id.
"""

from dataclasses import dataclass

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.topology import Ints


@dataclass(frozen=True)
class Plan:
    """Partitions in order, and the members that could own them.

    `topics[t]`: a topic's number in the topology; its partitions have the positions `first[t]` to
    `first[t + 1] - 1`. `number[position]`, `topic[position]`: partition and topic at a position.
    `subscribed[s, t]`: whether subscription `s` includes topic `t`. `potential[t]`: how many
    members could own topic `t`. `rank[member]`: members by id; `subscription[rank]`: by rank.
    """

    topics: Ints
    first: Ints
    number: Ints
    topic: Ints
    subscribed: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    potential: Ints
    rank: Ints
    subscription: Ints

    def subscriptions(self, topic: int) -> list[int]:
        """Return the subscriptions that include a topic."""
        having: list[int] = np.flatnonzero(self.subscribed[:, topic]).tolist()
        return having


def plan_of(group: GroupSpec, topics: Ints) -> Plan:
    """Return the plan for `topics`, which are ascending by name."""
    topology = group.topology
    potential = np.bincount(group.subscription_of, minlength=len(group.subscriptions)) @ group.subscribes
    topics = topics[np.argsort(potential[topics], kind="stable")]
    counts = topology.sizes[topics]
    first = np.concatenate([[0], np.cumsum(counts)])
    topic = np.repeat(np.arange(len(topics)), counts)
    rank = np.empty(len(group), np.int64)
    rank[group.id_order] = np.arange(len(group))
    return Plan(
        topics,
        first,
        topology.partitions_of(topics),
        topic,
        group.subscribes[:, topics],
        potential[topics],
        rank,
        group.subscription_of[group.id_order],
    )

"""Subscribers, and partition owners before an assignment, at most one per partition.

Kafka's own assignors have their own rules for conflicting claims.
"""

import numpy as np
import numpy.typing as npt

from quorate.assignors.group import GroupSpec
from quorate.assignors.topology import Ints

Bools = npt.NDArray[np.bool_]


def subscribes(group: GroupSpec, members: Ints, topics: Ints) -> Bools:
    """Mark the pairs in which the member subscribes to the topic."""
    if len(group.subscriptions) == 1 or not len(members):
        named = np.zeros(len(group.topology), np.bool_)
        named[group.subscribed_topics] = True
        all_name: Bools = named[topics]
        return all_name
    count = len(group.topology)
    lengths = [len(subscription.topics) for subscription in group.subscriptions]
    named_topics = np.concatenate([subscription.topics for subscription in group.subscriptions])
    keys = np.repeat(np.arange(len(lengths)), lengths) * count + named_topics
    wanted = group.subscription_of[members] * count + topics
    if len(lengths) * count <= 1 << 26:
        matrix = np.zeros(len(lengths) * count, np.bool_)
        matrix[keys] = True
        does: Bools = matrix[wanted]
        return does
    return np.isin(wanted, keys)


def previous_owners(group: GroupSpec) -> Ints:
    """Return for each partition of the topology the member that owns it, or -1.

    Partitions of topics that the member no longer subscribes to do not count. If several members
    claim a partition, the one with the highest generation owns it (KIP-341). If several members
    have that generation, none of them does.
    """
    topology = group.topology
    owners: Ints = np.full(int(topology.first[-1]), -1, np.int64)
    members, partitions = group.owning, group.owned
    known = partitions >= 0
    if not known.all():
        members, partitions = members[known], partitions[known]
    if not len(partitions):
        return owners
    if len(group.subscriptions) > 1 or len(group.subscribed_topics) < len(topology):
        mine = subscribes(group, members, topology.topic_of[partitions])
        if not mine.all():
            members, partitions = members[mine], partitions[mine]
    owners[partitions] = members
    if len(partitions) > np.count_nonzero(owners >= 0):
        _resolve_conflicts(owners, partitions, members, group.generations)
    return owners


def _resolve_conflicts(owners: Ints, partitions: Ints, members: Ints, generations: Ints) -> None:
    """Resolve partitions that are claimed more than once, by several members or by one."""
    partitions, members = np.unique(np.stack([partitions, members]), axis=1)
    order = np.lexsort((-generations[members], partitions))
    partitions, members = partitions[order], members[order]
    first = np.append(True, partitions[1:] != partitions[:-1])
    owners[partitions[first]] = members[first]
    # The second claim of a partition directly follows the first.
    rival = np.flatnonzero(first[:-1] & ~first[1:]) if len(first) > 1 else np.empty(0, np.int64)
    tied = rival[generations[members[rival]] == generations[members[rival + 1]]]
    owners[partitions[tied]] = -1

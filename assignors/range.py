"""The client-side `range` assignor; rack-aware since Kafka 3.5 (KIP-881).

Each topic is divided among its subscribers in sorted order: each gets `partitions div subscribers`
consecutive partitions, and the first `partitions mod subscribers` of them get one more. If racks
can improve locality for some topic, partitions are first assigned to subscribers for which they
are local, up to the same counts. Topics with the same subscribers and number of partitions stay
co-partitioned. Members' partitions are then listed by topic name, otherwise in Java's iteration
order of topics.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, Member
from quorate.assignors.range_few import assign_few
from quorate.assignors.small_groups import small_groups_in_c
from quorate.assignors.subscribers import (
    SubscriberSets,
    assigned_by_topic,
    range_owners,
    ranges,
    subscriber_sets,
    topics_by_name,
    topics_in_computed_order,
    topics_in_hash_order,
)
from quorate.assignors.topology import Ints, Topology
from quorate.codecs.releases import KafkaVersion

FEW = 1000
"""For so many members and partitions together, or fewer, lists are faster."""

Bools = npt.NDArray[np.bool_]


class RangeAssignor(Assignor):
    """Kafka's `org.apache.kafka.clients.consumer.RangeAssignor`, with its results in its order.

    Follows Kafka 4.3; rack-aware since 3.5 (KIP-881). With a `version` before 3.5 racks are ignored
    and members list topics in another order. Owned partitions are ignored. Where metadata lacks
    partitions of a topic, Kafka's co-partitioning may assign partitions that do not exist; this
    assignor assigns only those that exist.
    """

    name: ClassVar[str] = "range"

    def __init__(self, *, version: KafkaVersion = KafkaVersion.NEWEST) -> None:
        self._uses_racks = version >= KafkaVersion(3, 5)
        self._in_c = small_groups_in_c() if self._uses_racks and type(self) is RangeAssignor else None

    def assign(self, members: Mapping[str, Member], topology: Topology) -> Assignment:
        """Assign the partitions of the subscribed topics; see `Assignor.assign`."""
        if self._in_c is not None and len(members) + topology.partition_count <= FEW and topology.is_plain:
            lists = self._in_c.range(members, topology.index, topology.starts)
            if lists is not None:
                return Assignment.from_lists(topology, tuple(members), lists)
        return super().assign(members, topology)

    def assign_group(self, group: GroupSpec) -> Assignment:
        """Assign a prepared group; see `Assignor.assign`."""
        if not self._uses_racks:
            topics = topics_in_computed_order(group)
            return assigned_by_topic(group, topics, _plain(group.topology, topics, subscriber_sets(group)))
        if len(group.subscriptions) == 1 and not group.racks and group.size <= FEW:
            return assign_few(group)
        topics = topics_in_hash_order(group)
        subscribers = subscriber_sets(group)
        improvable = _improvable_topics(group, topics, subscribers)
        if len(improvable):
            topics = topics_by_name(group, topics)
            return assigned_by_topic(group, topics, _local_first(group, topics, subscribers, frozenset(improvable)))
        return assigned_by_topic(group, topics, _plain(group.topology, topics, subscribers))


def _plain(topology: Topology, topics: Ints, subscribers: SubscriberSets) -> list[Ints]:
    """Return the owners of each topic's partitions, ignoring racks."""
    return range_owners(subscribers.members, subscribers.set_of[topics], topology.sizes[topics])


# ---- racks


def _improvable_topics(group: GroupSpec, topics: Ints, subscribers: SubscriberSets) -> list[int]:
    """Return the topics whose locality racks can improve.

    Some of their subscribers have racks, some of these racks have replicas, and not all partitions
    have replicas in the same racks.
    """
    topology = group.topology
    if not group.racks or not len(topics) or len(topology.rack_sets) < 2:
        return []
    number_of: dict[frozenset[str], int] = {}
    numbers = np.array([number_of.setdefault(racks, len(number_of)) for racks in topology.rack_sets])
    racks_of = numbers[topology.replica_racks_of]
    ordered = np.sort(topics)
    first, last = topology.first[ordered], topology.first[ordered + 1]
    # reduceat extends each range to the start of the next. Topics in between that have no
    # subscriber must be cut off.
    bounds = np.stack([first, last], axis=1).ravel()
    padded = np.append(racks_of, 0)
    least = np.minimum.reduceat(padded, bounds)[::2]
    most = np.maximum.reduceat(padded, bounds)[::2]
    local: dict[int, Bools] = {}
    improvable = []
    for topic in ordered[least != most].tolist():
        number = int(subscribers.set_of[topic])
        if number not in local:
            racks = np.unique(group.rack_of[subscribers.members[number]])
            local[number] = np.logical_or.reduce(group.local[racks[racks >= 0]], axis=0)
        if local[number][topology.replica_racks_of[topology.first[topic] : topology.first[topic + 1]]].any():
            improvable.append(topic)
    return improvable


def _local_first(group: GroupSpec, topics: Ints, subscribers: SubscriberSets, improvable: frozenset[int]) -> list[Ints]:
    """Return the owners of each topic's partitions, local subscribers first.

    Topics with the same subscribers and number of partitions are assigned co_partitioned.
    """
    topology = group.topology
    co_partitioned: dict[tuple[int, int], list[int]] = {}
    for topic in topics.tolist():
        count = int(topology.sizes[topic])
        co_partitioned.setdefault((int(subscribers.set_of[topic]), count), []).append(topic)
    owners: dict[int, Ints] = {}
    for (number, count), same in co_partitioned.items():
        members = subscribers.members[number]
        if not (len(same) > 1 or same[0] in improvable) or not (group.rack_of[members] >= 0).any():
            owners |= dict.fromkeys(same, ranges(members, count))
            continue
        racks = _Racks(group, members)
        if len(same) == 1:
            local_owners = _owners_of_one_topic(racks, racks.candidates(same), count)
            owners[same[0]] = members[_fill(local_owners, len(members))]
            continue
        local_owners = _owners_of_all_topics(racks, racks.candidates(same), count)
        all_owners = members[_fill(local_owners, len(members))]
        for topic in same:
            ids = topology.topics[topic].numbers
            if ids is None:
                owners[topic] = all_owners
            else:
                owners[topic] = members[_fill(_by_position(local_owners, ids), len(members))]
    return [owners[topic] for topic in topics.tolist()]


def _by_position(owners: Ints, ids: Sequence[int]) -> Ints:
    """Convert owners by partition id to owners by position, for a topic with missing partitions."""
    return np.array([owners[number] if number < len(owners) else -1 for number in ids], np.int64)


class _Racks:
    """Subscribers of a topic by rack.

    `queues[r]`: the positions of the subscribers in rack `r`, ascending. The last queue is that of
    subscribers without a rack.
    """

    def __init__(self, group: GroupSpec, members: Ints) -> None:
        self.topology = group.topology
        rack_of = group.rack_of[members]
        racks = np.unique(rack_of)
        self.local: Bools = group.local[racks[racks >= 0]]
        self.queues: list[list[int]] = [np.flatnonzero(rack_of == rack).tolist() for rack in racks[racks >= 0]]
        self.queues.append(np.flatnonzero(rack_of < 0).tolist())
        self.members = len(members)

    def candidates(self, topics: Sequence[int]) -> list[list[int]]:
        """Return for each partition id the queues of the subscribers for which it is local.

        With several topics, it must be local in all of them. For subscribers without a rack all
        partitions are local. The result for a single topic is by position instead of id, so missing
        partitions do not matter.
        """
        rows: dict[bytes, Ints] = {}
        exists = np.True_ if len(topics) == 1 else self._exists_in_all(topics)
        for topic in topics:
            row = self.topology.replica_racks_of[self.topology.first[topic] : self.topology.first[topic + 1]]
            ids = self.topology.topics[topic].numbers
            if ids is not None and len(topics) > 1:
                in_range = np.array(ids) < len(row)
                row, values = np.zeros_like(row), row[in_range]
                row[np.array(ids)[in_range]] = values
            rows.setdefault(row.tobytes(), row)
        match: Bools | None = None
        for row in rows.values():
            match = self.local[:, row] if match is None else match & self.local[:, row]
        assert match is not None
        all_match = np.empty((match.shape[1], len(self.queues)), np.bool_)
        all_match[:, :-1] = match.T
        all_match[:, -1] = bool(self.queues[-1])
        all_match &= np.reshape(exists, (-1, 1))
        queues_of: dict[bytes, list[int]] = {}
        candidates = []
        for matches in all_match:
            key = matches.tobytes()
            queues = queues_of.get(key)
            if queues is None:
                queues = queues_of[key] = np.flatnonzero(matches).tolist()
            candidates.append(queues)
        return candidates

    def _exists_in_all(self, topics: Sequence[int]) -> Bools:
        """Mark the partition ids that exist in all topics."""
        count = int(self.topology.sizes[topics[0]])
        exists = np.ones(count, np.bool_)
        for topic in topics:
            ids = self.topology.topics[topic].numbers
            if ids is not None:
                exists &= np.isin(np.arange(count), ids)
        return exists


def _owners_of_all_topics(racks: _Racks, candidates: Sequence[Iterable[int]], count: int) -> Ints:
    """Return for each partition id the first subscriber below its limit, or -1.

    The partition must be local to the subscriber in all topics.
    """
    members = racks.members
    share, extra = divmod(count, members)
    queues = [[*queue, members] for queue in racks.queues]  # a sentinel after the last subscriber
    heads = [0] * len(queues)
    taken = [0] * members
    owners = np.full(count, -1, np.int64)
    for number, local_queues in enumerate(candidates):
        limit = share + (extra > 0)
        if limit == 0:
            break
        best = members
        for index in local_queues:
            queue = queues[index]
            # Only the head of a queue can be below its limit. A full member stays full, as `limit`
            # never grows.
            while (place := queue[heads[index]]) < members and taken[place] >= limit:
                heads[index] += 1
            best = min(best, place)
        if best < members:
            owners[number] = best
            taken[best] += 1
            extra -= taken[best] > share
    return owners


def _owners_of_one_topic(racks: _Racks, candidates: Sequence[Iterable[int]], count: int) -> Ints:
    """Return the owners of local partitions, in ranges up to the members' limits; else -1."""
    share, extra = divmod(count, racks.members)
    local: list[list[int]] = [[] for _ in racks.queues]
    for place, local_queues in enumerate(candidates):
        for index in local_queues:
            local[index].append(place)
    queue_of = [0] * racks.members
    for index, queue in enumerate(racks.queues):
        for member in queue:
            queue_of[member] = index
    owners = [-1] * count
    positions = [0] * len(local)
    unfinished = {index for index, places in enumerate(local) if places}
    for member, index in enumerate(queue_of):
        limit = left = share + (extra > 0)
        if limit == 0 or not unfinished:
            break
        if index not in unfinished:
            continue
        places, position = local[index], positions[index]
        while left and position < len(places):
            if owners[places[position]] < 0:
                owners[places[position]] = member
                left -= 1
            position += 1
        positions[index] = position
        if position == len(places):
            unfinished.discard(index)
        extra -= limit - left > share
    return np.array(owners, np.int64)


def _fill(owners: Ints, members: int) -> Ints:
    """Assign the partitions without an owner (-1) in ranges, up to the members' limits."""
    share, extra = divmod(len(owners), members)
    free = owners < 0
    if not free.any():
        return owners
    counts = np.bincount(owners[~free], minlength=members)
    above_share = counts > share
    missing = np.where(above_share, 0, share - counts)
    missing[np.flatnonzero(~above_share)[: extra - int(above_share.sum())]] += 1
    filled = owners.copy()
    filled[free] = np.repeat(np.arange(members), missing)
    return filled

"""The client-side `range` assignor; rack-aware since Kafka 3.5 (KIP-881).

Each topic is divided among its subscribers in sorted order: each gets `partitions div subscribers`
consecutive partitions, and the first `partitions mod subscribers` of them get one more. If racks
can improve locality for some topic, partitions are first assigned to subscribers for which they
are local, up to the same counts. Topics with the same subscribers and number of partitions stay
co-partitioned even then. In that case partition lists are in sorted order; otherwise they follow
Java's iteration order of topics.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
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

__all__ = ["RangeAssignor"]

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
        self._racks_count = version >= KafkaVersion(3, 5)

    def assign_group(self, group: GroupSpec) -> Assignment:
        """Assign a prepared group; see `Assignor.assign`."""
        if not self._racks_count:
            topics = topics_in_computed_order(group)
            return assigned_by_topic(group, topics, _plain(group.topology, topics, subscriber_sets(group)))
        topics = topics_in_hash_order(group)
        subscribers = subscriber_sets(group)
        profiting = _profiting_topics(group, topics, subscribers)
        if len(profiting):
            topics = topics_by_name(group, topics)
            return assigned_by_topic(group, topics, _local_first(group, topics, subscribers, frozenset(profiting)))
        return assigned_by_topic(group, topics, _plain(group.topology, topics, subscribers))


def _plain(topology: Topology, topics: Ints, subscribers: SubscriberSets) -> list[Ints]:
    """Return the owners of each topic's partitions, ignoring racks."""
    return range_owners(subscribers.members, subscribers.set_of[topics], topology.sizes[topics])


# ---- racks


def _profiting_topics(group: GroupSpec, topics: Ints, subscribers: SubscriberSets) -> list[int]:
    """Return the topics that racks can improve.

    Some subscribers have racks, some of these have replicas, and not all partitions are in the same
    racks.
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
    found = []
    for topic in ordered[least != most].tolist():
        number = int(subscribers.set_of[topic])
        if number not in local:
            racks = np.unique(group.rack_of[subscribers.members[number]])
            local[number] = np.logical_or.reduce(group.local[racks[racks >= 0]], axis=0)
        if local[number][topology.replica_racks_of[topology.first[topic] : topology.first[topic + 1]]].any():
            found.append(topic)
    return found


def _local_first(group: GroupSpec, topics: Ints, subscribers: SubscriberSets, profiting: frozenset[int]) -> list[Ints]:
    # reduceat extends each range to the start of the next. Topics in between without a subscriber
    # must be cut off.
    topology = group.topology
    together: dict[tuple[int, int], list[int]] = {}
    for topic in topics.tolist():
        count = int(topology.sizes[topic])
        together.setdefault((int(subscribers.set_of[topic]), count), []).append(topic)
    owners: dict[int, Ints] = {}
    for (number, count), alike in together.items():
        members = subscribers.members[number]
        if not (len(alike) > 1 or alike[0] in profiting) or not (group.rack_of[members] >= 0).any():
            owners |= dict.fromkeys(alike, ranges(members, count))
            continue
        racks = _Racks(group, members)
        if len(alike) == 1:
            places = _fill(_alone(racks, racks.candidates(alike), count), len(members))
            owners[alike[0]] = members[places]
            continue
        found = _co_partitioned(racks, racks.candidates(alike), count)
        whole = members[_fill(found, len(members))]
        for topic in alike:
            given = topology.topics[topic].numbers
            owners[topic] = whole if given is None else members[_fill(_by_place(found, given), len(members))]
    return [owners[topic] for topic in topics.tolist()]


def _by_place(owners: Ints, numbers: Sequence[int]) -> Ints:
    """Convert owners by partition id to owners by position, for a topic that lacks partitions."""
    return np.array([owners[number] if number < len(owners) else -1 for number in numbers], np.int64)


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

        With several topics, it must be local in all of them.

        For subscribers without a rack all partitions are local. A single topic is looked up by
        position instead of id, so missing partitions do not matter.
        """
        rows: dict[bytes, Ints] = {}
        there = np.True_ if len(topics) == 1 else self._in_all(topics)
        for topic in topics:
            row = self.topology.replica_racks_of[self.topology.first[topic] : self.topology.first[topic + 1]]
            given = self.topology.topics[topic].numbers
            if given is not None and len(topics) > 1:
                kept = np.array(given) < len(row)
                row, values = np.zeros_like(row), row[kept]
                row[np.array(given)[kept]] = values
            rows.setdefault(row.tobytes(), row)
        match: Bools | None = None
        for row in rows.values():
            match = self.local[:, row] if match is None else match & self.local[:, row]
        assert match is not None
        all_match = np.empty((match.shape[1], len(self.queues)), np.bool_)
        all_match[:, :-1] = match.T
        all_match[:, -1] = bool(self.queues[-1])
        all_match &= np.reshape(there, (-1, 1))
        seen: dict[bytes, list[int]] = {}
        found = []
        for line in all_match:
            key = line.tobytes()
            queues = seen.get(key)
            if queues is None:
                queues = seen[key] = np.flatnonzero(line).tolist()
            found.append(queues)
        return found

    def _in_all(self, topics: Sequence[int]) -> Bools:
        count = int(self.topology.sizes[topics[0]])
        there = np.ones(count, np.bool_)
        for topic in topics:
            given = self.topology.topics[topic].numbers
            if given is not None:
                there &= np.isin(np.arange(count), given)
        return there


def _co_partitioned(racks: _Racks, candidates: Sequence[Iterable[int]], count: int) -> Ints:
    """Return for each partition id the first subscriber below its limit, or -1.

    The partition must be local to the subscriber in all topics.
    """
    members = racks.members
    share, extra = divmod(count, members)
    queues = [[*queue, members] for queue in racks.queues]  # a sentinel after the last subscriber
    heads = [0] * len(queues)
    taken = [0] * members
    owners = np.full(count, -1, np.int64)
    for number, fitting in enumerate(candidates):
        limit = share + (extra > 0)
        if limit == 0:
            break
        best = members
        for one in fitting:
            queue = queues[one]
            # Only the head of a queue can be partly filled. A full one stays full: `limit` never
            # grows.
            while (place := queue[heads[one]]) < members and taken[place] >= limit:
                heads[one] += 1
            best = min(best, place)
        if best < members:
            owners[number] = best
            taken[best] += 1
            extra -= taken[best] > share
    return owners


def _alone(racks: _Racks, candidates: Sequence[Iterable[int]], count: int) -> Ints:
    """Return the owners of one topic's partitions: ranges of local partitions; -1 if not taken."""
    share, extra = divmod(count, racks.members)
    local: list[list[int]] = [[] for _ in racks.queues]
    for place, fitting in enumerate(candidates):
        for one in fitting:
            local[one].append(place)
    queue_of = [0] * racks.members
    for one, queue in enumerate(racks.queues):
        for member in queue:
            queue_of[member] = one
    owners = [-1] * count
    nexts = [0] * len(local)
    live = {one for one, places in enumerate(local) if places}
    for member, one in enumerate(queue_of):
        limit = left = share + (extra > 0)
        if limit == 0 or not live:
            break
        if one not in live:
            continue
        places, position = local[one], nexts[one]
        while left and position < len(places):
            if owners[places[position]] < 0:
                owners[places[position]] = member
                left -= 1
            position += 1
        nexts[one] = position
        if position == len(places):
            live.discard(one)
        extra -= limit - left > share
    return np.array(owners, np.int64)


def _fill(owners: Ints, members: int) -> Ints:
    """Return the owners of one topic's partitions: ranges of local partitions; -1 if not taken."""
    share, extra = divmod(len(owners), members)
    free = owners < 0
    if not free.any():
        return owners
    taken = np.bincount(owners[~free], minlength=members)
    more = taken > share
    takes = np.where(more, 0, share - taken)
    takes[np.flatnonzero(~more)[: extra - int(more.sum())]] += 1
    filled = owners.copy()
    filled[free] = np.repeat(np.arange(members), takes)
    return filled

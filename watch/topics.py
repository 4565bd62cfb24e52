"""What is known about topics: names by id, racks of replicas, and what changed when."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from quorate.assignors import Topic, Topology
from quorate.codecs import Uuid
from quorate.coordinator.history import Labels
from quorate.coordinator.history.labels import Partition
from quorate.watch.causes import NewTopicId, PartitionsChanged, RacksChanged, TopicsChanged

_REFRESH_S = 1.0
"""Metadata are not requested more often."""

_RECENT_S = 15 * 60
"""Clients notice changed metadata within `metadata.max.age.ms`, by default 5 minutes."""


@dataclass(frozen=True, slots=True)
class _Change:
    number: int
    seen_s: float
    topic: str
    kind: type[TopicsChanged]


class KnownTopics:
    """Topics of a cluster. `names`: topic id → name, also from records.

    `read`: returns all topics; `None` if there is no cluster to ask. Thread-safe.
    """

    def __init__(self, read: Callable[[], Topology] | None = None) -> None:
        self.names: dict[Uuid, str] = {}
        self.topology: Topology | None = None
        self._read = read
        self._learned = 0
        self._labels = Labels(names=self.names)
        self._lock = threading.Lock()
        self._read_s = float("-inf")
        self._changes: list[_Change] = []
        self._count = 0
        self._seen: dict[str, int] = {}

    def restore(self, names: Mapping[str, str]) -> None:
        """Continue with names that `learned` returned."""
        self.names |= {Uuid.parse(topic_id): name for topic_id, name in names.items()}
        self._learned = len(self.names)

    def labels(self) -> Labels:
        """Return names for sentences."""
        return self._labels

    def name(self, topic: str) -> str:
        """Return the name of a topic that may be an id in text form."""
        if len(topic) == 22:
            try:
                return self.names.get(Uuid.parse(topic), topic)
            except ValueError:
                return topic
        return topic

    def racks(self, partition: Partition) -> tuple[str | None, ...] | None:
        """Return the racks of a partition's replicas, the leader's first; `None` if unknown."""
        topology, topic = self.topology, self._labels.topic(partition[0])
        if topology is None or topic not in topology:
            return None
        number = topology.number(topic, partition[1])
        index = topology.index[topic]
        racks = topology.topics[index].racks
        return tuple(racks[number - int(topology.first[index])]) if number >= 0 and racks else None

    def passed(self, group_id: str) -> None:
        """Note a rebalance of the group, which earlier changes do not cause again."""
        with self._lock:
            self._seen[group_id] = self._count

    def change(self, group_id: str, topics: Collection[str]) -> TopicsChanged | None:
        """Return what changed in these topics since the last call for the group.

        Reads the metadata again, if the cluster can be reached.
        """
        with suppress(Exception):  # the cause is less exact then; the sampler reports the problem
            self.refresh()
        with self._lock:
            since, self._seen[group_id] = self._seen.get(group_id, 0), self._count
            oldest = time.monotonic() - _RECENT_S
            found = [
                one for one in self._changes if one.number > since and one.topic in topics and one.seen_s >= oldest
            ]
        for kind in (NewTopicId, PartitionsChanged, RacksChanged, TopicsChanged):
            if names := sorted({one.topic for one in found if one.kind is kind}):
                return kind(topics=tuple(names))
        return None

    def refresh(self, *, force: bool = False) -> None:
        """Read the metadata again, at most once a second unless `force`."""
        if self._read is None:
            return
        with self._lock:
            if not force and time.monotonic() - self._read_s < _REFRESH_S:
                return
            self._read_s = time.monotonic()
        topology = self._read()
        with self._lock:
            self.set(topology)

    def set(self, topology: Topology) -> None:
        """Set the topics, and note what is different from before."""
        before = {} if self.topology is None else {topic.name: topic for topic in self.topology.topics}
        after = {topic.name: topic for topic in topology.topics}
        for topic in topology.topics:
            if topic.id is not None and self.names.get(topic.id) != topic.name:
                self.names[topic.id] = topic.name
        first = self.topology is None
        self.topology = topology
        if first:
            return
        for name in before.keys() | after.keys():
            kind = _difference(before.get(name), after.get(name))
            if kind is not None:
                self._count += 1
                self._changes.append(_Change(self._count, time.monotonic(), name, kind))
        oldest = time.monotonic() - _RECENT_S
        self._changes = [one for one in self._changes if one.seen_s >= oldest]

    @property
    def has_new_names(self) -> bool:
        """Whether `learned` would return more names than before."""
        return len(self.names) > self._learned

    def learned(self) -> Mapping[str, str]:
        """Return id → name, for the store."""
        self._learned = len(self.names)
        return {str(topic_id): name for topic_id, name in list(self.names.items())}


def _difference(before: Topic | None, after: Topic | None) -> type[TopicsChanged] | None:
    if after is None:
        return NewTopicId
    if before is None:
        return TopicsChanged
    if before.id != after.id:
        return NewTopicId
    if before.partitions != after.partitions:
        return PartitionsChanged
    return RacksChanged if _sorted(before) != _sorted(after) else None


def _sorted(topic: Topic) -> list[list[str]]:
    return [sorted(rack or "" for rack in racks) for racks in topic.racks]

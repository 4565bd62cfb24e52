"""What members own and shall own, in the order in which Kafka's coordinator iterates it: HashMaps of topic ids with HashMaps or HashSets of partitions.

Records and responses list partitions in that order, and the next map is filled in it. Partition
numbers are their own hashes, so a table with more buckets than the highest number has them
ascending; only where it has fewer (partitions 100 to 110, say) is a table followed step by step.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from quorate.assignors.java_order import (
    JavaHashMap,
    JavaHashSet,
    copied_map_capacity,
    copied_set_capacity,
    hash_map_capacity,
)
from quorate.codecs import Uuid
from quorate.codecs.messages.consumer_group import TopicPartition
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.state.consumer import Owned

__all__ = [
    "Order",
    "Partitions",
    "as_recorded",
    "as_target",
    "copied_set",
    "equal",
    "grown_map",
    "topics_in_order",
]

Partitions = Mapping[Uuid, Sequence[int]]
"""Topic id → partitions, both in Java's order: a target assignment."""

DEFAULT_CAPACITY = 16

UNSPREAD = 1 << 16
"""Java spreads hashes by their upper halves; smaller numbers have none."""


class Order(NamedTuple):
    """In which order a release has what members own: as keys of HashMaps, with the epochs at which they got them (since 4.3, KIP-1251), or in HashSets."""

    jdk: int
    maps: bool = True

    @classmethod
    def of(cls, config: CoordinatorConfig) -> Self:
        """That of the configured release."""
        return cls(config.jdk, config.behaviour.assignment_epochs)

    def loaded(self, owned: Owned) -> Owned:
        """As replay reads a record: maps of the default size, filled in the record's order, or copies of its lists."""
        found: dict[Uuid, Mapping[int, int]] = {}
        for topic_id in topics_in_order(owned):
            epochs = owned[topic_id]
            listed = grown_map(epochs) if self.maps else copied_set(epochs, self.jdk)
            found[topic_id] = {partition: epochs[partition] for partition in listed}
        return found

    def copied(self, partitions: Collection[int]) -> Sequence[int]:
        """A copy."""
        return grown_map(partitions, self._capacity(len(partitions)))

    def kept_and_added(self, before: Collection[int], kept: Collection[int], added: Sequence[int]) -> Sequence[int]:
        """A copy of `before`, after all but `kept` were removed, and then `added` were put."""
        capacity = self._capacity(len(before))
        final = [*kept, *added]
        if _ascending(final, capacity):
            return sorted(final)
        made: JavaHashMap[int, None] = JavaHashMap(capacity)
        for partition in before:
            made.put(partition, None)
        for partition in before:
            if partition not in kept:
                made.remove(partition)
        for partition in added:
            made.put(partition, None)
        return list(made)

    def _capacity(self, size: int) -> int:
        """Buckets of a copy."""
        if not self.maps:
            return copied_set_capacity(size, self.jdk)
        return copied_map_capacity(size, self.jdk) if size else DEFAULT_CAPACITY


def as_target(topics: Iterable[TopicPartition], jdk: int) -> Partitions:
    """As replay reads a target assignment: a map of the default size with sets that are copies of the record's lists."""
    given = {topic.topic_id: topic.partitions for topic in topics}
    return {topic_id: copied_set(given[topic_id], jdk) for topic_id in topics_in_order(given)}


def as_recorded(partitions: Partitions) -> tuple[TopicPartition, ...]:
    """A target assignment as records have it."""
    return tuple(
        TopicPartition(topic_id=topic_id, partitions=tuple(numbers)) for topic_id, numbers in partitions.items()
    )


def equal(one: Partitions, other: Partitions) -> bool:
    """Whether both have the same partitions, in whatever order."""
    first, second = ({topic_id: set(numbers) for topic_id, numbers in each.items()} for each in (one, other))
    return first == second


def topics_in_order(topics: Iterable[Uuid]) -> list[Uuid]:
    """The keys of `new HashMap()` into which these topic ids were put."""
    listed = list(topics)
    if len(listed) < 2:
        return listed
    made: JavaHashSet[Uuid] = JavaHashSet()
    for topic_id in listed:
        made.add(topic_id)
    return list(made)


def grown_map(partitions: Collection[int], capacity: int = DEFAULT_CAPACITY) -> Sequence[int]:
    """The keys of a map with that many buckets into which these partitions were put."""
    if _ascending(partitions, capacity):
        return sorted(partitions)
    made: JavaHashMap[int, None] = JavaHashMap(capacity)
    for partition in partitions:
        made.put(partition, None)
    return list(made)


def copied_set(partitions: Collection[int], jdk: int) -> Sequence[int]:
    """The members of `new HashSet(partitions)`."""
    return grown_map(partitions, copied_set_capacity(len(partitions), jdk))


def _ascending(partitions: Collection[int], capacity: int) -> bool:
    return not partitions or max(partitions) < min(hash_map_capacity(len(partitions), capacity), UNSPREAD)

"""Current and target assignments in the iteration order of Kafka's coordinator.

Kafka keeps HashMaps of topic ids with HashMaps or HashSets of partitions. Records and responses
list partitions in that order, and the next map is filled in it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from quorate.assignors.java_order import copied_map_capacity, copied_set_capacity
from quorate.assignors.java_order.few import changed_numbers_in_order, few_in_order, few_numbers_in_order
from quorate.codecs import Uuid
from quorate.codecs.messages.consumer_group import TopicPartition
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.state.consumer_member import Owned

Partitions = Mapping[Uuid, Sequence[int]]
"""Topic id → partitions, both in Java's order: a target assignment."""

DEFAULT_CAPACITY = 16


class Order(NamedTuple):
    """A release's iteration order of current assignments.

    `maps`: HashMaps of partitions to assignment epochs (since 4.3, KIP-1251), else HashSets.
    """

    jdk: int
    maps: bool = True

    @classmethod
    def of(cls, config: CoordinatorConfig) -> Self:
        """Return the order of the configured release."""
        return cls(config.jdk, config.behaviour.assignment_epochs)

    def loaded(self, owned: Owned) -> Owned:
        """Return an assignment as replay builds it from a record.

        Either maps of default size, filled in the record's order, or copies of the record's lists.
        """
        found: dict[Uuid, Mapping[int, int]] = {}
        for topic_id in topics_in_order(owned):
            epochs = owned[topic_id]
            listed = grown_map(epochs) if self.maps else copied_set(epochs, self.jdk)
            found[topic_id] = {partition: epochs[partition] for partition in listed}
        return found

    def copied(self, partitions: Collection[int]) -> Sequence[int]:
        """Return a copy of these partitions in Java's order."""
        return grown_map(partitions, self._capacity(len(partitions)))

    def kept_and_added(self, before: Collection[int], kept: Collection[int], added: Sequence[int]) -> Sequence[int]:
        """Return a copy of `before` after removing all but `kept`, and then putting `added`."""
        return changed_numbers_in_order(before, kept, added, self._capacity(len(before)))

    def _capacity(self, size: int) -> int:
        """Return the number of buckets of a copy."""
        if not self.maps:
            return copied_set_capacity(size, self.jdk)
        return copied_map_capacity(size, self.jdk) if size else DEFAULT_CAPACITY


def as_target(topics: Iterable[TopicPartition], jdk: int) -> Partitions:
    """Return a target assignment as replay builds it: a map of default size with copied sets."""
    given = {topic.topic_id: topic.partitions for topic in topics}
    return {topic_id: copied_set(given[topic_id], jdk) for topic_id in topics_in_order(given)}


def as_recorded(partitions: Partitions) -> tuple[TopicPartition, ...]:
    """Return a target assignment as in records."""
    return tuple(
        TopicPartition(topic_id=topic_id, partitions=tuple(numbers)) for topic_id, numbers in partitions.items()
    )


def equal(one: Partitions, other: Partitions) -> bool:
    """Return whether both have the same partitions, in any order."""
    first, second = ({topic_id: set(numbers) for topic_id, numbers in each.items()} for each in (one, other))
    return first == second


def topics_in_order(topics: Iterable[Uuid]) -> list[Uuid]:
    """Return the keys of a `new HashMap()` into which these topic ids were put."""
    return [*few_in_order([*dict.fromkeys(topics)])]


def grown_map(partitions: Collection[int], capacity: int = DEFAULT_CAPACITY) -> Sequence[int]:
    """Return the keys of a map with `capacity` buckets into which these partitions were put."""
    return few_numbers_in_order(partitions, capacity)


def copied_set(partitions: Collection[int], jdk: int) -> Sequence[int]:
    """Return the elements of `new HashSet(partitions)`."""
    return few_numbers_in_order(partitions, copied_set_capacity(len(partitions), jdk))

"""Topics with partitions of record type 15, in the order of Kafka's HashMaps and HashSets.

Maps have topic ids as keys, and names and HashSets of partitions as values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from quorate.assignors.java_order import JavaHashMap, JavaHashSet, copied_map_capacity
from quorate.codecs import Uuid
from quorate.codecs.messages.share_group import ShareGroupStatePartitionMetadataValue, TopicPartitionsInfo
from quorate.coordinator.consumer.owned import copied_set, topics_in_order
from quorate.coordinator.image import MetadataImage

NamedPartitions = Mapping[Uuid, tuple[str, Sequence[int]]]
"""Topic id → the topic's name and partitions, both in Java's order."""

GONE = "<UNKNOWN>"
"""The name that Kafka writes for a deleted topic."""


def in_map(topics: NamedPartitions) -> NamedPartitions:
    """Return the topics in the order of a `new HashMap()` into which they were put."""
    return {topic_id: topics[topic_id] for topic_id in topics_in_order(topics)}


def read(topics: Iterable[TopicPartitionsInfo], *, jdk: int) -> NamedPartitions:
    """Return the topics of a record as replay builds them."""
    return in_map({topic.topic_id: (topic.topic_name, copied_set(topic.partitions, jdk)) for topic in topics})


def deleting_topics(state: ShareGroupStatePartitionMetadataValue) -> list[Uuid]:
    """Return the topics whose share state is deleted, as replay builds them."""
    return topics_in_order(deleting_topic.topic_id for deleting_topic in state.deleting_topics)


def combined(first: NamedPartitions, second: NamedPartitions, *, jdk: int) -> NamedPartitions:
    """Return the union of both, with the second's names."""
    topic_ids = JavaHashSet.of(first, jdk=jdk)
    for topic_id in second:
        topic_ids.add(topic_id)
    both: dict[Uuid, tuple[str, Sequence[int]]] = {}
    for topic_id in topic_ids:
        name, partitions = first.get(topic_id, ("", ()))
        numbers = JavaHashSet.of(partitions, jdk=jdk)
        if topic_id in second:
            name, added = second[topic_id]
            for number in added:
                numbers.add(number)
        both[topic_id] = (name, tuple(numbers))
    return in_map(both)


def copy_without(topics: NamedPartitions, gone: Iterable[Uuid], *, jdk: int) -> NamedPartitions:
    """Return `new HashMap(topics)` without the topics in `gone`."""
    made: JavaHashMap[Uuid, None] = JavaHashMap(copied_map_capacity(len(topics), jdk) if topics else None)
    for topic_id in topics:
        made.put(topic_id, None)
    for topic_id in gone:
        if topic_id in topics:
            made.remove(topic_id)
    return {topic_id: topics[topic_id] for topic_id, _ in made.items()}


def named(topic_ids: Iterable[Uuid], image: MetadataImage) -> Iterator[tuple[Uuid, str]]:
    """Return topics with their names, in the order of a map into which they were put."""
    for topic_id in topics_in_order(topic_ids):
        topic = image.topics_by_id.get(topic_id)
        yield topic_id, GONE if topic is None else topic.name

"""Topics with partitions, as Kafka keeps those of record type 15: HashMaps of topic ids with names and HashSets of partitions, whose order records show."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from quorate.assignors.java_order import JavaHashMap, JavaHashSet, copied_map_capacity
from quorate.codecs import Uuid
from quorate.codecs.messages.share_group import ShareGroupStatePartitionMetadataValue, TopicPartitionsInfo
from quorate.coordinator.consumer.owned import copied_set, topics_in_order
from quorate.coordinator.image import MetadataImage

__all__ = ["NamedPartitions", "combined", "copy_without", "deleting_topics", "in_map", "named", "read"]

NamedPartitions = Mapping[Uuid, tuple[str, Sequence[int]]]
"""Topic id → the topic's name and partitions, both in Java's order."""

GONE = "<UNKNOWN>"
"""What Kafka writes for the name of a topic that is gone."""


def in_map(topics: NamedPartitions) -> NamedPartitions:
    """`new HashMap()` into which these were put in this order."""
    return {topic_id: topics[topic_id] for topic_id in topics_in_order(topics)}


def read(topics: Iterable[TopicPartitionsInfo], *, jdk: int) -> NamedPartitions:
    """As replay reads a record."""
    return in_map({one.topic_id: (one.topic_name, copied_set(one.partitions, jdk)) for one in topics})


def deleting_topics(state: ShareGroupStatePartitionMetadataValue) -> list[Uuid]:
    """The topics that lose their share state, as replay reads them."""
    return topics_in_order(one.topic_id for one in state.deleting_topics)


def combined(first: NamedPartitions, second: NamedPartitions, *, jdk: int) -> NamedPartitions:
    """Both together; names are those of the second."""
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
    """`new HashMap(topics)`, from which some were removed."""
    made: JavaHashMap[Uuid, None] = JavaHashMap(copied_map_capacity(len(topics), jdk) if topics else None)
    for topic_id in topics:
        made.put(topic_id, None)
    for topic_id in gone:
        if topic_id in topics:
            made.remove(topic_id)
    return {topic_id: topics[topic_id] for topic_id, _ in made.items()}


def named(topic_ids: Iterable[Uuid], image: MetadataImage) -> Iterator[tuple[Uuid, str]]:
    """Topics with their names, in the order of a map into which they were put."""
    for topic_id in topics_in_order(topic_ids):
        topic = image.topics_by_id.get(topic_id)
        yield topic_id, GONE if topic is None else topic.name

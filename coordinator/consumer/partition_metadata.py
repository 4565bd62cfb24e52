"""Topic metadata of groups before KIP-1101 (Kafka 4.1): id and number of partitions per topic.

It is written to ConsumerGroupPartitionMetadata records (type 4), and the group epoch is incremented
when it changes. The record lists topics in the order of Kafka's HashMaps, so subscriptions are
counted here in the same steps. It has no racks: no release since 4.0 writes them, so groups do not
notice a changed broker rack.
"""

from collections.abc import Iterable, Sequence

from quorate.assignors.java_order import JavaHashMap, JavaHashSet, TimelineMap, copied_map_capacity
from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.messages.consumer_group import ConsumerGroupPartitionMetadataValue, TopicMetadata
from quorate.coordinator.consumer import records as write
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember


class Subscriptions:
    """Subscriber counts of a group's topics, starting from the log's, in the order of Kafka's map.

    Topics without subscribers are left out.
    """

    def __init__(self, shard: CoordinatorShard, group: ConsumerGroup) -> None:
        self._jdk = shard.config.jdk
        self._group = group
        size = len(group.topic_subscribers)
        self._counts: JavaHashMap[str, tuple[int, int]] = JavaHashMap(
            copied_map_capacity(size, self._jdk) if size else None
        )
        for topic, count in group.topic_subscribers.ordered():
            self._counts.put(topic, count)

    def change(self, old: ConsumerMember, new: ConsumerMember | None) -> None:
        """Replace a member's subscription, or remove it.

        The topics of a regex are removed with its last subscriber.
        """
        for member, by in ((old, -1), (new, 1)):
            if member is not None:
                self._count(JavaHashSet.of(member.metadata.subscribed_topic_names, jdk=self._jdk), by, 0)
        regex = old.metadata.subscribed_topic_regex
        changed = new is not None and regex != new.metadata.subscribed_topic_regex
        if changed and regex and self._group.regex_subscribers.get(regex) == 1:
            self.match(regex, ())

    def match(self, regex: str, topics: Iterable[str]) -> None:
        """Set the topics that a regex matches."""
        old = self._group.regexes.get(regex)
        self._count(() if old is None else old.topics, 0, -1)
        matched: JavaHashSet[str] = JavaHashSet()
        for topic in topics:
            matched.add(topic)
        self._count(matched, 0, 1)

    def topics(self, image: MetadataImage) -> list[TopicMetadata]:
        """Return the existing topics, in the record's order."""
        return described(self._counts, len(self._counts), image)

    def _count(self, topics: Iterable[str], by_name: int, by_regex: int) -> None:
        for topic in topics:
            names, regexes = self._counts.get(topic) or (0, 0)
            count = (max(names + by_name, 0), max(regexes + by_regex, 0))
            if count == (0, 0):
                self._counts.remove(topic)
            else:
                self._counts.compute_if_absent(topic, _none)
                self._counts.put(topic, count)


def _none() -> tuple[int, int]:
    return 0, 0


def described(names: Iterable[str], size: int, image: MetadataImage) -> list[TopicMetadata]:
    """Return the existing topics, in the order of a HashMap with a capacity for `size` of them."""
    found: JavaHashMap[str, TopicMetadata] = JavaHashMap(size)
    for name in names:
        topic = image.topics.get(name)
        if topic is not None:
            found.put(
                name,
                TopicMetadata(
                    topic_id=topic.id, topic_name=name, num_partitions=topic.partitions, partition_metadata=()
                ),
            )
    return [topic for _, topic in found.items()]


def converted_topics(group: ConsumerGroup, image: MetadataImage) -> ConsumerGroupPartitionMetadataValue:
    """Return the topics of a converted classic group, in the order of a timeline map."""
    kept: TimelineMap[str, TopicMetadata] = TimelineMap()
    names = [name for name, _ in group.topic_subscribers.ordered()]
    for topic in described(names, len(names), image):
        kept[topic.topic_name] = topic
    return ConsumerGroupPartitionMetadataValue(topics=tuple(topic for _, topic in kept.ordered()))


def changed_record(group: ConsumerGroup, topics: Sequence[TopicMetadata]) -> list[CoordinatorRecord]:
    """Return the record to write, if the topics differ from those of the last record."""
    stored = () if group.partition_metadata is None else group.partition_metadata.topics
    if _facts(stored) == _facts(topics):
        return []
    return [write.partition_metadata(group.group_id, ConsumerGroupPartitionMetadataValue(topics=tuple(topics)))]


def _facts(topics: Iterable[TopicMetadata]) -> dict[str, tuple[Uuid, int]]:
    return {topic.topic_name: (topic.topic_id, topic.num_partitions) for topic in topics}

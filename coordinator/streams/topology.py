"""Configures a topology: decides partition counts, and finds the internal topics to create.

This is what Kafka's InternalTopicManager does. Where Kafka reports one of several problems, the
order of its maps decides which.
"""

from collections.abc import Collection, Iterable, Mapping

from quorate.assignors.java_order import JavaHashMap, JavaHashSet, in_java_order
from quorate.codecs.api import streams_group_heartbeat as sent
from quorate.codecs.api.broker.create_topics import CreatableTopic, CreatableTopicConfig
from quorate.codecs.messages.streams_group import (
    CopartitionGroup,
    InternalTopic,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
)
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.streams.configured_topology import (
    ConfiguredInternalTopic,
    ConfiguredSubtopology,
    ConfiguredTopology,
    describe,
    described_stored_topology,
    described_topology,
)
from quorate.coordinator.streams.partition_counts import (
    PartitionCounts,
    copartition_groups,
    decide_partition_counts,
)
from quorate.coordinator.streams.statuses import (
    InternalTopologyError,
    InvalidTopologyError,
    StreamsStatus,
    TopicConfigurationError,
)

__all__ = [
    "ConfiguredInternalTopic",
    "ConfiguredSubtopology",
    "ConfiguredTopology",
    "InternalTopologyError",
    "InvalidTopologyError",
    "TopicConfigurationError",
    "configure_topics",
    "describe",
    "described_stored_topology",
    "described_topology",
    "required_topics",
    "topology_value",
]


def configure_topics(topology: StreamsGroupTopologyValue, image: MetadataImage) -> ConfiguredTopology:
    """Return the topology with partition counts, or with the error that keeps it from running.

    Raises `InvalidTopologyError` and `InternalTopologyError`, which no later image can mend.
    """
    subtopologies = _in_hash_order(topology.subtopologies)
    groups = copartition_groups(subtopologies)
    try:
        _require_source_topics(subtopologies, image)
        counts = PartitionCounts(image)
        decide_partition_counts(subtopologies, groups, counts)
        by_id = {one.subtopology_id: _configured(one, counts) for one in subtopologies}
        configured = {name: by_id[name] for name in in_java_order(by_id)}
        missing = _missing_internal_topics(configured, topology, image)
    except TopicConfigurationError as error:
        return ConfiguredTopology(
            topology_epoch=topology.epoch,
            subtopologies=None,
            topic_configuration_error=error,
        )
    problem = None
    if missing:
        problem = TopicConfigurationError(
            StreamsStatus.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(list(missing))}"
        )
    return ConfiguredTopology(
        topology_epoch=topology.epoch,
        subtopologies=configured,
        internal_topics_to_be_created=missing,
        topic_configuration_error=problem,
    )


def required_topics(topology: StreamsGroupTopologyValue) -> list[str]:
    """Return the source and internal topics of a topology, in the order of Kafka's set."""
    found: JavaHashSet[str] = JavaHashSet()
    for one in _in_hash_order(topology.subtopologies):
        for name in one.source_topics:
            found.add(name)
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics):
            found.add(topic.name)
    return list(found)


def _in_hash_order(subtopologies: Iterable[Subtopology]) -> list[Subtopology]:
    found: JavaHashMap[str, Subtopology] = JavaHashMap()
    for one in subtopologies:
        found.put(one.subtopology_id, one)
    return [one for _, one in found.items()]


def _require_source_topics(subtopologies: Iterable[Subtopology], image: MetadataImage) -> None:
    missing = {name for one in subtopologies for name in one.source_topics if name not in image.topics}
    if missing:
        raise TopicConfigurationError(
            StreamsStatus.MISSING_SOURCE_TOPICS, f"Source topics {_summary(in_java_order(missing))} are missing."
        )


def _summary(names: list[str]) -> str:
    """Return the first three names, and how many there are in addition."""
    more = f" and {len(names) - 3} additional topics" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _configured(one: Subtopology, counts: PartitionCounts) -> ConfiguredSubtopology:
    names = [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
    tasks = max(map(counts.require, names))
    if tasks < 1:
        raise InternalTopologyError("Number of tasks must be positive")
    return ConfiguredSubtopology(
        number_of_tasks=tasks,
        source_topics=tuple(JavaHashSet.of(one.source_topics)),
        repartition_source_topics=_internal(one.repartition_source_topics, counts),
        repartition_sink_topics=tuple(JavaHashSet.of(one.repartition_sink_topics)),
        state_changelog_topics=_internal(one.state_changelog_topics, counts),
    )


def _internal(topics: Collection[InternalTopic], counts: PartitionCounts) -> Mapping[str, ConfiguredInternalTopic]:
    found: JavaHashMap[str, ConfiguredInternalTopic] = JavaHashMap()
    for topic in topics:
        partitions = topic.partitions or counts.decided.get(topic.name)
        if partitions is None:
            raise InternalTopologyError(f"Number of partitions must be set for topic {topic.name}")
        configs: JavaHashMap[str, str] = JavaHashMap()
        for config in topic.topic_configs:
            if config.key in configs:
                raise InternalTopologyError(f"Duplicate key {config.key}")
            configs.put(config.key, config.value)
        if partitions < 1:
            raise InternalTopologyError("Number of partitions must be at least 1.")
        if topic.name in found:
            raise InternalTopologyError(f"Duplicate key {topic.name}")
        found.put(
            topic.name,
            ConfiguredInternalTopic(
                name=topic.name,
                number_of_partitions=partitions,
                replication_factor=topic.replication_factor or None,
                topic_configs=dict(configs.items()),
            ),
        )
    return dict(found.items())


def _missing_internal_topics(
    configured: Mapping[str, ConfiguredSubtopology], topology: StreamsGroupTopologyValue, image: MetadataImage
) -> Mapping[str, CreatableTopic]:
    """Return the internal topics that do not exist.

    Raises `TopicConfigurationError` if an existing one has another partition count.
    """
    missing: JavaHashMap[str, CreatableTopic] = JavaHashMap()
    for one in configured.values():
        for topics in (one.repartition_source_topics, one.state_changelog_topics):
            for topic in topics.values():
                missing.put(topic.name, _creatable(topic))
    for name in required_topics(topology):
        existing = image.topics.get(name)
        if existing is None:
            continue
        expected = missing.remove(name)
        if expected is not None and expected.num_partitions != existing.partitions:
            raise TopicConfigurationError.incorrectly_partitioned(
                f"Existing topic {name} has different number of partitions: "
                f"expected {expected.num_partitions}, found {existing.partitions}"
            )
    return dict(missing.items())


def _creatable(topic: ConfiguredInternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.number_of_partitions,
        replication_factor=topic.replication_factor or -1,
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.topic_configs.items()),
    )


def topology_value(topology: sent.Topology) -> StreamsGroupTopologyValue:
    """Return the record of a topology in a heartbeat.

    Raises `InternalTopologyError` for a negative epoch, and if two subtopologies have one id.
    """
    ids = [one.subtopology_id for one in topology.subtopologies]
    for number, subtopology_id in enumerate(ids):
        if subtopology_id in ids[:number]:
            raise InternalTopologyError(f"Duplicate key {subtopology_id}")
    if topology.epoch < 0:
        raise InternalTopologyError("Topology epoch must be non-negative.")
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=tuple(
            Subtopology(
                subtopology_id=one.subtopology_id,
                source_topics=one.source_topics,
                source_topic_regex=one.source_topic_regex,
                state_changelog_topics=_stored(one.state_changelog_topics),
                repartition_sink_topics=one.repartition_sink_topics,
                repartition_source_topics=_stored(one.repartition_source_topics),
                copartition_groups=tuple(
                    CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in one.copartition_groups
                ),
            )
            for one in topology.subtopologies
        ),
    )


def _stored(topics: Iterable[sent.TopicInfo]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=tuple(TopicConfig(key=config.key, value=config.value) for config in topic.topic_configs),
        )
        for topic in topics
    )

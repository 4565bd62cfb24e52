"""Topologies with the partition counts of their internal topics, and their descriptions.

Internal topics are repartition topics and changelogs. Kafka stores a topology as members send it
and keeps the configured one in memory.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field

from quorate.assignors.java_order import in_java_order, string_key
from quorate.assignors.streams import StreamsSubtopology
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.streams_group_describe import Subtopology as DescribedSubtopology
from quorate.codecs.api.streams_group_describe import Topology as DescribedTopology
from quorate.codecs.api.streams_group_heartbeat import KeyValue, TopicInfo
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.streams_group import InternalTopic, StreamsGroupTopologyValue
from quorate.coordinator.streams.statuses import TopicConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredInternalTopic:
    """A repartition topic or changelog. `replication_factor` `None`: the broker's default.

    `topic_configs`: in the order of Kafka's map.
    """

    name: str
    number_of_partitions: int
    replication_factor: int | None
    topic_configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredSubtopology:
    """A subtopology with its number of tasks. Topics are in the order of Kafka's sets and maps."""

    number_of_tasks: int
    source_topics: tuple[str, ...]
    repartition_source_topics: Mapping[str, ConfiguredInternalTopic]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: Mapping[str, ConfiguredInternalTopic]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTopology:
    """A topology, and whether it can run.

    `subtopologies`: by id, in string order; `None` if source topics are missing or partition counts
    do not match. `internal_topics_to_be_created`: in the order of Kafka's map.
    """

    topology_epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    internal_topics_to_be_created: Mapping[str, CreatableTopic] = field(default_factory=dict)
    topic_configuration_error: TopicConfigurationError | None = None

    @property
    def is_ready(self) -> bool:
        """Return whether its tasks can be assigned."""
        return self.topic_configuration_error is None


def describe(configured: ConfiguredTopology) -> tuple[StreamsSubtopology, ...]:
    """Return the subtopologies for the task assignor."""
    return tuple(
        StreamsSubtopology(
            subtopology_id=subtopology_id,
            max_num_input_partitions=one.number_of_tasks,
            is_stateful=bool(one.state_changelog_topics),
        )
        for subtopology_id, one in (configured.subtopologies or {}).items()
    )


def described_topology(configured: ConfiguredTopology) -> DescribedTopology:
    """Return the topology of StreamsGroupDescribe, with partition counts."""
    return DescribedTopology(
        epoch=configured.topology_epoch,
        subtopologies=tuple(
            DescribedSubtopology(
                subtopology_id=subtopology_id,
                source_topics=tuple(in_java_order(one.source_topics)),
                repartition_sink_topics=tuple(in_java_order(one.repartition_sink_topics)),
                state_changelog_topics=_described(one.state_changelog_topics.values()),
                repartition_source_topics=_described(one.repartition_source_topics.values()),
            )
            for subtopology_id, one in (configured.subtopologies or {}).items()
        ),
    )


def _described(topics: Iterable[ConfiguredInternalTopic]) -> tuple[TopicInfo, ...]:
    return _sorted(
        TopicInfo(
            name=topic.name,
            partitions=topic.number_of_partitions,
            replication_factor=topic.replication_factor or 0,
            topic_configs=tuple(KeyValue(key=key, value=value) for key, value in topic.topic_configs.items()),
        )
        for topic in topics
    )


def described_stored_topology(topology: StreamsGroupTopologyValue) -> DescribedTopology:
    """Return the topology of StreamsGroupDescribe as members sent it."""
    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=tuple(
            DescribedSubtopology(
                subtopology_id=one.subtopology_id,
                source_topics=tuple(in_java_order(one.source_topics)),
                repartition_sink_topics=tuple(in_java_order(one.repartition_sink_topics)),
                state_changelog_topics=_sorted(map(_stored, one.state_changelog_topics)),
                repartition_source_topics=_sorted(map(_stored, one.repartition_source_topics)),
            )
            for one in sorted(topology.subtopologies, key=lambda one: string_key(one.subtopology_id))
        ),
    )


def _stored(topic: InternalTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=tuple(KeyValue(key=config.key, value=config.value) for config in topic.topic_configs),
    )


def _sorted(topics: Iterable[TopicInfo]) -> tuple[TopicInfo, ...]:
    return tuple(sorted(topics, key=lambda topic: string_key(topic.name)))

"""The partitions that can be queried at a member's endpoint.

This is Kafka's EndpointToPartitionsManager.
"""

from quorate.assignors.java_order import JavaHashSet
from quorate.assignors.streams import Tasks
from quorate.codecs.api.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.streams.configured_topology import ConfiguredTopology
from quorate.coordinator.streams.statuses import InternalTopologyError


def endpoint_to_partitions(
    endpoint: Endpoint,
    active: Tasks,
    standby_and_warmup: Tasks,
    configured: ConfiguredTopology,
    image: MetadataImage,
) -> EndpointToPartitions:
    """Return the partitions of the source topics of a member's tasks.

    Subtopologies are in the order of the tasks. Raises `InternalTopologyError` where Kafka fails:
    if a topic or subtopology does not exist.
    """
    return EndpointToPartitions(
        user_endpoint=endpoint,
        active_partitions=_partitions(active, configured, image),
        standby_partitions=_partitions(standby_and_warmup, configured, image),
    )


def _partitions(tasks: Tasks, configured: ConfiguredTopology, image: MetadataImage) -> tuple[TopicPartition, ...]:
    if configured.subtopologies is None:
        raise InternalTopologyError("No value present")
    found = []
    for subtopology_id, partitions in tasks.items():
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None:
            raise InternalTopologyError(f"subtopology {subtopology_id} does not exist")
        # Its order is that of `new HashSet(sourceTopics)`, to which the others are added.
        topics = JavaHashSet.of(subtopology.source_topics)
        for name in subtopology.repartition_source_topics:
            topics.add(name)
        for name in topics:
            topic = image.topics.get(name)
            if topic is None:
                raise InternalTopologyError(f"Topic {name} not found in metadata image")
            existing = tuple(sorted(partition for partition in partitions if partition < topic.partitions))
            if existing:
                found.append(TopicPartition(topic=name, partitions=existing))
    return tuple(found)

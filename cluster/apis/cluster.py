"""DescribeCluster v0–2 (KIP-700), DescribeTopicPartitions v0 (KIP-966): brokers, and partitions page by page."""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, answers
from quorate.cluster.topics import PartitionState
from quorate.codecs.api.broker import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from quorate.codecs.api.broker.describe_cluster import DescribeClusterBroker
from quorate.codecs.api.broker.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []


@answers(DescribeClusterRequest, lacks="controllers (endpoint type 2)")
def describe_cluster(broker: "Broker", request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """Who is there."""
    cluster = broker.cluster
    if request.endpoint_type != 1:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="this is a broker, and controllers are asked for",
            endpoint_type=1,
        )
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=one.id, host=one.host, port=one.port, rack=one.rack, is_fenced=not one.alive
            )
            for one in cluster.brokers.values()
            if one.alive or request.include_fenced_brokers
        ),
    )


@answers(DescribeTopicPartitionsRequest, lacks="eligible leader replicas")
def describe_topic_partitions(
    broker: "Broker", request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    """Partitions in the order of topics' names, as many as are asked for, and where to go on."""
    cluster = broker.cluster
    up = cluster.alive
    names = sorted({one.name for one in request.topics} or cluster.topics)
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        first = request.cursor.partition_index if names and names[0] == request.cursor.topic_name else 0
    left = min(max(request.response_partition_limit, 1), 2000)
    topics = []
    following = None
    for name in names:
        topic = cluster.topics.get(name)
        if topic is None:
            topics.append(
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
            )
            continue
        if left <= 0:
            following = Cursor(topic_name=name, partition_index=0)
            break
        part = topic.partitions[first : first + left]
        left -= len(part)
        topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.id,
                is_internal=topic.internal,
                partitions=tuple(_partition(one, up) for one in part),
            )
        )
        if first + len(part) < len(topic.partitions):
            following = Cursor(topic_name=name, partition_index=first + len(part))
            break
        first = 0
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=following)


def _partition(one: PartitionState, up: dict[int, str | None]) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if one.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=one.index,
        leader_id=one.leader,
        leader_epoch=one.leader_epoch,
        replica_nodes=one.replicas,
        isr_nodes=one.in_sync,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=tuple(each for each in one.replicas if each not in up),
    )

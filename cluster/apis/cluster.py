"""DescribeCluster v0–2 (KIP-700), DescribeTopicPartitions v0 (KIP-966), which has pages."""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.authorizer import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNKNOWN_OPERATIONS, Operation, ResourceType
from quorate.cluster.topics import PartitionState, is_valid_name
from quorate.cluster.turns import Work, map_in_turns
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

_BROKERS, _CONTROLLERS = 1, 2


def describe_cluster(broker: "Broker", request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """Return the registered brokers and the controller's id."""
    cluster = broker.cluster
    if request.endpoint_type != _BROKERS:
        controllers = request.endpoint_type == _CONTROLLERS
        wanted = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if controllers else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=wanted if controllers else f"Unsupported endpoint type {request.endpoint_type}",
        )
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else UNKNOWN_OPERATIONS,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=one.id, host=one.host, port=one.port, rack=one.rack, is_fenced=not one.alive
            )
            for one in cluster.state.brokers.values()
            if one.alive or request.include_fenced_brokers
        ),
    )


def describe_topic_partitions(
    broker: "Broker", request: DescribeTopicPartitionsRequest, context: Context
) -> Work[DescribeTopicPartitionsResponse]:
    """Return one page of partitions, sorted by topic, and the cursor of the next page."""
    cluster, access = broker.cluster, context.access
    up = cluster.alive
    names = sorted({one.name for one in request.topics} or cluster.topics)
    if (error := _bad_paging(request)) is not None:
        refused = yield from map_in_turns(
            request.topics, lambda one: DescribeTopicPartitionsResponseTopic(error_code=error, name=one.name)
        )
        return DescribeTopicPartitionsResponse(topics=refused)
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
    denied: list[str] = []
    if access is not None:
        allowed = access.topics(Operation.DESCRIBE, names)
        denied = [name for name in names if name not in allowed] if request.topics else []
        names = [name for name in names if name in allowed]
    remaining = min(max(request.response_partition_limit, 1), 2000)

    def operations(name: str) -> int:
        return TOPIC_OPERATIONS if access is None else access.operations(ResourceType.TOPIC, name, TOPIC_OPERATIONS)

    topics = []
    next_cursor = None
    for name in names:
        yield None
        if remaining <= 0:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = cluster.topics.get(name)
        if topic is None:
            topics.append(
                DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    if is_valid_name(name)
                    else ErrorCode.INVALID_TOPIC_EXCEPTION,
                    name=name,
                    topic_authorized_operations=operations(name),
                )
            )
            continue
        first = request.cursor.partition_index if request.cursor and request.cursor.topic_name == name else 0
        part = topic.partitions[first : first + remaining]
        remaining -= len(part)
        topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.id,
                is_internal=topic.internal,
                topic_authorized_operations=operations(name),
                partitions=tuple(_partition(one, up) for one in part),
            )
        )
        if first + len(part) < len(topic.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=first + len(part))
            break
    topics += [
        DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
        for name in denied
    ]
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor)


def _bad_paging(request: DescribeTopicPartitionsRequest) -> ErrorCode | None:
    """Return the error that rejects a whole request.

    It is a cursor with a topic that is not requested or a negative partition, or an empty topic
    name.
    """
    cursor = request.cursor
    if cursor is not None and (
        cursor.partition_index < 0
        or (request.topics and cursor.topic_name not in {topic.name for topic in request.topics})
    ):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.UNKNOWN_SERVER_ERROR if any(not topic.name for topic in request.topics) else None


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
        offline_replicas=tuple(replica for replica in one.replicas if replica not in up),
    )

"""Metadata v0–13: live brokers with their racks, and topics with leaders and replicas.

Missing topics are created where that is allowed. v10 has topic ids (KIP-516), v12 accepts them in
requests. Authorized operations are those of a client with all permissions;
`quorate.cluster.authorization` reduces them.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.apis.topics import MAX_PARTITIONS
from quorate.cluster.authorizer import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNKNOWN_OPERATIONS
from quorate.cluster.topics import NO_LEADER, PartitionState, TopicState, is_valid_name
from quorate.cluster.turns import Work, map_in_turns
from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE, Uuid
from quorate.codecs.api.broker import MetadataRequest, MetadataResponse
from quorate.codecs.api.broker.metadata import (
    MetadataRequestTopic,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

_BY_TOPIC_ID = 12


def metadata(broker: "Broker", request: MetadataRequest, context: Context) -> Work[MetadataResponse]:
    """Return live brokers and the requested topics, or all topics."""
    cluster = broker.cluster
    requested = request.topics
    if (refused := request_error(requested or (), context.api_version)) is not None:
        return MetadataResponse(
            topics=tuple(
                MetadataResponseTopic(error_code=refused, name=one.name or "", topic_id=one.topic_id)
                for one in requested or ()
            ),
        )
    everything = requested is None or (context.api_version == 0 and not requested)
    if everything:
        topics = yield from map_in_turns(list(cluster.topics.values()), lambda topic: _described(topic, cluster.alive))
    else:
        assert requested is not None
        # If any topic has an id, topics without one are ignored.
        by_id = [one for one in requested if one.topic_id != Uuid.ZERO]
        missing: dict[str, None] = {}
        may_create = request.allow_auto_topic_creation or context.api_version < 4
        topics = yield from map_in_turns(
            dict.fromkeys(by_id or requested), lambda one: _one(broker, one, missing if may_create else None)
        )
        if missing:
            yield from cluster.controller.changes.run(_create(cluster, list(missing)))
    allowed = TOPIC_OPERATIONS if request.include_topic_authorized_operations else UNKNOWN_OPERATIONS
    topics = yield from map_in_turns(
        topics, lambda one: one if one.name is None else replace(one, topic_authorized_operations=allowed)
    )
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
            for one in cluster.state.brokers.values()
            if one.alive
        ),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else UNKNOWN_OPERATIONS,
    )


def request_error(requested: Iterable[MetadataRequestTopic], version: int) -> ErrorCode | None:
    """Return the error that rejects a whole request, if any.

    Topic ids came with version 10, and are accepted in requests since version 12 (KIP-516). A
    broker fails over a topic with neither name nor id, unless other topics have ids.
    """
    nameless = any(one.name is None for one in requested)
    by_id = any(one.topic_id != Uuid.ZERO for one in requested)
    if version < _BY_TOPIC_ID and (nameless or by_id):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.UNKNOWN_SERVER_ERROR if nameless and not by_id else None


def _one(broker: "Broker", requested: MetadataRequestTopic, missing: dict[str, None] | None) -> MetadataResponseTopic:
    """Describe one topic.

    Adds it to `missing` if it does not exist and may be created; `None` if none may be.
    """
    cluster = broker.cluster
    if requested.name is None or requested.topic_id != Uuid.ZERO:
        by_id = cluster.topics_by_id.get(requested.topic_id)
        if by_id is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=requested.topic_id)
        return _described(by_id, cluster.alive)
    topic = cluster.topics.get(requested.name)
    if topic is not None:
        return _described(topic, cluster.alive)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_valid_name(requested.name):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif missing is not None and cluster.broker_configs.boolean("auto.create.topics.enable"):
        missing[requested.name] = None
    return MetadataResponseTopic(error_code=error, name=requested.name, topic_id=Uuid.ZERO)


def _create(cluster: "SharedCluster", names: Sequence[str]) -> Work[None]:
    """Create requested topics that are missing.

    The response does not say whether that succeeds. A broker sends it before its controller has
    created the topics.
    """
    if len(names) * cluster.broker_configs.number("num.partitions") > MAX_PARTITIONS:
        return  # the controller rejects the whole request
    created = []
    for name in names:
        with suppress(ApiError):
            if name in (CONSUMER_OFFSETS, TRANSACTION_STATE) or (
                name == SHARE_GROUP_STATE and cluster.share_state.is_supported
            ):
                cluster.topic_control.internal_topic(name)
                continue
            cluster.topic_control.check_new_name(name)
            created.append((yield from cluster.topic_control.new_topic(name, -1, -1, None, None)))
        yield None
    yield from cluster.topic_control.commit_topics(created)


def _described(topic: TopicState, alive: Iterable[int]) -> MetadataResponseTopic:
    up = frozenset(alive)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=tuple(_partition(partition, up) for partition in topic.partitions),
    )


def _partition(partition: PartitionState, up: frozenset[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.in_sync,
        offline_replicas=tuple(replica for replica in partition.replicas if replica not in up),
    )

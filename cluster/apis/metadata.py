"""Metadata v0–13: brokers that are up with their racks, topics with leaders and replicas; missing topics are made where that is allowed.

v10 topic ids (KIP-516), v12 asks by id. Authorized operations are those of a client that may do
everything: `quorate.cluster.authorization` narrows them.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.apis.topics import MAX_PARTITIONS
from quorate.cluster.authorizer import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNKNOWN_OPERATIONS
from quorate.cluster.topics import NO_LEADER, PartitionState, TopicState, is_valid_name
from quorate.cluster.turns import Work, each
from quorate.codecs import CONSUMER_OFFSETS, Uuid
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

__all__ = ["refused_as_a_whole"]

_BY_TOPIC_ID = 12


def metadata(broker: "Broker", request: MetadataRequest, context: Context) -> Work[MetadataResponse]:
    """Who is there."""
    cluster = broker.cluster
    asked = request.topics
    if (refused := refused_as_a_whole(asked or (), context.api_version)) is not None:
        return MetadataResponse(
            topics=tuple(
                MetadataResponseTopic(error_code=refused, name=one.name or "", topic_id=one.topic_id)
                for one in asked or ()
            ),
        )
    everything = asked is None or (context.api_version == 0 and not asked)
    if everything:
        topics = yield from each(list(cluster.topics.values()), lambda topic: _described(topic, cluster.alive))
    else:
        assert asked is not None
        by_id = [one for one in asked if one.topic_id != Uuid.ZERO]  # if there are any, names are not looked at
        missing: dict[str, None] = {}
        may_create = request.allow_auto_topic_creation or context.api_version < 4
        topics = yield from each(
            dict.fromkeys(by_id or asked), lambda one: _one(broker, one, missing if may_create else None)
        )
        if missing:
            yield from cluster.controller.changes.run(_create(cluster, list(missing)))
    allowed = TOPIC_OPERATIONS if request.include_topic_authorized_operations else UNKNOWN_OPERATIONS
    topics = yield from each(
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


def refused_as_a_whole(asked: Iterable[MetadataRequestTopic], version: int) -> ErrorCode | None:
    """Topic ids came with version 10, and may be asked for since version 12 (KIP-516).

    Over a topic with neither name nor id a broker fails, unless others have ids: then it looks at
    these.
    """
    nameless = any(one.name is None for one in asked)
    by_id = any(one.topic_id != Uuid.ZERO for one in asked)
    if version < _BY_TOPIC_ID and (nameless or by_id):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.UNKNOWN_SERVER_ERROR if nameless and not by_id else None


def _one(broker: "Broker", asked: MetadataRequestTopic, missing: dict[str, None] | None) -> MetadataResponseTopic:
    """`missing`: names of topics to be created are entered there, unless it is `None`."""
    cluster = broker.cluster
    if asked.name is None or asked.topic_id != Uuid.ZERO:
        by_id = cluster.topics_by_id.get(asked.topic_id)
        if by_id is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return _described(by_id, cluster.alive)
    topic = cluster.topics.get(asked.name)
    if topic is not None:
        return _described(topic, cluster.alive)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_valid_name(asked.name):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif missing is not None and cluster.broker_configs.boolean("auto.create.topics.enable"):
        missing[asked.name] = None
    return MetadataResponseTopic(error_code=error, name=asked.name, topic_id=Uuid.ZERO)


def _create(cluster: "SharedCluster", names: Sequence[str]) -> Work[None]:
    """Create topics that clients ask for.

    The response does not tell whether that can be: the broker sends it before its controller has
    done so.
    """
    if len(names) * cluster.broker_configs.number("num.partitions") > MAX_PARTITIONS:
        return  # as the controller refuses all of the request
    made = []
    for name in names:
        with suppress(ApiError):
            if name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
                cluster.topic_control.internal_topic(name)
                continue
            cluster.topic_control.check_new_name(name)
            made.append((yield from cluster.topic_control.new_topic(name, -1, -1, None, None)))
        yield None
    yield from cluster.topic_control.enter_topics(made)


def _described(topic: TopicState, alive: Iterable[int]) -> MetadataResponseTopic:
    up = frozenset(alive)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=tuple(_partition(one, up) for one in topic.partitions),
    )


def _partition(partition: PartitionState, up: frozenset[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.in_sync,
        offline_replicas=tuple(one for one in partition.replicas if one not in up),
    )

"""Rules for topics, records and configs. Each topic of a request is checked separately."""

from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from quorate.cluster.apis.configs import has_unknown_resource_type
from quorate.cluster.apis.metadata import request_error
from quorate.cluster.authorization.call import Call, HandlerResult
from quorate.cluster.authorizer import CLUSTER_NAME, UNKNOWN_OPERATIONS, Operation, ResourceType
from quorate.cluster.batch_checks import is_transactional
from quorate.cluster.topics import INTERNAL, is_valid_name
from quorate.cluster.turns import Work, map_in_turns, split
from quorate.codecs import Uuid
from quorate.codecs.api.broker import (
    ProduceRequest,
)
from quorate.codecs.api.broker.create_topics import CreatableTopicResult
from quorate.codecs.api.broker.delete_topics import DeletableTopicResult
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResult
from quorate.codecs.api.broker.metadata import MetadataRequestTopic, MetadataResponseTopic
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.log import AppendError

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_PRODUCE_BY_ID = 13


# ---- records


def list_offsets(call: Call) -> Work[Any]:
    """Require DESCRIBE on each topic."""
    return call.without_topics(Operation.DESCRIBE)


def delete_records(call: Call) -> Work[Any]:
    """Require DELETE on each topic."""
    return call.without_topics(Operation.DELETE, only_with="partitions")


def produce(call: Call) -> Work[Any]:
    """Require WRITE on each topic, and on the transactional id if a batch is transactional.

    An idempotent producer needs no further permission (KIP-679).
    """
    request, by_id = call.request, call.context.api_version >= _PRODUCE_BY_ID
    transactional_id = request.transactional_id
    if (
        transactional_id is not None
        and not call.access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        and (yield from _has_transactional_records(request))
    ):
        if request.acks == 0:
            return _closing(call, None)
        return (yield from call.failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))

    def name_of(topic: Any) -> str | None:
        return call.name_of_topic(topic.topic_id) if by_id else topic.name

    if transactional_id is None and (yield from _has_transactional_records(request)):
        return call.handle()  # the handler rejects the whole request
    if request.acks != 0:
        return call.without_topics(Operation.WRITE, field="topic_data", response="responses", name_of=name_of)
    left, denied = yield from call.split_topics(Operation.WRITE, request.topic_data, name_of)
    reported = any(topic.partition_data for topic in denied)  # else the response has no error
    return _closing(call, call.handle(topic_data=left)) if reported else call.handle(topic_data=left)


def _closing(call: Call, result: HandlerResult) -> HandlerResult:
    """Close the connection after a request with acks 0 that was denied in part, as Kafka does."""
    if isinstance(result, Generator):
        return _closing_later(call, result)
    call.context.connection.close()
    return None


def _closing_later(call: Call, work: Work[Any]) -> Work[Any]:
    yield from work
    call.context.connection.close()


def _has_transactional_records(request: ProduceRequest) -> Work[bool]:
    """Return whether a batch is transactional. The handler rejects a batch that is not readable."""
    for topic in request.topic_data:
        yield None
        for part in topic.partition_data:
            yield None
            try:
                if part.records and is_transactional(part.records):
                    return True
            except AppendError:
                return False
    return False


def offset_for_leader_epoch(call: Call) -> HandlerResult:
    """Require CLUSTER_ACTION, or DESCRIBE on each topic."""
    if call.access.may_with_cluster(Operation.CLUSTER_ACTION):
        return call.handle()
    return call.without_topics(Operation.DESCRIBE, name_of=lambda topic: topic.topic)


def describe_producers(call: Call) -> HandlerResult:
    """Require READ on each topic. The handler rejects invalid names."""
    return call.without_topics(Operation.READ, name_of=lambda topic: topic.name if is_valid_name(topic.name) else None)


# ---- topics


def metadata(call: Call) -> Work[Any]:
    """Require DESCRIBE on each topic, and CREATE on the topic or the cluster to create a topic."""
    request, access, cluster = call.request, call.access, call.broker.cluster
    requested = request.topics
    version = call.context.api_version
    if requested is None or (version == 0 and not requested):
        return call.after(call.handle(), lambda response: _seen(call, response, ()))
    if request_error(requested, version) is not None:
        return call.handle()
    by_id = [one for one in requested if one.topic_id != Uuid.ZERO]
    topics = tuple(dict.fromkeys(by_id or requested))
    names = dict(zip(topics, (yield from map_in_turns(topics, lambda one: _name_of(call, one))), strict=True))
    named = [name for name in names.values() if name is not None]
    allowed = yield from access.allowed(Operation.DESCRIBE, ResourceType.TOPIC, named)
    may_create = request.allow_auto_topic_creation or version < 4
    if may_create and cluster.broker_configs.boolean("auto.create.topics.enable"):
        new = {name for name in allowed if name not in cluster.topics}
        if new and not access.may_with_cluster(Operation.CREATE):
            allowed -= new - (yield from access.allowed(Operation.CREATE, ResourceType.TOPIC, new))
    left, denied = yield from split(topics, lambda one: names[one] is None or names[one] in allowed)
    entries = yield from map_in_turns(
        denied,
        lambda one: MetadataResponseTopic(
            error_code=_DENIED,
            name=None if by_id else one.name,
            topic_id=one.topic_id,
            is_internal=one.name in INTERNAL and access.may(Operation.DESCRIBE, ResourceType.TOPIC, one.name),
        ),
    )
    if left:
        return call.after(call.handle(topics=left), lambda response: _seen(call, response, entries))
    # In version 0 an empty array requests all topics.
    nothing = call.handle(topics=())
    return call.after(nothing, lambda response: _seen(call, replace(response, topics=()), entries))


def _name_of(call: Call, topic: MetadataRequestTopic) -> str | None:
    return topic.name if topic.topic_id == Uuid.ZERO else call.name_of_topic(topic.topic_id)


def _seen(call: Call, response: Any, denied: tuple[MetadataResponseTopic, ...]) -> Work[Any]:
    """Reduce a response to topics with DESCRIBE and to authorized operations; add denied topics."""
    access = call.access
    described, _ = yield from call.split_topics(Operation.DESCRIBE, response.topics, lambda one: one.name)

    def narrow(topic: MetadataResponseTopic) -> MetadataResponseTopic:
        among = topic.topic_authorized_operations
        if topic.name is None or among == UNKNOWN_OPERATIONS:
            return topic
        return replace(topic, topic_authorized_operations=access.operations(ResourceType.TOPIC, topic.name, among))

    topics = yield from map_in_turns(described, narrow)
    operations = response.cluster_authorized_operations
    if operations != UNKNOWN_OPERATIONS:
        operations = access.cluster_operations(operations)
    return replace(response, topics=topics + denied, cluster_authorized_operations=operations)


def create_topics(call: Call) -> Work[Any]:
    """Require CREATE on the cluster or the topic.

    Partitions and configs in the response need DESCRIBE_CONFIGS on the topic.
    """
    request, access = call.request, call.access
    times = Counter(one.name for one in request.topics)
    once = {name for name, count in times.items() if count == 1}
    denied: set[str] = set()
    if not access.may_with_cluster(Operation.CREATE):
        denied = once - (yield from access.allowed(Operation.CREATE, ResourceType.TOPIC, once))
    shown = yield from access.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, once)
    left, _ = yield from split(request.topics, lambda one: one.name not in denied)
    refused = yield from map_in_turns(
        denied,
        lambda name: CreatableTopicResult(name=name, error_code=_DENIED, error_message="Authorization failed."),
    )

    def hidden(topic: CreatableTopicResult) -> CreatableTopicResult:
        if topic.error_code or topic.name in shown:
            return topic
        return replace(topic, topic_config_error_code=_DENIED, num_partitions=-1, replication_factor=-1, configs=())

    def hide(response: Any) -> Work[Any]:
        return replace(response, topics=(yield from map_in_turns(response.topics, hidden)) + refused)

    return call.after(call.handle(topics=left) if denied else call.handle(), hide)


def delete_topics(call: Call) -> Work[Any]:
    """Require DELETE on the cluster or the topic.

    The response names a topic of a requested id only to clients with DESCRIBE on it.
    """
    request, access, cluster = call.request, call.access, call.broker.cluster
    if access.may_with_cluster(Operation.DELETE):
        return call.handle()
    named = call.context.api_version >= 6
    times = Counter((topic.name, topic.topic_id) for topic in request.topics) if named else Counter(request.topic_names)
    denied: list[DeletableTopicResult] = []
    left = []
    for topic in request.topics if named else request.topic_names:
        yield None
        name, topic_id = (topic.name, topic.topic_id) if named else (topic, Uuid.ZERO)
        found = cluster.topics_by_id.get(topic_id) if name is None else cluster.topics.get(name)
        known = name if found is None else found.name
        malformed = (name is None) is (topic_id == Uuid.ZERO) or times[(name, topic_id) if named else name] > 1
        if malformed or known is None or access.may(Operation.DELETE, ResourceType.TOPIC, known):
            left.append(topic)
            continue
        described = access.may(Operation.DESCRIBE, ResourceType.TOPIC, known)
        if found is None and described:
            left.append(topic)  # the handler returns UNKNOWN_TOPIC_OR_PARTITION
            continue
        visible_name = known if described or name is not None else None
        denied.append(
            DeletableTopicResult(name=visible_name, topic_id=topic_id, error_code=_DENIED, error_message=_DENIED.text)
        )
    if not denied:
        return call.handle()
    return call.after(
        call.handle(**{"topics" if named else "topic_names": tuple(left)}),
        lambda response: replace(response, responses=response.responses + tuple(denied)),
    )


def create_partitions(call: Call) -> HandlerResult:
    """Require ALTER on each topic. The handler rejects a topic that is named twice."""
    times = Counter(one.name for one in call.request.topics)
    return call.without_topics(
        Operation.ALTER, response="results", name_of=lambda topic: topic.name if times[topic.name] == 1 else None
    )


# ---- configs


def describe_configs(call: Call) -> Work[Any]:
    """Require DESCRIBE_CONFIGS on each topic or group; on the cluster for other resources."""
    if has_unknown_resource_type(call.broker.cluster, call.request.resources):
        return call.handle()
    left, denied = [], []
    for resource in call.request.resources:
        yield None
        kind, code, name = _CONFIG_RESOURCES.get(resource.resource_type, _OF_THE_CLUSTER)
        if call.access.may(Operation.DESCRIBE_CONFIGS, kind, name or resource.resource_name):
            left.append(resource)
        else:
            denied.append(
                DescribeConfigsResult(
                    error_code=code,
                    error_message=code.text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
    return call.after(
        call.handle(resources=tuple(left)),
        lambda response: replace(response, results=response.results + tuple(denied)),
    )


_OF_THE_CLUSTER = (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, CLUSTER_NAME)
_CONFIG_RESOURCES = {
    2: (ResourceType.TOPIC, _DENIED, ""),
    32: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, ""),
}
"""Type of a config resource → resource type of its ACLs, error if denied, and name of the resource.

An empty name stands for the config resource's own name.
"""

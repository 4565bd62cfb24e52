"""CreateTopics v2–7, DeleteTopics v1–6, CreatePartitions v0–3, DeleteRecords v0–2.

See KIP-4, KIP-195, KIP-107, and KIP-516 for topic ids.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, changes_metadata
from quorate.cluster.apis.configs import topic_config_results
from quorate.cluster.config_validation import check_topic_configs
from quorate.cluster.topics import TopicState
from quorate.cluster.turns import Work
from quorate.codecs import Uuid
from quorate.codecs.api.broker import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from quorate.codecs.api.broker.create_partitions import CreatePartitionsTopicResult
from quorate.codecs.api.broker.create_topics import CreatableTopic, CreatableTopicConfigs, CreatableTopicResult
from quorate.codecs.api.broker.delete_records import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from quorate.codecs.api.broker.delete_topics import DeletableTopicResult
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

__all__: list[str] = []

MAX_PARTITIONS = 10_000
"""Partitions that one request may create, as in Kafka, to protect the cluster from mistakes."""
_MOST_COUNTED = 0x7FFFFFFF


@changes_metadata
def create_topics(broker: "Broker", request: CreateTopicsRequest, context: Context) -> Work[CreateTopicsResponse]:
    """Create topics, all valid ones of a request in one batch of records."""
    cluster = broker.cluster
    times = Counter(topic.name for topic in request.topics)
    counts = _counts(cluster, request.topics)
    too_many = "Excessively large number of partitions per request."
    refused: dict[str, ApiError] = {}
    overflows = sum(counts) > _MOST_COUNTED and not cluster.broker_configs.behaviour.counts_beyond_int
    if sum(counts) > MAX_PARTITIONS and not overflows:
        refused = dict.fromkeys(times, ApiError(ErrorCode.POLICY_VIOLATION, too_many))
    # All names are checked before any topic is created: names that collide in metrics are allowed
    # within one request.
    for name in [name for name in times if name not in refused]:
        try:
            if times[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            cluster.topic_control.check_new_name(name)
        except ApiError as refusal:
            refused[name] = refusal
        yield None
    # If the sum of partitions overflows an int, Kafka before 4.4 does not notice the limit. It then
    # fails over the topic that exceeds it.
    if any(
        count > MAX_PARTITIONS and topic.name not in refused and _is_made(cluster, topic)
        for topic, count in zip(request.topics, counts, strict=True)
    ):
        refused = dict.fromkeys(times, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
    created: dict[str, TopicState] = {}
    for requested in {topic.name: topic for topic in request.topics if topic.name not in refused}.values():
        try:
            created[requested.name] = yield from _new_topic(cluster, requested)
        except ApiError as refusal:
            refused[requested.name] = refusal
        yield None
    if not request.validate_only:
        refused |= yield from cluster.topic_control.commit_topics(list(created.values()))
    results = []
    configs: dict[tuple[tuple[str, str], ...], tuple[CreatableTopicConfigs, ...]] = {}
    for name in times:
        if name in refused:
            code, message = refused[name].code, refused[name].message
            results.append(CreatableTopicResult(name=name, error_code=code, error_message=message))
        else:
            results.append(_created(broker, created[name], configs))
        yield None
    return CreateTopicsResponse(topics=tuple(results))


def _counts(cluster: "SharedCluster", topics: Sequence[CreatableTopic]) -> list[int]:
    """Return the requested number of partitions of each topic."""
    default = cluster.broker_configs.number("num.partitions")
    return [
        len(topic.assignments) or (default if topic.num_partitions == -1 else max(topic.num_partitions, 0))
        for topic in topics
    ]


def _is_made(cluster: "SharedCluster", topic: CreatableTopic) -> bool:
    """Return whether a topic's configs and replication factor are valid."""
    try:
        check_topic_configs(cluster.broker_configs, {config.name: config.value for config in topic.configs})
    except ApiError:
        return False
    return topic.replication_factor == -1 or 1 <= topic.replication_factor <= len(cluster.alive)


def _new_topic(cluster: "SharedCluster", requested: CreatableTopic) -> Work[TopicState]:
    config = {one.name: one.value for one in requested.configs}
    config |= {one.name: None for one in requested.configs if one.value is None}  # rejected, also if it is repeated
    check_topic_configs(cluster.broker_configs, config)
    assignment = None
    if requested.assignments:
        if requested.num_partitions != -1 or requested.replication_factor != -1:
            given = "numPartitions" if requested.replication_factor == -1 else "replication factor"
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {given} was not set to -1.",
            )
        for one in requested.assignments:
            cluster.topic_control.check_assignment(one.broker_ids)
        by_index = {one.partition_index: one.broker_ids for one in requested.assignments}
        if sorted(by_index) != list(range(len(requested.assignments))):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        assignment = [by_index[index] for index in range(len(by_index))]
    own = {name: value for name, value in config.items() if value is not None}
    return (
        yield from cluster.topic_control.new_topic(
            requested.name, requested.num_partitions, requested.replication_factor, assignment, own
        )
    )


def _created(
    broker: "Broker",
    topic: TopicState,
    configs: dict[tuple[tuple[str, str], ...], tuple[CreatableTopicConfigs, ...]],
) -> CreatableTopicResult:
    """Return the result for a new topic.

    `configs`: a cache, by the topic's own configs. Topics of a request often have the same ones.
    """
    own = tuple(topic.config.items())
    if own not in configs:
        configs[own] = tuple(
            CreatableTopicConfigs(name=one.name, value=one.value, config_source=one.config_source)
            for one in topic_config_results(broker, topic.config)
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=configs[own],
    )


@changes_metadata
def delete_topics(broker: "Broker", request: DeleteTopicsRequest, context: Context) -> Work[DeleteTopicsResponse]:
    """Delete each topic, by name or id."""
    cluster = broker.cluster
    requested = (
        [(one.name, one.topic_id) for one in request.topics]
        if context.api_version >= 6
        else [(name, Uuid.ZERO) for name in request.topic_names]
    )
    times = Counter(requested)
    results = []
    named: dict[Uuid, tuple[TopicState, DeletableTopicResult]] = {}
    # As in Kafka, topics with ids come first. A topic that is also named without its id is not
    # deleted.
    for one in sorted(times, key=lambda each: each[0] is not None):
        name, topic_id = one
        topic = cluster.topics_by_id.get(topic_id) if name is None else cluster.topics.get(name)
        found = DeletableTopicResult(name=name, topic_id=topic_id)
        try:
            if (name is None) is (topic_id == Uuid.ZERO):
                problem = "Neither topic name nor id were specified."
                if name is not None:
                    problem = "You may not specify both topic name and topic id."
                raise ApiError(ErrorCode.INVALID_REQUEST, problem)
            if times[one] > 1:
                problem = f"Duplicate topic {'id' if name is None else 'name'}."
                raise ApiError(ErrorCode.INVALID_REQUEST, problem)
            if topic is None:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise ApiError(unknown, unknown.text)
            found = DeletableTopicResult(name=topic.name, topic_id=topic.id)
            if topic.id in named or times[None, topic.id] > 1:
                named.pop(topic.id, None)
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
            named[topic.id] = topic, found
        except ApiError as refusal:
            results.append(replace(found, error_code=refusal.code, error_message=refusal.message))
        yield None
    error, message = ErrorCode.NONE, None
    try:
        yield from cluster.topic_control.delete_topics([topic for topic, _ in named.values()])
    except ApiError as refusal:
        error, message = refusal.code, refusal.message
    results += [replace(found, error_code=error, error_message=message) for _, found in named.values()]
    return DeleteTopicsResponse(responses=tuple(results))


@changes_metadata
def create_partitions(
    broker: "Broker", request: CreatePartitionsRequest, context: Context
) -> Work[CreatePartitionsResponse]:
    """Add partitions to each topic."""
    results = []
    times = Counter(one.name for one in request.topics)
    for one in {one.name: one for one in request.topics}.values():
        assignment = None if one.assignments is None else [each.broker_ids for each in one.assignments]
        error, message = ErrorCode.NONE, None
        try:
            if times[one.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = broker.cluster.topics.get(one.name)
            if topic is not None and one.count - len(topic.partitions) > MAX_PARTITIONS:
                # For this API brokers do not check the limit; the controller fails to write so many
                # records.
                message = f"more than {MAX_PARTITIONS:,} partitions in one request"
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
            yield from broker.cluster.partition_control.adding_partitions(
                one.name, one.count, assignment, only_check=request.validate_only
            )
        except ApiError as refusal:
            error, message = refusal.code, refusal.message
        results.append(CreatePartitionsTopicResult(name=one.name, error_code=error, error_message=message))
        yield None
    return CreatePartitionsResponse(results=tuple(results))


def delete_records(broker: "Broker", request: DeleteRecordsRequest, context: Context) -> Work[DeleteRecordsResponse]:
    """Delete records before an offset of each partition."""
    topics = []
    for topic in request.topics:
        parts = []
        for one in topic.partitions:
            yield None
            partition = broker.cluster.state.partition(topic.name, one.partition_index)
            error, low = ErrorCode.NONE, -1
            if partition is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif partition.leader != broker.id:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif partition.log.config.compact and not partition.log.config.delete:
                error = ErrorCode.POLICY_VIOLATION  # a compacted topic keeps the last record of every key
            else:
                log = partition.log
                offset = log.high_watermark if one.offset == -1 else one.offset
                if not 0 <= offset <= log.high_watermark:
                    error = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    try:
                        log.delete_before(offset)
                        low = log.start_offset
                    except AppendError as refused:
                        error = refused.code
            parts.append(
                DeleteRecordsPartitionResult(partition_index=one.partition_index, low_watermark=low, error_code=error)
            )
        if parts:
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=tuple(parts)))
    return DeleteRecordsResponse(topics=tuple(topics))

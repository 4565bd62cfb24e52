"""CreateTopics v2–7, DeleteTopics v1–6, CreatePartitions v0–3, DeleteRecords v0–2: topics come, grow and go (KIP-4, KIP-195, KIP-107; ids: KIP-516)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, answers
from quorate.cluster.apis.configs import check_topic_config, shown
from quorate.cluster.errors import Refusal
from quorate.cluster.producers import Refused
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

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.core import ClusterCore

__all__: list[str] = []

MOST_PARTITIONS = 10_000
"""So many partitions may be made by one request, as in Kafka: a slip of a client must not end the cluster."""
_MOST_COUNTED = 0x7FFFFFFF


@answers(CreateTopicsRequest)
def create_topics(broker: "Broker", request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    """Make each topic, or say why not."""
    times = Counter(topic.name for topic in request.topics)
    counts = _counts(broker.cluster, request.topics)
    told = f"more than {MOST_PARTITIONS:,} partitions in one request"
    refused: dict[str, Refusal] = {}
    if MOST_PARTITIONS < sum(counts) <= _MOST_COUNTED:
        refused = dict.fromkeys(times, Refusal(ErrorCode.POLICY_VIOLATION, told))
    # All of them before any is made: topics that come together may have names that metrics confuse.
    for name in times.keys() - refused.keys():
        try:
            if times[name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} is in the request twice")
            broker.cluster.check_new_name(name)
        except Refusal as refusal:
            refused[name] = refusal
    # Where the partitions are more than an int counts, Kafka does not see that, and fails over the topic that has them as soon as it makes it.
    if any(
        count > MOST_PARTITIONS and topic.name not in refused and _is_made(broker.cluster, topic)
        for topic, count in zip(request.topics, counts, strict=True)
    ):
        refused = dict.fromkeys(times, Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, told))
    results = []
    for asked in {topic.name: topic for topic in request.topics}.values():
        try:
            if asked.name in refused:
                raise refused[asked.name]
            results.append(_created(broker, asked, request.validate_only))
        except Refusal as refusal:
            results.append(
                CreatableTopicResult(name=asked.name, error_code=refusal.code, error_message=refusal.message)
            )
    return CreateTopicsResponse(topics=tuple(results))


def _counts(cluster: "ClusterCore", topics: Sequence[CreatableTopic]) -> list[int]:
    """How many partitions are asked for of each topic."""
    default = cluster.settings.number("num.partitions")
    return [
        len(one.assignments) or (default if one.num_partitions == -1 else max(one.num_partitions, 0)) for one in topics
    ]


def _is_made(cluster: "ClusterCore", topic: CreatableTopic) -> bool:
    """Whether nothing but its partitions keeps it from being made: its settings, or too few brokers for its replicas."""
    try:
        check_topic_config(cluster, {one.name: one.value for one in topic.configs})
    except Refusal:
        return False
    return topic.replication_factor == -1 or 1 <= topic.replication_factor <= len(cluster.alive)


def _created(broker: "Broker", asked: CreatableTopic, only_check: bool) -> CreatableTopicResult:
    cluster = broker.cluster
    config = {one.name: one.value for one in asked.configs}
    check_topic_config(cluster, config)
    assignment = None
    if asked.assignments:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            raise Refusal(ErrorCode.INVALID_REQUEST, "either partitions and replicas are counted, or brokers are named")
        by_index = {one.partition_index: one.broker_ids for one in asked.assignments}
        if sorted(by_index) != list(range(len(asked.assignments))):
            raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions are numbered from 0, without gaps")
        assignment = [by_index[index] for index in range(len(by_index))]
    topic = cluster.create_topic(
        asked.name,
        partitions=asked.num_partitions,
        replicas=asked.replication_factor,
        assignment=assignment,
        config={name: value for name, value in config.items() if value is not None},
        only_check=only_check,
        name_checked=True,
    )
    settings = tuple(
        CreatableTopicConfigs(name=one.name, value=one.value, config_source=one.config_source)
        for one in shown(broker, topic.config)
    )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=settings,
    )


@answers(DeleteTopicsRequest)
def delete_topics(broker: "Broker", request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    """Delete each topic, by name or id."""
    cluster = broker.cluster
    asked = (
        [(one.name, one.topic_id) for one in request.topics]
        if context.api_version >= 6
        else [(name, Uuid.ZERO) for name in request.topic_names]
    )
    times = Counter(asked)
    results = []
    named: dict[Uuid, DeletableTopicResult] = {}
    # First those that are named by their ids, as in Kafka; who then names one of them, too, may have meant another one, and it is not deleted.
    for one in sorted(times, key=lambda each: each[0] is not None):
        name, topic_id = one
        topic = cluster.topics_by_id.get(topic_id) if name is None else cluster.topics.get(name)
        found = DeletableTopicResult(name=name, topic_id=topic_id)
        try:
            if (name is None) is (topic_id == Uuid.ZERO):
                raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is named either by its name or by its id")
            if times[one] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is in the request twice")
            if topic is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            found = DeletableTopicResult(name=topic.name, topic_id=topic.id)
            if topic.id in named or times[None, topic.id] > 1:
                named.pop(topic.id, None)
                raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is named by its id, too")
            named[topic.id] = found
        except Refusal as refusal:
            results.append(replace(found, error_code=refusal.code, error_message=refusal.message))
    for topic_id, found in named.items():
        try:
            cluster.delete_topic(cluster.topics_by_id[topic_id].name)
            results.append(found)
        except Refusal as refusal:
            results.append(replace(found, error_code=refusal.code, error_message=refusal.message))
    return DeleteTopicsResponse(responses=tuple(results))


@answers(CreatePartitionsRequest)
def create_partitions(broker: "Broker", request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    """Give each topic more partitions."""
    results = []
    times = Counter(one.name for one in request.topics)
    for one in {one.name: one for one in request.topics}.values():
        assignment = None if one.assignments is None else [each.broker_ids for each in one.assignments]
        error, message = ErrorCode.NONE, None
        try:
            if times[one.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"{one.name} is in the request twice")
            topic = broker.cluster.topics.get(one.name)
            if topic is not None and one.count - len(topic.partitions) > MOST_PARTITIONS:
                # Of this API brokers do not look at it before their controller has more to write than it may.
                told = f"more than {MOST_PARTITIONS:,} partitions in one request"
                raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, told)
            broker.cluster.add_partitions(one.name, one.count, assignment, only_check=request.validate_only)
        except Refusal as refusal:
            error, message = refusal.code, refusal.message
        results.append(CreatePartitionsTopicResult(name=one.name, error_code=error, error_message=message))
    return CreatePartitionsResponse(results=tuple(results))


@answers(DeleteRecordsRequest)
def delete_records(broker: "Broker", request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    """Let the oldest records of each partition go."""
    topics = []
    for topic in request.topics:
        parts = []
        for one in topic.partitions:
            partition = broker.cluster.partition(topic.name, one.partition_index)
            error, low = ErrorCode.NONE, -1
            if partition is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif partition.leader != broker.id:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif partition.log.config.compact and not partition.log.config.delete:
                error = ErrorCode.POLICY_VIOLATION  # only compacted: whoever reads it counts on every key
            else:
                log = partition.log
                offset = log.high_watermark if one.offset == -1 else one.offset
                if not 0 <= offset <= log.high_watermark:
                    error = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    try:
                        log.delete_before(offset)
                        low = log.start_offset
                    except Refused as refused:
                        error = refused.code
            parts.append(
                DeleteRecordsPartitionResult(partition_index=one.partition_index, low_watermark=low, error_code=error)
            )
        if parts:
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=tuple(parts)))
    return DeleteRecordsResponse(topics=tuple(topics))

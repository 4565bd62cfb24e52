"""Produce v3–13: batches of format 2 to the leaders of their partitions; idempotent and transactional producers (KIP-98, KIP-890), all compressions, acks 0, 1, -1.

v10 tells where the leader is (KIP-951), v12 adds partitions to the transaction by itself, v13 names topics by id.
"""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, answers
from quorate.cluster.errors import Refusal
from quorate.cluster.log import Refused
from quorate.cluster.topics import PartitionState, TopicState
from quorate.codecs.api.broker import ProduceRequest, ProduceResponse
from quorate.codecs.api.broker.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.v2 import HEADER, HEADER_BYTES, TRANSACTIONAL

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []


@answers(ProduceRequest)
def produce(broker: "Broker", request: ProduceRequest, context: Context) -> ProduceResponse | None:
    """Append, each partition for itself. With acks 0 nothing is answered, and where something failed the connection is closed, as Kafka does."""
    moved: dict[int, NodeEndpoint] = {}
    responses = []
    for data in request.topic_data:
        topic = _topic(broker, data, context)
        parts = tuple(_part(broker, request, context, topic, part, moved) for part in data.partition_data)
        responses.append(TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=parts))
    if request.acks == 0:
        if any(part.error_code for one in responses for part in one.partition_responses):
            context.connection.close()
        return None
    return ProduceResponse(responses=tuple(responses), node_endpoints=tuple(moved.values()))


def _topic(broker: "Broker", data: TopicProduceData, context: Context) -> TopicState | None:
    if context.api_version >= 13:
        return broker.cluster.topics_by_id.get(data.topic_id)
    return broker.cluster.topics.get(data.name)


def _part(
    broker: "Broker",
    request: ProduceRequest,
    context: Context,
    topic: TopicState | None,
    part: PartitionProduceData,
    moved: dict[int, NodeEndpoint],
) -> PartitionProduceResponse:
    partition = None
    try:
        if request.acks not in (-1, 0, 1):
            raise Refused(ErrorCode.INVALID_REQUIRED_ACKS)
        if topic is None:
            by_id = context.api_version >= 13
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if part.index not in range(len(topic.partitions)):
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = topic.partitions[part.index]
        if topic.internal and context.client_id != "__admin_client":
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is written by brokers only")
        return _appended(broker, request, context, topic, partition, part)
    except Refused as refused:
        leader = LeaderIdAndEpoch()
        if refused.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition is not None and context.api_version >= 10:
            leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
            _tell(broker, partition.leader, moved)
        return PartitionProduceResponse(
            index=part.index,
            error_code=refused.code,
            base_offset=-1,
            error_message=refused.message or None,
            current_leader=leader,
        )


def _appended(
    broker: "Broker",
    request: ProduceRequest,
    context: Context,
    topic: TopicState,
    partition: PartitionState,
    part: PartitionProduceData,
) -> PartitionProduceResponse:
    cluster = broker.cluster
    if partition.leader != broker.id:
        raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if not part.records:
        raise Refused(ErrorCode.INVALID_RECORD, "no batch")
    settings = cluster.settings
    if request.acks == -1 and len(partition.in_sync) < int(settings.of_topic("min.insync.replicas", topic.config)):
        raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    _check_transaction(broker, request, context, partition, part.records)
    stored = partition.log.append(
        part.records,
        leader_epoch=partition.leader_epoch,
        now_ms=context.now_ms,
        append_time=settings.of_topic("message.timestamp.type", topic.config) == "LogAppendTime",
        max_batch_bytes=int(settings.of_topic("max.message.bytes", topic.config)),
    )
    return PartitionProduceResponse(
        index=part.index,
        base_offset=stored.base_offset,
        log_append_time_ms=stored.timestamp_ms,
        log_start_offset=partition.log.start_offset,
    )


def _check_transaction(
    broker: "Broker", request: ProduceRequest, context: Context, partition: PartitionState, records: bytes
) -> None:
    """A transactional batch belongs to an open transaction that has the partition; newer clients leave adding it to the broker (KIP-890). Raises `Refused`."""
    if len(records) < HEADER_BYTES:
        return
    fields = HEADER.unpack_from(records)
    attributes, producer_id, epoch = fields[5], fields[9], fields[10]
    if not attributes & TRANSACTIONAL:
        return
    if not request.transactional_id:
        raise Refused(ErrorCode.INVALID_TXN_STATE, "a transactional batch without a transactional id")
    transactions = broker.cluster.transactions
    where = (partition.topic, partition.index)
    if context.api_version >= 12:
        try:
            transactions.add(request.transactional_id, producer_id, epoch, [where])
        except Refusal as refusal:
            raise Refused(refusal.code, refusal.message or "") from None
        return
    found = transactions.by_id.get(request.transactional_id)
    if found is None or found.producer_id != producer_id or where not in found.partitions:
        # Before version 11 clients cannot be told to abort (KIP-890).
        raise Refused(ErrorCode.TRANSACTION_ABORTABLE if context.api_version >= 11 else ErrorCode.INVALID_TXN_STATE)


def _tell(broker: "Broker", leader: int, moved: dict[int, NodeEndpoint]) -> None:
    found = broker.cluster.brokers.get(leader)
    if found is not None and found.alive:
        moved[leader] = NodeEndpoint(node_id=found.id, host=found.host, port=found.port, rack=found.rack)

"""InitProducerId v0–5, AddPartitionsToTxn v0–5, AddOffsetsToTxn v0–4, EndTxn v0–5.

Idempotent and transactional producers: KIP-98, KIP-360, KIP-890.
"""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.cluster.turns import Work
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api.broker import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from quorate.codecs.api.broker.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

__all__: list[str] = []


def init_producer_id(broker: "Broker", request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    """Return a new producer id, or for a transactional id its producer id and next epoch."""
    transactions = broker.cluster.transactions
    if (request.producer_id == -1) is not (request.producer_epoch == -1):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    try:
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=transactions.new_producer_id(), producer_epoch=0)
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        transactions.check_coordinator(broker.id, request.transactional_id)
        producer_id, epoch = transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
    except ApiError as refusal:
        code = refusal.code
        if code is ErrorCode.PRODUCER_FENCED and context.api_version < 4:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


def add_partitions_to_txn(
    broker: "Broker", request: AddPartitionsToTxnRequest, context: Context
) -> Work[AddPartitionsToTxnResponse]:
    """Add partitions to transactions, all partitions of a transaction or none."""
    if context.api_version >= 4:
        results = []
        for transaction in request.transactions:
            producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
            added = yield from _added(broker, producer, transaction.topics, context, transaction.verify_only)
            results.append(AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=added))
        return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))
    producer = (
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    )
    added = yield from _added(broker, producer, request.v3_and_below_topics, context)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=added)


def _added(
    broker: "Broker",
    producer: tuple[str, int, int],
    topics: tuple[AddPartitionsToTxnTopic, ...],
    context: Context,
    only_verify: bool = False,
) -> Work[tuple[AddPartitionsToTxnTopicResult, ...]]:
    """Add partitions to one transaction, or only verify that it has them.

    `producer`: transactional id, producer id and epoch.
    """
    cluster = broker.cluster
    transactional_id, producer_id, epoch = producer
    where = [(topic.name, index) for topic in topics for index in topic.partitions]
    by_broker = context.api_version >= 4
    allowed = None
    if context.access is not None and not by_broker:
        names = [topic.name for topic in topics]
        allowed = yield from context.access.allowed(Operation.WRITE, ResourceType.TOPIC, names)
    errors = {}
    for one in where:
        if code := _add_error(cluster, *one, by_broker, allowed):
            errors[one] = code
        yield None
    try:
        if errors:
            raise ApiError(ErrorCode.OPERATION_NOT_ATTEMPTED)
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        cluster.transactions.check_coordinator(broker.id, transactional_id)
        if only_verify:
            for one in where:
                errors.setdefault(one, _verified(cluster, transactional_id, producer_id, epoch, one))
                yield None
        else:
            cluster.transactions.add_partitions(
                transactional_id, producer_id, epoch, where, version=2 if by_broker else 0
            )
    except ApiError as refusal:
        errors = dict.fromkeys(where, _compatible_error(refusal.code, context.api_version)) | errors
    results = []
    for topic in topics:
        parts = []
        for index in topic.partitions:
            code = errors.get((topic.name, index), ErrorCode.NONE)
            parts.append(AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code))
            yield None
        if parts:
            results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=tuple(parts)))
        yield None
    return tuple(results)


def _add_error(
    cluster: "SharedCluster", topic: str, index: int, by_broker: bool, allowed: set[str] | None
) -> ErrorCode:
    """Return the error for a partition that cannot be added to a transaction.

    Only brokers add partitions of internal topics. `allowed`: topics that the client may write to,
    `None` for all.
    """
    if not by_broker and (
        topic in (CONSUMER_OFFSETS, TRANSACTION_STATE) or (allowed is not None and topic not in allowed)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if cluster.state.partition(topic, index) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _verified(
    cluster: "SharedCluster", transactional_id: str, producer_id: int, epoch: int, where: tuple[str, int]
) -> ErrorCode:
    try:
        cluster.transactions.check_open(transactional_id, producer_id, epoch, where)
    except ApiError as refusal:
        return refusal.code
    return ErrorCode.NONE


def add_offsets_to_txn(broker: "Broker", request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse:
    """Add the partition of the group's offsets to the transaction."""
    cluster = broker.cluster
    try:
        cluster.topic_control.internal_topic(CONSUMER_OFFSETS)
    except ApiError:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = cluster.groups.partition_for(request.group_id)
    assert partition is not None
    try:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        cluster.transactions.check_coordinator(broker.id, request.transactional_id)
        where = [(CONSUMER_OFFSETS, partition.index)]
        cluster.transactions.add_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch, where, version=0
        )
    except ApiError as refusal:
        return AddOffsetsToTxnResponse(error_code=_compatible_error(refusal.code, context.api_version))
    return AddOffsetsToTxnResponse()


def end_txn(broker: "Broker", request: EndTxnRequest, context: Context) -> EndTxnResponse:
    """Commit or abort a transaction. Since version 5 this bumps the producer epoch (KIP-890)."""
    try:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        broker.cluster.transactions.check_coordinator(broker.id, request.transactional_id)
        producer_id, epoch = broker.cluster.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            bump_epoch=context.api_version >= 5,
        )
    except ApiError as refusal:
        return EndTxnResponse(error_code=_compatible_error(refusal.code, context.api_version))
    if context.api_version < 5:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)


def _compatible_error(code: ErrorCode, version: int) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH for PRODUCER_FENCED before version 2 (KIP-588)."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and version < 2 else code

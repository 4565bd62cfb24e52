"""Produce v3–13: append batches of format 2 on the leaders of their partitions.

Supports idempotent and transactional producers (KIP-98, KIP-890), all compression types, and acks
0, 1 and -1. v10 returns the current leader (KIP-951), v12 adds partitions to the transaction, v13
names topics by id.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, endpoints
from quorate.cluster.batch_checks import SINCE_ZSTD, is_transactional, one_batch
from quorate.cluster.batch_validation import check_batch
from quorate.cluster.record_checks import InvalidRecords, TopicPolicy, validated
from quorate.cluster.storage.segment import BatchFacts
from quorate.cluster.topics import PartitionState, TopicState
from quorate.cluster.turns import ThreadCall, Work, map_in_turns
from quorate.codecs import Uuid
from quorate.codecs.api.broker import ProduceRequest, ProduceResponse
from quorate.codecs.api.broker.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.compression import TooLargeError
from quorate.codecs.batches.v2 import COMPRESSION_MASK, HEADER, LAST_COMPRESSION, TRANSACTIONAL
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_ADDS_PARTITIONS = 12
_BY_TOPIC_ID = 13
_MANY_RECORDS = 4_000
_LARGE_BATCH_BYTES = 1 << 20
"""A batch with more records, or more bytes after decompression, is validated in a thread."""
_LARGE_COMPRESSED_BYTES = 64 << 10
"""A compressed batch with more bytes is validated in a thread. A batch of this size that consists
of empty gzip members or snappy blocks takes 20 ms.
"""


def produce(broker: "Broker", request: ProduceRequest, context: Context) -> Work[ProduceResponse | None]:
    """Append each partition's batch.

    With acks 0 there is no response. As in Kafka, an error closes the connection then.
    """
    refused = _request_error(broker, request, context)
    topics: dict[str | Uuid, dict[int, PartitionProduceResponse]] = {}
    for data in request.topic_data:
        key = data.topic_id if context.api_version >= _BY_TOPIC_ID else data.name
        parts = topics.setdefault(key, {})
        # For a partition that is named twice only the last batch is appended.
        for part in {one.index: one for one in data.partition_data}.values():
            if refused is not None:
                parts[part.index] = _refused(part.index, refused.code, refused.message)
            else:
                topic = _topic(broker, data, context)
                parts[part.index] = yield from _part(broker, request, context, topic, part)
            yield None
    if request.acks == 0:
        if any(part.error_code for parts in topics.values() for part in parts.values()):
            context.connection.close()
        return None
    leaders = dict.fromkeys(part.current_leader.leader_id for parts in topics.values() for part in parts.values())
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(name="", topic_id=key, partition_responses=tuple(parts.values()))
            if isinstance(key, Uuid)
            else TopicProduceResponse(name=key, partition_responses=tuple(parts.values()))
            for key, parts in topics.items()
            if parts
        ),
        node_endpoints=endpoints(broker, leaders, NodeEndpoint),
    )


def _topic(broker: "Broker", data: TopicProduceData, context: Context) -> TopicState | None:
    if context.api_version >= _BY_TOPIC_ID:
        return broker.cluster.topics_by_id.get(data.topic_id)
    return broker.cluster.topics.get(data.name)


def _request_error(broker: "Broker", request: ProduceRequest, context: Context) -> AppendError | None:
    """Return the error that rejects a whole request, if any.

    As in Kafka, the first check is whether any batch is transactional. Such a request needs a
    transactional id, and all its batches have one producer.
    """
    batches = (part.records for data in request.topic_data for part in data.partition_data if part.records)
    try:
        transactional = any(is_transactional(batch) for batch in batches)
    except AppendError as refused:
        return refused
    if request.transactional_id is None and transactional:
        return AppendError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if context.api_version < SINCE_ZSTD and any(
        fields[5] & COMPRESSION_MASK > LAST_COMPRESSION for fields in _headers(broker, request, context)
    ):  # brokers read the compression type where they expect no error
        return AppendError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if transactional and len(_producers(broker, request, context)) > 1:
        problem = "Transactional records contained more than one producer ID"
        return AppendError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, problem)
    return None


def _producers(broker: "Broker", request: ProduceRequest, context: Context) -> set[tuple[int, int]]:
    """Return id and epoch of the producers of transactional batches."""
    return {
        (fields[9], fields[10])
        for fields in _headers(broker, request, context)
        if fields[5] & TRANSACTIONAL and fields[9] >= 0
    }


def _headers(broker: "Broker", request: ProduceRequest, context: Context) -> Iterator[tuple[int, ...]]:
    """Yield the header fields of readable batches for partitions that exist."""
    for data in request.topic_data:
        topic = _topic(broker, data, context)
        for part in data.partition_data:
            if topic is None or not 0 <= part.index < len(topic.partitions):
                continue
            with suppress(AppendError):
                yield HEADER.unpack_from(one_batch(part.records, context.api_version))


def _refused(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1, error_message=message)


def _part(
    broker: "Broker",
    request: ProduceRequest,
    context: Context,
    topic: TopicState | None,
    part: PartitionProduceData,
) -> Work[PartitionProduceResponse]:
    if topic is None:
        by_id = context.api_version >= _BY_TOPIC_ID
        return _refused(part.index, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[part.index] if 0 <= part.index < len(topic.partitions) else None
    try:
        if partition is None:
            raise AppendError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        batch = one_batch(part.records, context.api_version)
        _check_transaction(broker, request, context, partition, batch)
        if request.acks not in (-1, 0, 1):
            raise AppendError(ErrorCode.INVALID_REQUIRED_ACKS)
        if topic.internal and context.client_id != "__admin_client":
            raise AppendError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is written by brokers only")
        return (yield from _appended(broker, request, context, topic, partition, batch))
    except AppendError as refused:
        response = _refused(part.index, refused.code, refused.message if isinstance(refused, Unverified) else None)
        if refused.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition is not None and context.api_version >= 10:
            leader = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
            response = replace(response, current_leader=leader)
        return response


def _appended(
    broker: "Broker",
    request: ProduceRequest,
    context: Context,
    topic: TopicState,
    partition: PartitionState,
    batch: bytes,
) -> Work[PartitionProduceResponse]:
    cluster = broker.cluster
    if partition.leader != broker.id:
        raise AppendError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    config_value = partial(cluster.broker_configs.of_topic, config=topic.config, broker=broker.id)
    if request.acks == -1 and len(partition.in_sync) < int(config_value("min.insync.replicas")):
        raise AppendError(ErrorCode.NOT_ENOUGH_REPLICAS)
    try:
        most_bytes = partition.log.config.max_message_bytes
        facts = check_batch(batch, most_bytes)
        policy = TopicPolicy(
            name=f"{partition.topic}-{partition.index}",
            compression=config_value("compression.type"),
            compacted="compact" in config_value("cleanup.policy"),
            append_time=config_value("message.timestamp.type") == "LogAppendTime",
            before_max_ms=int(config_value("message.timestamp.before.max.ms")),
            after_max_ms=int(config_value("message.timestamp.after.max.ms")),
        )
        validate = partial(validated, batch, policy, context.now_ms)
        checked: tuple[bytes, int] | None = None
        compression = HEADER.unpack_from(batch)[5] & COMPRESSION_MASK
        if facts.count <= _MANY_RECORDS and len(batch) <= (
            _LARGE_COMPRESSED_BYTES if compression else _LARGE_BATCH_BYTES
        ):
            with suppress(TooLargeError):
                checked = validate(_LARGE_BATCH_BYTES)
        if checked is None:
            checked = yield ThreadCall(validate)
            # The leader or the transaction may have changed while the thread ran.
            if partition.leader != broker.id or not cluster.state.has(partition):
                raise AppendError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            _check_transaction(broker, request, context, partition, batch)
        stored_batch, latest_ms = checked
        if stored_batch is not batch:
            if len(stored_batch) > most_bytes:
                message = (
                    f"{len(stored_batch)} bytes with the topic's compression type; at most {most_bytes} are allowed"
                )
                raise AppendError(ErrorCode.MESSAGE_TOO_LARGE, message)
            facts = BatchFacts.of(stored_batch)
        facts.max_timestamp_ms = latest_ms
        stored = partition.log.append(stored_batch, facts, leader_epoch=partition.leader_epoch, now_ms=context.now_ms)
    except InvalidRecords as refused:
        return replace(
            _refused(partition.index, refused.code, refused.message),
            log_start_offset=partition.log.start_offset,
            record_errors=(
                yield from map_in_turns(
                    refused.records,
                    lambda one: BatchIndexAndErrorMessage(batch_index=one[0], batch_index_error_message=one[1]),
                )
            ),
        )
    except AppendError as refused:
        # For an intact batch that the log rejects, Kafka returns the log start offset (KIP-467).
        damaged = refused.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)
        return replace(
            _refused(partition.index, refused.code),
            log_start_offset=-1 if damaged else partition.log.start_offset,
        )
    return PartitionProduceResponse(
        index=partition.index,
        base_offset=stored.base_offset,
        log_append_time_ms=stored.timestamp_ms,
        log_start_offset=partition.log.start_offset,
    )


def _check_transaction(
    broker: "Broker", request: ProduceRequest, context: Context, partition: PartitionState, batch: bytes
) -> None:
    """Check that a transactional batch belongs to an open transaction with its partition.

    Since version 12 the broker adds the partition (KIP-890). Raises `AppendError`.
    """
    fields = HEADER.unpack_from(batch)
    attributes, producer_id, epoch, sequence = fields[5], *fields[9:12]
    if not attributes & TRANSACTIONAL or producer_id < 0 or request.transactional_id is None:
        return
    transactions = broker.cluster.transactions
    adds = context.api_version >= _ADDS_PARTITIONS
    where = (partition.topic, partition.index)
    if partition.leader == broker.id:
        partition.log.producers.begin_verification(producer_id, epoch, sequence, adds=adds)
    try:
        if adds:
            transactions.add_partitions(request.transactional_id, producer_id, epoch, [where])
        else:
            transactions.check_open(request.transactional_id, producer_id, epoch, where)
    except ApiError as refusal:
        raise _unverified(refusal.code, context.api_version) from None


class Unverified(AppendError):
    """The partition of a transactional batch is not in the transaction.

    Kafka returns the message to the producer.
    """


def _unverified(code: ErrorCode, version: int) -> AppendError:
    known = _compatible_error(code, version)
    if known is ErrorCode.INVALID_TXN_STATE:
        return Unverified(known, "Partition was not added to the transaction")
    if known is ErrorCode.NOT_ENOUGH_REPLICAS:
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return Unverified(known, text)
    return AppendError(known)


def _compatible_error(code: ErrorCode, version: int) -> ErrorCode:
    """Return an error that clients of a version know.

    TRANSACTION_ABORTABLE is new in 11 (KIP-890). As in Kafka, producers retry while the
    transaction's coordinator is loading or moving.
    """
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if version < 11:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.CONCURRENT_TRANSACTIONS if version < 12:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS | ErrorCode.NOT_COORDINATOR:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        case _:
            return code

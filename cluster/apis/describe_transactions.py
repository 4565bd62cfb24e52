"""DescribeProducers v0, DescribeTransactions v0, ListTransactions v0–2 (KIP-664).

ListTransactions filters by state and producer, since version 1 by duration (KIP-994), and since
version 2 by a regex of transactional ids (KIP-1152).
"""

from functools import partial
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.topics import is_valid_name, name_problem
from quorate.cluster.turns import Work, map_in_turns
from quorate.codecs.api.broker import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from quorate.codecs.api.broker.describe_producers import PartitionResponse, ProducerState, TopicResponse
from quorate.codecs.api.broker.describe_transactions import TopicData
from quorate.codecs.api.broker.describe_transactions import TransactionState as DescribedTransaction
from quorate.codecs.api.broker.list_transactions import TransactionState as ListedTransaction
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.consumer.patterns import PatternError, compiled
from quorate.coordinator.errors import ApiError
from quorate.coordinator.transactions.records import STATUS_NAMES, Status, Transaction

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []


def describe_producers(
    broker: "Broker", request: DescribeProducersRequest, context: Context
) -> Work[DescribeProducersResponse]:
    """Return the state of each partition's active producers."""
    topics = []
    for topic in request.topics:
        partitions = yield from map_in_turns(topic.partition_indexes, partial(_producers, broker, topic.name))
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
        yield None
    return DescribeProducersResponse(topics=tuple(topics))


def _producers(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    if not is_valid_name(topic):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return PartitionResponse(partition_index=index, error_code=code, error_message=name_problem(topic))
    partition = broker.cluster.state.partition(topic, index)
    if partition is None or broker.id not in partition.replicas:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else ErrorCode.NOT_LEADER_OR_FOLLOWER
        message = None if topic in broker.cluster.topics else code.text
        return PartitionResponse(partition_index=index, error_code=code, error_message=message)
    return PartitionResponse(
        partition_index=index,
        active_producers=tuple(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.last_timestamp_ms,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=-1 if one.transaction_start is None else one.transaction_start,
            )
            for producer_id, one in sorted(partition.log.producers.by_id.items())
        ),
    )


def describe_transactions(
    broker: "Broker", request: DescribeTransactionsRequest, context: Context
) -> Work[DescribeTransactionsResponse]:
    """Return the state of each transactional id that this broker coordinates."""
    found = yield from map_in_turns(request.transactional_ids, partial(_described, broker))
    return DescribeTransactionsResponse(transaction_states=found)


def _described(broker: "Broker", transactional_id: str) -> DescribedTransaction:
    transactions = broker.cluster.transactions
    error = ErrorCode.NONE
    found = None
    try:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        transactions.check_coordinator(broker.id, transactional_id)
        found = transactions.find(transactional_id)
    except ApiError as refusal:
        error = refusal.code
    if error or found is None:
        return DescribedTransaction(
            error_code=error or ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id
        )
    topics: dict[str, list[int]] = {}
    for topic, index in found.partitions:
        topics.setdefault(topic, []).append(index)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=STATUS_NAMES[found.status],
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=tuple(TopicData(topic=topic, partitions=tuple(sorted(ids))) for topic, ids in topics.items()),
    )


def list_transactions(
    broker: "Broker", request: ListTransactionsRequest, context: Context
) -> Work[ListTransactionsResponse]:
    """Return the transactional ids that this broker coordinates and that match the filters."""
    by_name = {name: status for status, name in STATUS_NAMES.items()}
    wanted = {by_name[state_filter] for state_filter in request.state_filters if state_filter in by_name}
    producers = frozenset(request.producer_id_filters)
    try:
        pattern = compiled(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)

    def is_wanted(one: Transaction) -> bool:
        return (
            one.status is not Status.DEAD
            and (not producers or one.producer_id in producers)
            and (not request.state_filters or one.status in wanted)
            and (request.duration_filter < 0 or context.now_ms - one.start_ms > request.duration_filter)
            and (pattern is None or pattern.matches(one.transactional_id))
        )

    try:
        candidates = broker.cluster.transactions.coordinated_by(broker.id)
    except ApiError as error:
        return ListTransactionsResponse(error_code=error.code)
    listed = []
    for one in candidates:
        if is_wanted(one):
            state = STATUS_NAMES[one.status]
            listed.append(
                ListedTransaction(
                    transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=state
                )
            )
        yield None
    return ListTransactionsResponse(
        unknown_state_filters=tuple(
            dict.fromkeys(state_filter for state_filter in request.state_filters if state_filter not in by_name)
        ),
        transaction_states=tuple(listed),
    )

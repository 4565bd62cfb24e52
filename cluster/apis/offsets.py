"""OffsetCommit v2–10, TxnOffsetCommit v0–5, OffsetDelete v0, OffsetFetch v1–10: offsets of groups (KIP-98, KIP-447, KIP-496, KIP-709, KIP-848).

The broker knows which partitions there are: offsets of others are refused here, and never reach the
coordinator. Since TxnOffsetCommit v5 the offsets' partition is added to the transaction by the
broker (KIP-890).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from quorate.cluster.apis import Context
from quorate.cluster.turns import Work, each
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_commit import OffsetCommitResponsePartition, OffsetCommitResponseTopic
from quorate.codecs.api.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestTopic, OffsetFetchRequestTopics
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

T = TypeVar("T", OffsetFetchRequestTopic, OffsetFetchRequestTopics)

_SEVERAL_GROUPS = 8
_BY_TOPIC_ID = 10
_ADDS_PARTITIONS = 5
_PARTITIONS_AT_ONCE = 200
"""Partitions whose offsets are looked up without others having their turn."""
_TRIES = 3
"""How often offsets are looked up in turns if some are committed meanwhile; then at once."""

RefusedPartitions = dict[Any, list[tuple[int, ErrorCode]]]
"""What is refused: name (or id) of a topic → partitions and why, as often as they were named."""
Answer = Message | Pending[Any]


@dataclass(frozen=True, slots=True)
class _Form:
    """How a response tells of partitions: its classes of topics and partitions, and the field with a topic's name, or id."""

    topic: Callable[..., Any]
    partition: Callable[..., Any]
    key: str = "name"

    def topics(self, refused: RefusedPartitions) -> tuple[Any, ...]:
        """The topics of a response that says what is refused."""
        return tuple(
            self.topic(
                **{self.key: key},
                partitions=tuple(self.partition(partition_index=index, error_code=code) for index, code in parts),
            )
            for key, parts in refused.items()
        )


def offset_commit(broker: "Broker", request: OffsetCommitRequest, context: Context) -> Work[Answer]:
    """Commit the offsets of partitions that there are."""
    if context.api_version >= _BY_TOPIC_ID:
        by_id = broker.cluster.topics_by_id
        named = [replace(one, name=by_id[one.topic_id].name) for one in request.topics if one.topic_id in by_id]
        ids = {one.name: one.topic_id for one in named}  # a topic may be deleted between turns
        unnamed: RefusedPartitions = {
            one.topic_id: [(part.partition_index, ErrorCode.UNKNOWN_TOPIC_ID) for part in one.partitions]
            for one in request.topics
            if one.topic_id not in by_id
        }
        known, refused = yield from _sorted_out(broker, tuple(named))
        refused = {ids[name]: parts for name, parts in refused.items()} | unnamed
    else:
        known, refused = yield from _sorted_out(broker, request.topics)
    form = _Form(
        OffsetCommitResponseTopic,
        OffsetCommitResponsePartition,
        "topic_id" if context.api_version >= _BY_TOPIC_ID else "name",
    )
    if not known:
        return OffsetCommitResponse(topics=form.topics(refused))
    answer = broker.cluster.groups.request(broker.id, request.group_id, replace(request, topics=known), context)
    return _merged(answer, refused, form) if refused else answer


def txn_offset_commit(broker: "Broker", request: TxnOffsetCommitRequest, context: Context) -> Work[Answer]:
    """Commit offsets as part of a transaction."""
    cluster = broker.cluster
    known, refused = yield from _sorted_out(broker, request.topics)
    form = _Form(TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)
    if not known:
        return TxnOffsetCommitResponse(topics=form.topics(refused))
    if not request.group_id:
        nameless = cluster.groups.failed(replace(request, topics=known), context, ErrorCode.INVALID_GROUP_ID)
        return _merged(nameless, refused, form)
    partition = cluster.groups.partition_for(request.group_id)
    where = (CONSUMER_OFFSETS, -1 if partition is None else partition.index)
    answer: Answer
    try:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if context.api_version >= _ADDS_PARTITIONS:
            cluster.transactions.add(request.transactional_id, request.producer_id, request.producer_epoch, [where])
        else:
            cluster.transactions.check_open(
                request.transactional_id, request.producer_id, request.producer_epoch, where
            )
        answer = cluster.groups.request(broker.id, request.group_id, replace(request, topics=known), context)
    except ApiError as refusal:
        if not cluster.broker_configs.behaviour.transaction_first and where[1] in cluster.groups.runtimes():
            # That coordinator has the group before it asks for the transaction.
            cluster.groups.runtimes()[where[1]].shard.state.need_group(request.group_id)
        told = _told(refusal.code, context.api_version)
        parts = ({one.name: [(part.partition_index, told) for part in one.partitions]} for one in known)
        answer = TxnOffsetCommitResponse(topics=tuple(topic for one in parts for topic in form.topics(one)))
    return _merged(answer, refused, form) if refused else answer


def offset_delete(broker: "Broker", request: OffsetDeleteRequest, context: Context) -> Work[Answer]:
    """Forget the offsets of partitions that there are."""
    known, refused = yield from _sorted_out(broker, request.topics)
    form = _Form(OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)
    answer = broker.cluster.groups.request(broker.id, request.group_id, replace(request, topics=known), context)
    return _merged(answer, refused, form) if refused else answer


def offset_fetch(broker: "Broker", request: OffsetFetchRequest, context: Context) -> Work[Answer]:
    """Up to version 7 about one group, then about several (KIP-709).

    Brokers before 4.0 tell nothing of topics of which nothing is asked.
    """
    if not broker.cluster.broker_configs.behaviour.skips_empty_topics:
        request = replace(
            request,
            topics=_with_partitions(request.topics),
            groups=tuple(replace(one, topics=_with_partitions(one.topics)) for one in request.groups),
        )
    if context.api_version >= _SEVERAL_GROUPS:
        if context.large and any(one.topics for one in request.groups):
            groups: list[Any] = []
            for one in request.groups:
                part = replace(request, groups=(one,))
                some: Work[Any] = (
                    _fetched(broker, part, one, context)
                    if one.topics
                    else broker.cluster.groups.request_many(broker.id, part, context)
                )
                groups += (yield from some).groups
            return OffsetFetchResponse(groups=tuple(groups))
        return (yield from broker.cluster.groups.request_many(broker.id, request, context))
    if context.large and request.topics:
        return (yield from _fetched(broker, request, request, context))
    return broker.cluster.groups.request(broker.id, request.group_id, request, context)


def _fetched(broker: "Broker", request: OffsetFetchRequest, group: Any, context: Context) -> Work[OffsetFetchResponse]:
    """The offsets of one group in turns, all as of the same moment.

    `group`: what the request says of it.
    """
    cluster, group_id = broker.cluster, group.group_id
    several = context.api_version >= _SEVERAL_GROUPS

    def ask(topics: Iterable[Any]) -> tuple[OffsetFetchResponse, Any]:
        some = replace(group, topics=tuple(topics))
        answer: Any = cluster.groups.request(
            broker.id, group_id, replace(request, groups=(some,)) if several else some, context
        )
        response: Any = answer.response if isinstance(answer, Pending) else answer
        return response, response.groups[0] if several else response

    def moment() -> object:
        """What is another one once something was written, or a topic changed."""
        partition = cluster.groups.partition_for(group_id)
        return partition and (id(partition), partition.leader_epoch, partition.log.next_offset, cluster.image.version)

    for _ in range(_TRIES):
        began = moment()
        found: list[tuple[Any, list[Any]]] = []
        unknown: list[tuple[Any, list[Any]]] = []  # ids of topics that do not exist come last
        for continues, topics in _in_pieces(group.topics):
            response, answered = ask(topics)
            if answered.error_code:
                return response
            for number, topic in enumerate(answered.topics):
                among = found if topic.name or context.api_version < _BY_TOPIC_ID else unknown
                if continues and not number and among:
                    among[-1][1].extend(topic.partitions)
                else:
                    among.append((topic, list(topic.partitions)))
            yield None
            if began != moment():
                break
        else:
            whole = yield from each(found + unknown, lambda one: replace(one[0], partitions=tuple(one[1])))
            if several:
                return replace(response, groups=(replace(answered, topics=whole),))
            return replace(response, topics=whole)
    return ask(group.topics)[0]


def _in_pieces(topics: Iterable[Any]) -> Iterator[tuple[bool, list[Any]]]:
    """The topics of a request, a few partitions at a time; whether the first one is a topic that the piece before has begun."""
    piece: list[Any] = []
    size, continues = 0, False
    for topic in topics:
        indexes = topic.partition_indexes
        for first in range(0, max(len(indexes), 1), _PARTITIONS_AT_ONCE):
            some = indexes[first : first + _PARTITIONS_AT_ONCE]
            if piece and (first or size + len(some) + 1 > _PARTITIONS_AT_ONCE):
                yield continues, piece
                piece, size, continues = [], 0, first > 0
            piece.append(topic if len(some) == len(indexes) else replace(topic, partition_indexes=some))
            size += len(some) + 1
    if piece:
        yield continues, piece


def _with_partitions(topics: tuple[T, ...] | None) -> tuple[T, ...] | None:
    return None if topics is None else tuple(one for one in topics if one.partition_indexes)


def _told(code: ErrorCode, version: int) -> ErrorCode:
    """What clients of a version know to deal with: before version 4 they cannot be told to abort (KIP-890)."""
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if version < 4:
            return ErrorCode.INVALID_TXN_STATE
        case _:
            return code


def _sorted_out(broker: "Broker", topics: tuple[Any, ...]) -> Work[tuple[tuple[Any, ...], RefusedPartitions]]:
    """The topics with partitions that there are, and the partitions that there are not."""
    known = []
    refused: RefusedPartitions = {}
    for topic in topics:
        there = []
        missing = []
        for one in topic.partitions:
            if broker.cluster.state.partition(topic.name, one.partition_index) is not None:
                there.append(one)
            else:
                missing.append((one.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            yield None
        if missing or topic.name not in broker.cluster.topics:
            refused.setdefault(topic.name, []).extend(missing)
        if there:
            known.append(topic if not missing else replace(topic, partitions=tuple(there)))
        yield None
    return tuple(known), refused


def _merged(answer: Answer, refused: RefusedPartitions, form: _Form) -> Answer:
    """What the coordinator said, and what it was not asked."""

    def merge(response: Any) -> Any:
        if getattr(response, "error_code", 0):
            return response  # the whole request failed
        topics = dict(zip(refused, form.topics(refused), strict=True))
        for one in response.topics:
            key = getattr(one, form.key)
            before = topics.get(key)
            topics[key] = one if before is None else replace(one, partitions=before.partitions + one.partitions)
        return replace(response, topics=tuple(topics.values()))

    if not isinstance(answer, Pending):
        merged: Message = merge(answer)
        return merged
    pending: Pending[Any] = Pending()
    answer.on_complete(lambda response: pending.complete(merge(response)))
    return pending

"""OffsetCommit v2–10, TxnOffsetCommit v0–6, OffsetDelete v0, OffsetFetch v1–10: offsets of groups.

See KIP-98, KIP-447, KIP-496, KIP-709 and KIP-848. Offsets of partitions that do not exist are
rejected here and do not reach the coordinator. Since TxnOffsetCommit v5 the broker adds the
offsets' partition to the transaction (KIP-890).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from quorate.cluster.apis import Context
from quorate.cluster.turns import Work, map_in_turns
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
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

T = TypeVar("T", OffsetFetchRequestTopic, OffsetFetchRequestTopics)

_SEVERAL_GROUPS = 8
_BY_TOPIC_ID = 10
_TRANSACTION_BY_TOPIC_ID = 6
_ADDS_PARTITIONS = 5
_PARTITIONS_AT_ONCE = 200
"""Partitions whose offsets are looked up in one turn, or whose commit is built without turns."""
_TRIES = 3
"""Attempts to look up offsets in turns while others are committed; the last one is in one turn."""

RefusedPartitions = dict[Any, list[tuple[int, ErrorCode]]]
"""Topic name or id → rejected partitions with their errors, repeated as in the request."""
Response = Message | Pending[Any]


@dataclass(frozen=True, slots=True)
class _ResponseTypes:
    """Classes of a response's topics and partitions, and the field of the topic's name or id."""

    topic: Callable[..., Any]
    partition: Callable[..., Any]
    key: str = "name"

    def topics(self, refused: RefusedPartitions) -> tuple[Any, ...]:
        """Return the topics of a response for rejected partitions."""
        return tuple(
            self.topic(
                **{self.key: key},
                partitions=tuple(self.partition(partition_index=index, error_code=code) for index, code in parts),
            )
            for key, parts in refused.items()
        )


def offset_commit(broker: "Broker", request: OffsetCommitRequest, context: Context) -> Work[Response]:
    """Commit the offsets of partitions that exist."""
    by_id = context.api_version >= _BY_TOPIC_ID
    known, refused = yield from _known_topics(broker, request.topics, by_id=by_id)
    types = _ResponseTypes(OffsetCommitResponseTopic, OffsetCommitResponsePartition, "topic_id" if by_id else "name")
    if not known:
        return OffsetCommitResponse(topics=types.topics(refused))
    existing = replace(request, topics=known)
    yield from _prepare(broker, existing, context)
    response = broker.cluster.groups.request(broker.id, request.group_id, existing, context)
    return _merged(response, refused, types) if refused else response


def _known_topics(
    broker: "Broker", topics: tuple[Any, ...], *, by_id: bool
) -> Work[tuple[tuple[Any, ...], RefusedPartitions]]:
    """Return the topics with the partitions that exist, and the partitions that do not.

    With `by_id`, the topics have ids: those that exist get names, and `RefusedPartitions` has ids.
    """
    if not by_id:
        return (yield from _split_existing(broker, topics))
    found = broker.cluster.topics_by_id
    named = [replace(topic, name=found[topic.topic_id].name) for topic in topics if topic.topic_id in found]
    ids = {one.name: one.topic_id for one in named}  # a topic may be deleted between turns
    unnamed: RefusedPartitions = {
        topic.topic_id: [(part.partition_index, ErrorCode.UNKNOWN_TOPIC_ID) for part in topic.partitions]
        for topic in topics
        if topic.topic_id not in found
    }
    known, refused = yield from _split_existing(broker, tuple(named))
    return known, {ids[name]: parts for name, parts in refused.items()} | unnamed


def _prepare(broker: "Broker", request: OffsetCommitRequest | TxnOffsetCommitRequest, context: Context) -> Work[None]:
    """Build what a large commit writes, in turns."""
    if sum(len(topic.partitions) for topic in request.topics) <= _PARTITIONS_AT_ONCE:
        return
    for _ in range(_TRIES):  # the metadata may change between turns
        image = broker.cluster.image
        context.prepared = yield from broker.cluster.groups.prepare_commit(request, context)
        if broker.cluster.image is image:
            break


def txn_offset_commit(broker: "Broker", request: TxnOffsetCommitRequest, context: Context) -> Work[Response]:
    """Commit offsets as part of a transaction."""
    cluster = broker.cluster
    by_id = context.api_version >= _TRANSACTION_BY_TOPIC_ID
    known, refused = yield from _known_topics(broker, request.topics, by_id=by_id)
    types = _ResponseTypes(
        TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition, "topic_id" if by_id else "name"
    )
    if not known:
        return TxnOffsetCommitResponse(topics=types.topics(refused))
    existing = replace(request, topics=known)
    if not request.group_id:
        invalid = cluster.groups.failed(existing, context, ErrorCode.INVALID_GROUP_ID)
        return _merged(invalid, refused, types)
    yield from _prepare(broker, existing, context)
    partition = cluster.groups.partition_for(request.group_id)
    where = (CONSUMER_OFFSETS, -1 if partition is None else partition.index)
    response: Response
    try:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if context.api_version >= _ADDS_PARTITIONS:
            cluster.transactions.add_partitions(
                request.transactional_id, request.producer_id, request.producer_epoch, [where]
            )
        else:
            cluster.transactions.check_open(
                request.transactional_id, request.producer_id, request.producer_epoch, where
            )
        response = cluster.groups.request(broker.id, request.group_id, existing, context)
    except ApiError as refusal:
        if not cluster.broker_configs.behaviour.transaction_first and where[1] in cluster.groups.runtimes():
            # The coordinator of that release creates the group before it checks the transaction.
            cluster.groups.runtimes()[where[1]].shard.state.need_group(request.group_id)
        code = _compatible_error(refusal.code, context.api_version)
        parts = ({getattr(one, types.key): [(part.partition_index, code) for part in one.partitions]} for one in known)
        response = TxnOffsetCommitResponse(topics=tuple(topic for one in parts for topic in types.topics(one)))
    return _merged(response, refused, types) if refused else response


def offset_delete(broker: "Broker", request: OffsetDeleteRequest, context: Context) -> Work[Response]:
    """Delete the offsets of partitions that exist."""
    known, refused = yield from _split_existing(broker, request.topics)
    types = _ResponseTypes(OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)
    response = broker.cluster.groups.request(broker.id, request.group_id, replace(request, topics=known), context)
    return _merged(response, refused, types) if refused else response


def offset_fetch(broker: "Broker", request: OffsetFetchRequest, context: Context) -> Work[Response]:
    """Return offsets of one group, or of several since version 8 (KIP-709).

    Releases before 4.0 omit topics without requested partitions.
    """
    if not broker.cluster.broker_configs.behaviour.skips_empty_topics:
        request = replace(
            request,
            topics=_with_partitions(request.topics),
            groups=tuple(replace(group, topics=_with_partitions(group.topics)) for group in request.groups),
        )
    if context.api_version >= _SEVERAL_GROUPS:
        if context.large and any(group.topics for group in request.groups):
            groups: list[Any] = []
            for group in request.groups:
                part = replace(request, groups=(group,))
                some: Work[Any] = (
                    _fetched_group(broker, part, group, context)
                    if group.topics
                    else broker.cluster.groups.request_many(broker.id, part, context)
                )
                groups += (yield from some).groups
            return OffsetFetchResponse(groups=tuple(groups))
        return (yield from broker.cluster.groups.request_many(broker.id, request, context))
    if context.large and request.topics:
        return (yield from _fetched_group(broker, request, request, context))
    return broker.cluster.groups.request(broker.id, request.group_id, request, context)


def _fetched_group(
    broker: "Broker", request: OffsetFetchRequest, group: Any, context: Context
) -> Work[OffsetFetchResponse]:
    """Look up the offsets of one group in turns, all as of the same moment.

    `group`: the group's part of the request.
    """
    cluster, group_id = broker.cluster, group.group_id
    several = context.api_version >= _SEVERAL_GROUPS

    def look_up(topics: Iterable[Any]) -> tuple[OffsetFetchResponse, Any]:
        some = replace(group, topics=tuple(topics))
        result: Any = cluster.groups.request(
            broker.id, group_id, replace(request, groups=(some,)) if several else some, context
        )
        response: Any = result.response if isinstance(result, Pending) else result
        return response, response.groups[0] if several else response

    def moment() -> object:
        """Return a value that changes with each write to the partition and each topic change."""
        partition = cluster.groups.partition_for(group_id)
        return partition and (id(partition), partition.leader_epoch, partition.log.next_offset, cluster.image.version)

    for _ in range(_TRIES):
        began = moment()
        found: list[tuple[Any, list[Any]]] = []
        unknown: list[tuple[Any, list[Any]]] = []  # ids of topics that do not exist come last
        for continues, topics in _in_pieces(group.topics):
            response, found_group = look_up(topics)
            if found_group.error_code:
                return response
            for number, topic in enumerate(found_group.topics):
                among = found if topic.name or context.api_version < _BY_TOPIC_ID else unknown
                if continues and not number and among:
                    among[-1][1].extend(topic.partitions)
                else:
                    among.append((topic, list(topic.partitions)))
            yield None
            if began != moment():
                break
        else:
            whole = yield from map_in_turns(found + unknown, lambda one: replace(one[0], partitions=tuple(one[1])))
            if several:
                return replace(response, groups=(replace(found_group, topics=whole),))
            return replace(response, topics=whole)
    return look_up(group.topics)[0]


def _in_pieces(topics: Iterable[Any]) -> Iterator[tuple[bool, list[Any]]]:
    """Yield the topics of a request, a few partitions at a time.

    The flag says whether the first topic of the piece continues the last one of the piece before.
    """
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
    return None if topics is None else tuple(topic for topic in topics if topic.partition_indexes)


def _compatible_error(code: ErrorCode, version: int) -> ErrorCode:
    """Return an error that clients of a version know.

    TRANSACTION_ABORTABLE is new in 4 (KIP-890).
    """
    match code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if version < 4:
            return ErrorCode.INVALID_TXN_STATE
        case _:
            return code


def _split_existing(broker: "Broker", topics: tuple[Any, ...]) -> Work[tuple[tuple[Any, ...], RefusedPartitions]]:
    """Return the topics with the partitions that exist, and the partitions that do not."""
    known = []
    refused: RefusedPartitions = {}
    for topic in topics:
        existing = []
        missing = []
        for partition in topic.partitions:
            if broker.cluster.state.partition(topic.name, partition.partition_index) is not None:
                existing.append(partition)
            else:
                missing.append((partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            yield None
        if missing or topic.name not in broker.cluster.topics:
            refused.setdefault(topic.name, []).extend(missing)
        if existing:
            known.append(topic if not missing else replace(topic, partitions=tuple(existing)))
        yield None
    return tuple(known), refused


def _merged(response: Response, refused: RefusedPartitions, types: _ResponseTypes) -> Response:
    """Return the coordinator's response, with the rejected partitions added."""

    def merge(response: Any) -> Any:
        if getattr(response, "error_code", 0):
            return response  # the whole request failed
        topics = dict(zip(refused, types.topics(refused), strict=True))
        for topic in response.topics:
            key = getattr(topic, types.key)
            before = topics.get(key)
            topics[key] = topic if before is None else replace(topic, partitions=before.partitions + topic.partitions)
        return replace(response, topics=tuple(topics.values()))

    if not isinstance(response, Pending):
        merged: Message = merge(response)
        return merged
    pending: Pending[Any] = Pending()
    response.on_complete(lambda response: pending.complete(merge(response)))
    return pending

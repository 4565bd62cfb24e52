"""OffsetCommit v2–10 and TxnOffsetCommit v0–6."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.api import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from quorate.codecs.api.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from quorate.codecs.api.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message
from quorate.codecs.message_methods import positional
from quorate.coordinator.classic.heartbeat import keep_session
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.log import EncodedRecords
from quorate.coordinator.offsets.member import TRANSACTION_MEMBER_EPOCHS, OlderEpoch, check_commit
from quorate.coordinator.records import offset_commit
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state import CoordinatorGroup

BY_TOPIC_ID = 10
"""First version of OffsetCommit and OffsetFetch that identifies topics by id."""
TRANSACTION_BY_TOPIC_ID = 6
"""The same for TxnOffsetCommit (KIP-1319)."""

Topics = Sequence[Any]
"""Topics of a request."""
Committed = Sequence[Any]
"""Topics of a response."""


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic of a request with its name and id. The id is zero if the topic does not exist."""

    name: str
    topic_id: Uuid
    partitions: Sequence[Any]


_topic = positional(_Topic, "name", "topic_id", "partitions")
_result = positional(Result, "records", "response")
_NONE = ErrorCode.NONE  # the attribute of the enum takes 0.07 µs in Python 3.11


@dataclass(frozen=True)
class _Api:
    """The classes of a response, and the first version with topic ids."""

    response: type[Message]
    topic: type[Message]
    partition: type[Message]
    by_topic_id: int

    @cached_property
    def makers(self) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
        """Functions that create a response, a topic and a partition in it."""
        return (
            positional(self.response, "topics"),
            positional(self.topic, "name", "topic_id", "partitions"),
            positional(self.partition, "partition_index", "error_code"),
        )

    def failed(self, topic: Any, code: ErrorCode) -> Any:
        """Return an error for each partition of a request's topic."""
        _, make_topic, make_partition = self.makers
        parts = tuple(make_partition(part.partition_index, code) for part in topic.partitions)
        return make_topic(topic.name, topic.topic_id, parts)

    def merged(self, unknown: Mapping[Uuid, Any], others: Iterable[Any]) -> Any:
        """Return the response, with unknown topic ids first.

        Repeated topics are merged only then, as in Kafka (`OffsetCommitResponse.Builder`).
        """
        make_response = self.makers[0]
        if not unknown:
            return make_response(tuple(others))
        merged = dict(unknown)
        for topic in others:
            merged[topic.topic_id] = _with(merged.get(topic.topic_id), topic)
        return make_response(tuple(merged.values()))


_COMMIT = _Api(OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition, BY_TOPIC_ID)
_TRANSACTION = _Api(
    TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition, TRANSACTION_BY_TOPIC_ID
)


def commit_offsets(
    shard: CoordinatorShard, request: OffsetCommitRequest, context: RequestContext
) -> Result[OffsetCommitResponse]:
    """Commit offsets.

    Each partition has its own error, unless the commit is rejected as a whole.
    """
    prepared = _prepared(shard, context)
    topics, unknown = _resolved(_COMMIT, shard.image, request, context) if prepared is None else prepared.resolved
    if unknown and not topics:
        return Result(response=_COMMIT.merged(unknown, ()))
    group = shard.state.groups.get(request.group_id)
    try:
        older = _commit_check(shard, group, request, context.api_version)
        if older is not None:
            for topic in topics:
                for part in topic.partitions:
                    _error_of(shard, older, request.generation_id_or_member_epoch, topic, part)
    except ApiError as error:
        failed = [_COMMIT.failed(topic, error.code) for topic in topics]
        return Result(response=_COMMIT.merged(unknown, failed))
    if group is not None:
        keep_session(shard, group, request.member_id, context.now_ms)
    records, committed = (
        _written(_COMMIT, shard.config, topics, request, context.now_ms) if prepared is None else prepared.written
    )
    result = _result(records, _COMMIT.merged(unknown, committed))
    if not records:
        result.on_appended = partial(shard.state.need_unwritten_group, request.group_id)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommit:
    """Records and response of a large commit, computed before the group is checked.

    `resolved` and `written` are the results of these functions. Valid for one image and one config:
    see `fits`.
    """

    config: CoordinatorConfig
    image: MetadataImage
    resolved: tuple[Topics, Mapping[Uuid, Any]]
    written: tuple[EncodedRecords, Committed]

    def fits(self, shard: CoordinatorShard) -> bool:
        """Return whether the shard has the same metadata and configs."""
        return self.image is shard.image and self.config is shard.config


def _prepared(shard: CoordinatorShard, context: RequestContext) -> PreparedCommit | None:
    """Return what was computed before, if it is still valid."""
    prepared = context.prepared
    return prepared if isinstance(prepared, PreparedCommit) and prepared.fits(shard) else None


def prepare_commit(
    config: CoordinatorConfig,
    image: MetadataImage,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    context: RequestContext,
) -> Generator[None, None, PreparedCommit]:
    """Compute the records and the response of a request in short steps."""
    api = _COMMIT if isinstance(request, OffsetCommitRequest) else _TRANSACTION
    resolved = topics, _ = _resolved(api, image, request, context)
    records, committed = EncodedRecords(), []
    for topic in topics:
        responses: list[Any] = []
        for part in topic.partitions:
            responses += _commit(config, api, request, context.now_ms, topic, (part,), records)
            yield
        committed.append(api.makers[1](topic.name, topic.topic_id, tuple(responses)))
    return PreparedCommit(config=config, image=image, resolved=resolved, written=(records, committed))


def _written(
    api: _Api,
    config: CoordinatorConfig,
    topics: Topics,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    now_ms: int,
) -> tuple[Sequence[CoordinatorRecord], Committed]:
    """Return the records and the topics of the response."""
    make_topic = api.makers[1]
    records: list[CoordinatorRecord] = []
    committed = []
    for topic in topics:
        responses = _commit(config, api, request, now_ms, topic, topic.partitions, records)
        committed.append(make_topic(topic.name, topic.topic_id, tuple(responses)))
    return records, committed


def _resolved(
    api: _Api,
    image: MetadataImage,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    context: RequestContext,
) -> tuple[list[_Topic], dict[Uuid, Any]]:
    """Return the topics with names and ids, and the responses for unknown ids."""
    by_id = context.api_version >= api.by_topic_id
    unknown: dict[Uuid, Any] = {}
    topics: list[_Topic] = []
    for topic in request.topics:
        found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
        if found is not None:
            topics.append(_topic(found.name, found.id, topic.partitions))
        elif not by_id:
            topics.append(_topic(topic.name, Uuid.ZERO, topic.partitions))
        else:
            unknown_topic = api.failed(topic, ErrorCode.UNKNOWN_TOPIC_ID)
            unknown[topic.topic_id] = _with(unknown.get(topic.topic_id), unknown_topic)
    return topics, unknown


def _commit(
    config: CoordinatorConfig,
    api: _Api,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    now_ms: int,
    topic: _Topic,
    partitions: Sequence[Any],
    records: list[CoordinatorRecord],
) -> list[Any]:
    """Add the records of some partitions of a topic; return the response for each partition."""
    topic_id, expire_timestamp_ms = topic.topic_id, -1
    if isinstance(request, OffsetCommitRequest):
        if request.retention_time_ms != -1:
            expire_timestamp_ms = now_ms + request.retention_time_ms
    elif not config.behaviour.transactional_topic_ids:
        topic_id = Uuid.ZERO
    make_partition = api.makers[2]
    responses = []
    for part in partitions:
        text = part.committed_metadata or ""
        code = _metadata_error(config, part) if text else _NONE
        responses.append(make_partition(part.partition_index, code))
        if code is _NONE:
            records.append(
                offset_commit(
                    config,
                    request.group_id,
                    topic.name,
                    part.partition_index,
                    part.committed_offset,
                    part.committed_leader_epoch,
                    text,
                    now_ms,
                    expire_timestamp_ms,
                    topic_id,
                )
            )
    return responses


def _with(first: Any, more: Any) -> Any:
    return more if first is None else replace(first, partitions=first.partitions + more.partitions)


def _commit_check(
    shard: CoordinatorShard, group: CoordinatorGroup | None, request: OffsetCommitRequest, api_version: int
) -> OlderEpoch | None:
    if group is None:
        if request.generation_id_or_member_epoch < 0:
            return None
        new = api_version >= 9 and shard.behaviour.new_coordinator
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND if new else ErrorCode.ILLEGAL_GENERATION, f"unknown group {request.group_id}"
        )
    return check_commit(
        group,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        epoch=request.generation_id_or_member_epoch,
        transactional=False,
        api_version=api_version,
        per_partition=shard.behaviour.assignment_epochs,
    )


def _error_of(
    shard: CoordinatorShard,
    older: OlderEpoch,
    epoch: int,
    topic: Any,
    part: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
) -> ErrorCode:
    """Return the error of one partition of a commit with an older epoch.

    Raises `ApiError` for a partition that was not assigned at that epoch, which rejects the whole
    commit. As in Kafka, the length of the metadata is checked first.
    """
    if code := _metadata_error(shard.config, part):
        return code
    assigned_at = older.assigned_at(topic.name, topic.topic_id, part.partition_index)
    if assigned_at is None or epoch < assigned_at:
        raise ApiError(older.error, f"partition {part.partition_index} was not assigned at epoch {epoch}")
    return ErrorCode.NONE


def _metadata_error(
    config: CoordinatorConfig, part: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
) -> ErrorCode:
    text = part.committed_metadata or ""
    if 2 * len(text) <= config.offset_metadata_max_bytes:
        return _NONE
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2  # Java's chars; at most two for a character
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if units > config.offset_metadata_max_bytes else _NONE


def commit_failed(
    request: OffsetCommitRequest, context: RequestContext, code: ErrorCode, message: str
) -> OffsetCommitResponse:
    """Return the error for each partition."""
    return OffsetCommitResponse(topics=tuple(_COMMIT.failed(topic, code) for topic in request.topics))


def commit_offsets_of_transaction(
    shard: CoordinatorShard, request: TxnOffsetCommitRequest, context: RequestContext
) -> Result[TxnOffsetCommitResponse]:
    """Keep offsets until the producer's transaction ends (KIP-447)."""
    prepared = _prepared(shard, context)
    topics, unknown = _resolved(_TRANSACTION, shard.image, request, context) if prepared is None else prepared.resolved
    if unknown and not topics:
        return Result(response=_TRANSACTION.merged(unknown, ()))
    try:
        _check_transaction(shard, topics, request, context)
    except ApiError as error:
        if not unknown:
            raise
        failed = [_TRANSACTION.failed(topic, error.code) for topic in topics]
        return Result(response=_TRANSACTION.merged(unknown, failed))
    records, committed = (
        _written(_TRANSACTION, shard.config, topics, request, context.now_ms) if prepared is None else prepared.written
    )
    return Result(
        records=records,
        response=_TRANSACTION.merged(unknown, committed),
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        on_appended=None if records else partial(shard.state.need_unwritten_group, request.group_id),
    )


def _check_transaction(
    shard: CoordinatorShard, topics: Topics, request: TxnOffsetCommitRequest, context: RequestContext
) -> None:
    """Raise `ApiError` if the commit is rejected as a whole."""
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    epoch, version = request.generation_id_or_member_epoch, context.api_version
    group = shard.state.groups.get(request.group_id)
    if group is None:
        if epoch < 0:
            return
        known = version >= TRANSACTION_MEMBER_EPOCHS
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION, f"unknown group {request.group_id}"
        )
    older = check_commit(
        group,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        epoch=epoch,
        transactional=True,
        api_version=version,
        per_partition=shard.behaviour.assignment_epochs,
    )
    if older is None:
        return
    for topic in topics:
        if not shard.behaviour.transactional_topic_ids and topic.topic_id == Uuid.ZERO:
            # Kafka does not check the partitions then, not even whether there are any.
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"unknown topic {topic.name}")
        for part in topic.partitions:
            _error_of(shard, older, epoch, topic, part)


def transaction_commit_failed(
    request: TxnOffsetCommitRequest, context: RequestContext, code: ErrorCode, message: str
) -> TxnOffsetCommitResponse:
    """Return the error for each partition."""
    return TxnOffsetCommitResponse(topics=tuple(_TRANSACTION.failed(topic, code) for topic in request.topics))

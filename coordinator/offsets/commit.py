"""OffsetCommit v2–10 and TxnOffsetCommit v0–5."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.api import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from quorate.codecs.api.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from quorate.codecs.api.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from quorate.coordinator.classic.heartbeat import keep_session
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.log import EncodedRecords
from quorate.coordinator.offsets.member import check_commit, stale
from quorate.coordinator.records import offset_commit
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state import ConsumerMember

__all__ = [
    "PreparedCommit",
    "commit_failed",
    "commit_offsets",
    "commit_offsets_of_transaction",
    "prepare_commit",
    "transaction_commit_failed",
]

T = TypeVar("T")

BY_TOPIC_ID = 10
"""First version of OffsetCommit and OffsetFetch that identifies topics by id."""


def commit_offsets(
    shard: CoordinatorShard, request: OffsetCommitRequest, context: RequestContext
) -> Result[OffsetCommitResponse]:
    """Commit offsets.

    Each partition has its own error, unless the commit is rejected as a whole.
    """
    prepared = _prepared(shard, context)
    topics: Sequence[OffsetCommitRequestTopic]
    unknown: Mapping[Uuid, OffsetCommitResponseTopic]
    if prepared is not None:
        topics, unknown = prepared.topics, prepared.unknown
    else:
        topics, unknown = _resolved(shard.image, request, context)
    if unknown and not topics:
        return Result(response=_response(unknown, ()))
    try:
        member = _commit_member(shard, request, context.api_version)
        if member is not None:
            for topic in topics:
                for part in topic.partitions:
                    _error_of(shard, member, request.generation_id_or_member_epoch, topic.topic_id, part)
    except ApiError as error:
        failed = [_all(topic.topic_id, topic.name, topic.partitions, error.code) for topic in topics]
        return Result(response=_response(unknown, failed))
    if (group := shard.state.groups.get(request.group_id)) is not None:
        keep_session(shard, group, request.member_id, context.now_ms)
    records: Sequence[CoordinatorRecord]
    if prepared is not None:
        records, committed = prepared.records, prepared.committed
    else:
        records, committed = _at_once(_committed(shard.config, topics, request, context))
    return Result(
        records=records,
        response=_response(unknown, committed),
        on_appended=partial(shard.state.need_unwritten_group, request.group_id),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommit:
    """Records and response of a large commit, computed before the group is checked.

    `topics` and `unknown` are those of `_resolved`; a transaction's commit needs neither. Valid for
    one image and one config: see `fits`.
    """

    config: CoordinatorConfig
    image: MetadataImage
    topics: Sequence[Any]
    unknown: Mapping[Uuid, OffsetCommitResponseTopic]
    records: EncodedRecords
    committed: Sequence[Any]

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
    topics: Sequence[Any]
    unknown: Mapping[Uuid, OffsetCommitResponseTopic]
    if isinstance(request, OffsetCommitRequest):
        topics, unknown = _resolved(image, request, context)
    else:
        topics, unknown = request.topics, {}
    records, committed = yield from _committed(config, topics, request, context)
    encoded = EncodedRecords()
    for record in records:
        encoded.append(record)
        yield
    return PreparedCommit(
        config=config, image=image, topics=topics, unknown=unknown, records=encoded, committed=committed
    )


def _resolved(
    image: MetadataImage, request: OffsetCommitRequest, context: RequestContext
) -> tuple[list[OffsetCommitRequestTopic], dict[Uuid, OffsetCommitResponseTopic]]:
    """Return the topics with names and ids, and the responses for unknown ids."""
    by_id = context.api_version >= BY_TOPIC_ID
    unknown: dict[Uuid, OffsetCommitResponseTopic] = {}
    topics = []
    for topic in request.topics:
        found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
        if found is not None:
            topics.append(replace(topic, name=found.name, topic_id=found.id))
        elif not by_id:
            topics.append(replace(topic, topic_id=Uuid.ZERO))
        else:
            unknown_topic = _all(topic.topic_id, "", topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID)
            unknown[topic.topic_id] = _with(unknown.get(topic.topic_id), unknown_topic)
    return topics, unknown


def _committed(
    config: CoordinatorConfig,
    topics: Iterable[Any],
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    context: RequestContext,
) -> Generator[None, None, tuple[list[CoordinatorRecord], list[Any]]]:
    """Return the records of a commit and the response for each topic, in short steps.

    As in Kafka, those of transactions have no topic ids.
    """
    records: list[CoordinatorRecord] = []
    committed: list[Any] = []
    partition_type: Callable[..., Any] = OffsetCommitResponsePartition
    expires, has_ids = -1, True
    if isinstance(request, TxnOffsetCommitRequest):
        partition_type, has_ids = TxnOffsetCommitResponsePartition, False
    elif request.retention_time_ms != -1:
        expires = context.now_ms + request.retention_time_ms
    for topic in topics:
        topic_id = topic.topic_id if has_ids else Uuid.ZERO
        partitions = []
        for part in topic.partitions:
            code = _metadata_error(config, part)
            partitions.append(partition_type(partition_index=part.partition_index, error_code=code))
            if code == ErrorCode.NONE:
                records.append(
                    offset_commit(
                        config,
                        group=request.group_id,
                        topic=topic.name,
                        partition=part.partition_index,
                        offset=part.committed_offset,
                        leader_epoch=part.committed_leader_epoch,
                        metadata=part.committed_metadata or "",
                        commit_timestamp_ms=context.now_ms,
                        expire_timestamp_ms=expires,
                        topic_id=topic_id,
                    )
                )
            yield
        if has_ids:
            committed.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic_id, partitions=tuple(partitions))
            )
        else:
            committed.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=tuple(partitions)))
    return records, committed


def _at_once(work: Generator[None, None, T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def _response(
    unknown: Mapping[Uuid, OffsetCommitResponseTopic], others: Iterable[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    """Return the response, with unknown topic ids first.

    Repeated topics are merged only then, as in Kafka (`OffsetCommitResponse.Builder`).
    """
    if not unknown:
        return OffsetCommitResponse(topics=tuple(others))
    merged = dict(unknown)
    for topic in others:
        merged[topic.topic_id] = _with(merged.get(topic.topic_id), topic)
    return OffsetCommitResponse(topics=tuple(merged.values()))


def _with(first: OffsetCommitResponseTopic | None, more: OffsetCommitResponseTopic) -> OffsetCommitResponseTopic:
    return more if first is None else replace(first, partitions=first.partitions + more.partitions)


def _commit_member(shard: CoordinatorShard, request: OffsetCommitRequest, api_version: int) -> ConsumerMember | None:
    group = shard.state.groups.get(request.group_id)
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
    member: ConsumerMember | None,
    epoch: int,
    topic_id: Uuid,
    part: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    *,
    transactional: bool = False,
) -> ErrorCode:
    """Return the error of one partition.

    `member`: given if the request has an older epoch than the member (KIP-1251). Raises `ApiError`
    for a partition that was not assigned at that epoch, which rejects the whole commit. As in
    Kafka, the length of the metadata is checked first.
    """
    if code := _metadata_error(shard.config, part):
        return code
    if member is not None:
        assigned_at = member.assigned.get(topic_id, {}).get(part.partition_index)
        if assigned_at is None:
            assigned_at = member.pending_revocation.get(topic_id, {}).get(part.partition_index)
        if assigned_at is None or epoch < assigned_at:
            raise ApiError(
                stale(member, transactional=transactional),
                f"partition {part.partition_index} was not assigned at epoch {epoch}",
            )
    return ErrorCode.NONE


def _metadata_error(
    config: CoordinatorConfig, part: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
) -> ErrorCode:
    # In UTF-16 units, as Java's chars.
    units = len((part.committed_metadata or "").encode("utf-16-le", "surrogatepass")) // 2
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if units > config.offset_metadata_max_bytes else ErrorCode.NONE


def _all(
    topic_id: Uuid, name: str, partitions: tuple[OffsetCommitRequestPartition, ...], code: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=name,
        topic_id=topic_id,
        partitions=tuple(
            OffsetCommitResponsePartition(
                partition_index=part.partition_index,
                error_code=code,
            )
            for part in partitions
        ),
    )


def commit_failed(
    request: OffsetCommitRequest, context: RequestContext, code: ErrorCode, message: str
) -> OffsetCommitResponse:
    """Return the error for each partition."""
    return OffsetCommitResponse(
        topics=tuple(_all(topic.topic_id, topic.name, topic.partitions, code) for topic in request.topics)
    )


def commit_offsets_of_transaction(
    shard: CoordinatorShard, request: TxnOffsetCommitRequest, context: RequestContext
) -> Result[TxnOffsetCommitResponse]:
    """Keep offsets until the producer's transaction ends (KIP-447)."""
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    group = shard.state.groups.get(request.group_id)
    member = None
    if group is not None:
        member = check_commit(
            group,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            epoch=request.generation_id,
            transactional=True,
            api_version=context.api_version,
            per_partition=shard.behaviour.assignment_epochs,
        )
    elif request.generation_id >= 0:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"unknown group {request.group_id}")
    if member is not None:
        for topic in request.topics:
            image = shard.image.topics.get(topic.name)
            if image is None:
                # Kafka does not check the partitions then, not even whether there are any.
                raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"unknown topic {topic.name}")
            for part in topic.partitions:
                _error_of(shard, member, request.generation_id, image.id, part, transactional=True)
    records: Sequence[CoordinatorRecord]
    if (prepared := _prepared(shard, context)) is not None:
        records, topics = prepared.records, prepared.committed
    else:
        records, topics = _at_once(_committed(shard.config, request.topics, request, context))
    return Result(
        records=records,
        response=TxnOffsetCommitResponse(topics=tuple(topics)),
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        on_appended=partial(shard.state.need_unwritten_group, request.group_id),
    )


def transaction_commit_failed(
    request: TxnOffsetCommitRequest, context: RequestContext, code: ErrorCode, message: str
) -> TxnOffsetCommitResponse:
    """Return the error for each partition."""
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )

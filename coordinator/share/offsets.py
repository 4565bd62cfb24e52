"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932).

Start offsets are part of share state, which the share coordinator has. The group coordinator
records which partitions have state, and reaches it through its persister.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.api import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    InitializeShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    delete_share_group_state,
    read_share_group_state_summary,
)
from quorate.codecs.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from quorate.codecs.api.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from quorate.codecs.api.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateData,
)
from quorate.codecs.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from quorate.coordinator.consumer.owned import grown_map, topics_in_order
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import TopicImage
from quorate.coordinator.results import Pending, RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.share import records as write
from quorate.coordinator.share.initialisation import initialized, initializing_record, state_request, state_written
from quorate.coordinator.share.partitions import deleting_topics, in_map, named, read
from quorate.coordinator.state.share import ShareGroup

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---- describe


def describe_offsets(
    shard: CoordinatorShard, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> Result[DescribeShareGroupOffsetsResponse]:
    """Return the start offsets and lags of groups; as in Kafka, a group need not exist."""
    groups = tuple(_described(shard, group) for group in request.groups)
    return Result(response=DescribeShareGroupOffsetsResponse(groups=groups))


def _described(
    shard: CoordinatorShard, group: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    topics, unknown = _requested(shard, group)
    found: list[DescribeShareGroupOffsetsResponseTopic] = []
    if topics:
        data = tuple(
            read_share_group_state_summary.ReadStateSummaryData(
                topic_id=topic_id,
                partitions=tuple(read_share_group_state_summary.PartitionData(partition=one) for one in partitions),
            )
            for topic_id, (_, partitions) in topics
        )
        pending = shard.persister.persist(ReadShareGroupStateSummaryRequest(group_id=group.group_id, topics=data))
        if pending.response is None:  # share coordinators are moving; the client retries
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE
            )
        if not pending.response.results:
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id,
                error_code=ErrorCode.UNKNOWN_SERVER_ERROR,
                error_message=ErrorCode.UNKNOWN_SERVER_ERROR.text,
            )
        names = {topic_id: name for topic_id, (name, _) in topics}
        for result in pending.response.results:
            name = names[result.topic_id]
            found.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=result.topic_id,
                    partitions=tuple(_offsets(shard, name, one) for one in result.partitions),
                )
            )
    return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=(*found, *unknown))


def _requested(
    shard: CoordinatorShard, group: DescribeShareGroupOffsetsRequestGroup
) -> tuple[list[tuple[Uuid, tuple[str, Sequence[int]]]], list[DescribeShareGroupOffsetsResponseTopic]]:
    """Return the existing topics of a request, and the response's entries for the others.

    Without topics in the request, these are all that have share state.
    """
    if group.topics is None:
        state = shard.state.share_states.get(group.group_id)
        initialized = {} if state is None else read(state.initialized_topics, jdk=shard.config.jdk)
        return [
            (topic_id, (topic.name, tuple(JavaHashSet.of(partitions, jdk=shard.config.jdk))))
            for topic_id, (_, partitions) in initialized.items()
            if (topic := shard.image.topics_by_id.get(topic_id)) is not None
        ], []
    known: list[tuple[Uuid, tuple[str, Sequence[int]]]] = []
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    for requested in group.topics:
        topic = shard.image.topics.get(requested.topic_name)
        if topic is not None:
            known.append((topic.id, (topic.name, requested.partitions)))
            continue
        missing = tuple(
            DescribeShareGroupOffsetsResponsePartition(partition_index=one, start_offset=-1)
            for one in requested.partitions
        )
        unknown.append(DescribeShareGroupOffsetsResponseTopic(topic_name=requested.topic_name, partitions=missing))
    return known, unknown


def _offsets(
    shard: CoordinatorShard, topic: str, state: read_share_group_state_summary.PartitionResult
) -> DescribeShareGroupOffsetsResponsePartition:
    """Return a partition's offsets. As in Kafka, an error of the share coordinator is not shown."""
    if state.error_code:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=state.partition, start_offset=-1)
    lag = -1
    if state.start_offset != -1 and state.delivery_complete_count != -1:
        ends = None if shard.log_offsets is None else shard.log_offsets(topic, state.partition)
        if ends is not None:
            lag = ends[1] - state.start_offset - state.delivery_complete_count
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=state.partition, start_offset=state.start_offset, leader_epoch=state.leader_epoch, lag=lag
    )


# ---- alter


def alter_offsets(
    shard: CoordinatorShard, request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> Result[AlterShareGroupOffsetsResponse]:
    """Set the start offsets of a group without members, which is created if needed.

    The state of the partitions is initialized again, with the group's epoch as state epoch. Raises
    `ApiError`.
    """
    group_id = request.group_id
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.text)
    group = shard.state.groups.get(group_id)
    if group is not None and not isinstance(group, ShareGroup):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if group is not None and group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    epoch = shard.behaviour.first_epoch if group is None else group.epoch

    topics: list[AlterShareGroupOffsetsResponseTopic] = []
    offsets: dict[Uuid, tuple[str, dict[int, int]]] = {}
    for requested in request.topics:
        topic = shard.image.topics.get(requested.topic_name)
        if topic is not None:
            set_to = {one.partition_index: one.start_offset for one in requested.partitions}
            offsets[topic.id] = topic.name, {one: start for one, start in set_to.items() if one < topic.partitions}
        topics.append(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=requested.topic_name,
                topic_id=Uuid.ZERO if topic is None else topic.id,
                partitions=tuple(_altered(one.partition_index, topic) for one in requested.partitions),
            )
        )
    response = AlterShareGroupOffsetsResponse(responses=tuple(topics))
    initializing = in_map({topic_id: (name, grown_map(valid)) for topic_id, (name, valid) in offsets.items()})
    records: list[CoordinatorRecord] = []
    if offsets:
        records.append(initializing_record(shard, group_id, initializing))
    in_order: JavaHashMap[Uuid, dict[int, int]] = JavaHashMap()
    for topic_id, (_, valid) in offsets.items():
        if valid:
            in_order.compute_if_absent(topic_id, partial(dict, valid))
    altered = dict(in_order.items())
    written = partial(state_written, shard, group_id, context.now_ms)
    if not altered:
        return Result(records=records, response=response, on_appended=written if records else None)
    pending: Pending[AlterShareGroupOffsetsResponse] = Pending()

    def then(found: InitializeShareGroupStateResponse, now_ms: int) -> Result[None]:
        if not found.results:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            pending.complete(AlterShareGroupOffsetsResponse(error_code=code, error_message=code.text))
            return Result()
        errors = _errors(found)
        pending.complete(_with_errors(response, errors) if errors else response)
        made = {topic_id: initializing[topic_id] for topic_id in altered}
        return Result() if errors else initialized(shard, group_id, made, now_ms)

    def appended() -> None:
        written()
        to_set = state_request(group_id, epoch, altered)
        shard.after(shard.persister.persist(to_set), "initialize-share-group-state", then)

    return Result(records=records, response=pending, on_appended=appended)


def _altered(partition: int, topic: TopicImage | None) -> AlterShareGroupOffsetsResponsePartition:
    if topic is not None and partition < topic.partitions:  # the share coordinator rejects negative ones
        return AlterShareGroupOffsetsResponsePartition(partition_index=partition)
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=partition, error_code=_UNKNOWN, error_message=_UNKNOWN.text
    )


def _errors(found: Any) -> dict[tuple[Uuid, int], tuple[int, str | None]]:
    """Return the errors in a response of a share coordinator, by topic id and partition."""
    return {
        (topic.topic_id, one.partition): (one.error_code, one.error_message)
        for topic in found.results
        for one in topic.partitions
        if one.error_code
    }


def _with_errors(
    response: AlterShareGroupOffsetsResponse, errors: dict[tuple[Uuid, int], tuple[int, str | None]]
) -> AlterShareGroupOffsetsResponse:
    topics = []
    for topic in response.responses:
        partitions = []
        for one in topic.partitions:
            code, message = errors.get((topic.topic_id, one.partition_index), (0, None))
            if code and not one.error_code:
                one = AlterShareGroupOffsetsResponsePartition(
                    partition_index=one.partition_index, error_code=code, error_message=message
                )
            partitions.append(one)
        topics.append(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=tuple(partitions)
            )
        )
    return AlterShareGroupOffsetsResponse(responses=tuple(topics))


# ---- delete


def delete_offsets(
    shard: CoordinatorShard, request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> Result[DeleteShareGroupOffsetsResponse]:
    """Delete the share state of topics of a group without members. Raises `ApiError`.

    The topics are recorded as being deleted first, so that a request that fails can be repeated.
    """
    group_id, jdk = request.group_id, shard.config.jdk
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_GROUP_ID.text)
    group = shard.group(ShareGroup, group_id)
    if group.members:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    state = shard.state.share_states.get(group_id)
    if state is None:
        return Result(response=DeleteShareGroupOffsetsResponse())
    initialized = dict(read(state.initialized_topics, jdk=jdk))
    deleting = JavaHashSet.of(deleting_topics(state), jdk=jdk)
    errors: list[DeleteShareGroupOffsetsResponseTopic] = []
    deleted: list[DeleteStateData] = []
    for requested in request.topics:
        topic = shard.image.topics.get(requested.topic_name)
        if topic is not None and topic.id in initialized:
            _, numbers = initialized.pop(topic.id)
            deleting.add(topic.id)
            deleted.append(_state_of(topic.id, tuple(JavaHashSet.of(numbers, jdk=jdk))))
        elif topic is not None and topic.id in deleting:
            deleted.append(_state_of(topic.id, range(topic.partitions)))
        else:
            message = _UNKNOWN.text if topic is None else "There is no offset information to delete."
            errors.append(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=requested.topic_name, error_code=_UNKNOWN, error_message=message
                )
            )
    record = write.state_partitions(
        group_id,
        initializing=read(state.initializing_topics, jdk=jdk),
        initialized=initialized,
        deleting=named(deleting, shard.image),
    )
    written = partial(state_written, shard, group_id, context.now_ms)
    if not deleted:
        response = DeleteShareGroupOffsetsResponse(responses=tuple(errors))
        return Result(records=[record], response=response, on_appended=written)
    pending: Pending[DeleteShareGroupOffsetsResponse] = Pending()
    to_delete = DeleteShareGroupStateRequest(group_id=group_id, topics=tuple(deleted))
    then = partial(_state_deleted, shard, group_id, errors, pending)

    def appended() -> None:
        written()
        shard.after(shard.persister.persist(to_delete), "complete-delete-share-group-offsets", then)

    return Result(records=[record], response=pending, on_appended=appended)


def _state_of(topic_id: Uuid, partitions: Sequence[int]) -> DeleteStateData:
    data = tuple(delete_share_group_state.PartitionData(partition=one) for one in partitions)
    return DeleteStateData(topic_id=topic_id, partitions=data)


def _state_deleted(
    shard: CoordinatorShard,
    group_id: str,
    errors: list[DeleteShareGroupOffsetsResponseTopic],
    pending: Pending[DeleteShareGroupOffsetsResponse],
    found: DeleteShareGroupStateResponse,
    now_ms: int,
) -> Result[None]:
    """Record that the state of topics is deleted, and complete the response."""
    if not found.results:
        pending.complete(DeleteShareGroupOffsetsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        return Result()
    succeeded: dict[Uuid, str] = {}
    for result in found.results:
        topic = shard.image.topics_by_id.get(result.topic_id)
        name = "" if topic is None else topic.name
        code = next((one.error_code for one in result.partitions if one.error_code), 0)
        if code:
            errors.append(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=result.topic_id,
                    error_code=code,
                    error_message=ErrorCode(code).text,
                )
            )
        else:
            succeeded[result.topic_id] = name
    state = shard.state.share_states.get(group_id)
    topics = [
        DeleteShareGroupOffsetsResponseTopic(topic_name=succeeded[topic_id], topic_id=topic_id)
        for topic_id in (topics_in_order(succeeded) if state is not None else ())
    ]
    response = DeleteShareGroupOffsetsResponse(responses=(*topics, *errors))
    if state is None or not succeeded:
        pending.complete(response)
        return Result()
    jdk = shard.config.jdk
    deleting = JavaHashSet.of(deleting_topics(state), jdk=jdk)
    for topic_id in succeeded:
        deleting.discard(topic_id)
    record = write.state_partitions(
        group_id,
        initializing=read(state.initializing_topics, jdk=jdk),
        initialized=read(state.initialized_topics, jdk=jdk),
        deleting=named(deleting, shard.image),
    )

    def appended() -> None:
        state_written(shard, group_id, now_ms)
        pending.complete(response)

    return Result(
        records=[record],
        on_appended=appended,
        on_failed=lambda code: pending.complete(DeleteShareGroupOffsetsResponse(error_code=code)),
    )

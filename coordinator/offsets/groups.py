"""DeleteGroups v0–2: deletes an empty group with its offsets."""

from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import DeleteGroupsRequest, DeleteGroupsResponse
from quorate.codecs.api.delete_groups import DeletableGroupResult
from quorate.codecs.api.delete_share_group_state import DeleteShareGroupStateRequest, DeleteStateData, PartitionData
from quorate.codecs.messages.classic_group import GroupMetadataKey
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.offsets.delete import offset_tombstones
from quorate.coordinator.records import tombstone
from quorate.coordinator.results import Pending, RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.share.initialisation import losing_state
from quorate.coordinator.share.partitions import NamedPartitions
from quorate.coordinator.share.records import group_tombstones as share_group_tombstones
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, CoordinatorGroup, ShareGroup, StreamsGroup
from quorate.coordinator.streams.records import group_tombstones as streams_group_tombstones
from quorate.coordinator.streams.target import INITIAL_DELAY_TIMER


def delete_groups(
    shard: CoordinatorShard, request: DeleteGroupsRequest, context: RequestContext
) -> Result[DeleteGroupsResponse]:
    """Delete empty groups. Each has its own error.

    The records of share groups that lose share state are written first. Then the state is deleted;
    a group whose state cannot be deleted now keeps that record, and is not deleted.
    """
    not_deleted: JavaHashMap[str, ErrorCode] = JavaHashMap()
    first: list[CoordinatorRecord] = []
    to_delete: list[DeleteShareGroupStateRequest] = []
    for group_id in dict.fromkeys(request.groups_names):
        group = shard.state.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            continue
        if not group.is_empty:
            not_deleted.put(group_id, ErrorCode.NON_EMPTY_GROUP)
        elif (losing := losing_state(shard, group_id)) is not None:
            first.append(losing[0])
            if losing[1]:
                to_delete.append(_state_request(group_id, losing[1]))
    results: list[DeletableGroupResult] = []

    def rest(now_ms: int) -> Result[DeleteGroupsResponse]:
        for one in to_delete:
            if (error := _delete_state(shard, one)) is not ErrorCode.NONE:
                not_deleted.put(one.group_id, error)
        results[:] = [DeletableGroupResult(group_id=one, error_code=code) for one, code in not_deleted.items()]
        records: list[CoordinatorRecord] = []
        requested = dict.fromkeys(request.groups_names)  # Kafka's order before share groups existed
        for group_id in JavaHashSet.of(requested) if shard.behaviour.share_groups else requested:
            if group_id in not_deleted:
                continue
            group = shard.state.groups.get(group_id)
            code = ErrorCode.NONE
            if group is None:
                code = ErrorCode.GROUP_ID_NOT_FOUND
            elif not group.is_empty:
                code = ErrorCode.NON_EMPTY_GROUP
            else:
                records += offset_tombstones(shard, group_id)
                records += deleted_group(shard, group)
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        response: Pending[DeleteGroupsResponse] = Pending()

        def failed(code: int) -> None:
            results[len(not_deleted) :] = [
                DeletableGroupResult(group_id=result.group_id, error_code=code)
                for result in results[len(not_deleted) :]
            ]
            response.complete(DeleteGroupsResponse(results=tuple(results)))

        return Result(
            records=records,
            response=response,
            on_appended=lambda: response.complete(DeleteGroupsResponse(results=tuple(results))),
            on_failed=failed,
        )

    return Result(records=first, then=rest) if first else rest(context.now_ms)


def _state_request(group_id: str, lost: NamedPartitions) -> DeleteShareGroupStateRequest:
    return DeleteShareGroupStateRequest(
        group_id=group_id,
        topics=tuple(
            DeleteStateData(topic_id=topic_id, partitions=tuple(PartitionData(partition=one) for one in partitions))
            for topic_id, (_, partitions) in lost.items()
        ),
    )


def _delete_state(shard: CoordinatorShard, request: DeleteShareGroupStateRequest) -> ErrorCode:
    """Delete share state; return the error. A client retries while share coordinators move.

    As in Kafka, the error of a request that is refused as a whole is that of each partition.
    """
    found = shard.persister.persist(request).response
    if found is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not found.results and any(topic.partitions for topic in request.topics):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    codes = [next((one.error_code for one in topic.partitions if one.error_code), 0) for topic in found.results]
    return ErrorCode(next((code for code in reversed(codes) if code), 0))


def nothing_deleted(
    request: DeleteGroupsRequest, context: RequestContext, code: ErrorCode, message: str
) -> DeleteGroupsResponse:
    """Return the error for all groups, if the records of share groups cannot be written."""
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id in JavaHashSet.of(request.groups_names)
        )
    )


def deleted_group(shard: CoordinatorShard, group: CoordinatorGroup) -> list[CoordinatorRecord]:
    """Return the tombstones of a group without members, and cancel its timer."""
    if isinstance(group, StreamsGroup):
        shard.timers.cancel(INITIAL_DELAY_TIMER % group.group_id)
    return group_tombstones(group)


def group_tombstones(group: CoordinatorGroup, replaced: tuple[str, str] | None = None) -> list[CoordinatorRecord]:
    """Return the tombstones of a group, in Kafka's order.

    `replaced`: old and new id of a member whose new id is in records that are written before.
    """
    if isinstance(group, ClassicGroup):
        return [tombstone(GroupMetadataKey(group=group.group_id))]
    if isinstance(group, StreamsGroup):
        return streams_group_tombstones(group.group_id)
    if isinstance(group, ShareGroup):
        return share_group_tombstones(group.group_id)
    if not isinstance(group, ConsumerGroup):
        return []
    group_id = group.group_id
    old, new = replaced or ("", "")
    members = [new if member_id == old else member_id for member_id, _ in group.members.ordered()]
    return [
        *(
            tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member))
            for member in members
        ),
        *(tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member)) for member in members),
        tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member)) for member in members),
        *(
            tombstone(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))
            for regex, _ in group.regexes.ordered()
        ),
        tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id)),
        tombstone(ConsumerGroupMetadataKey(group_id=group_id)),
    ]

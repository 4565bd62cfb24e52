"""DeleteGroups v0–2: a group goes with its offsets, if nobody is in it. A share group's state is elsewhere, and so is its deletion."""

from quorate.assignors.java_order import JavaHashSet
from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import DeleteGroupsRequest, DeleteGroupsResponse
from quorate.codecs.api.delete_groups import DeletableGroupResult
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
from quorate.codecs.messages.streams_group import (
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.offsets.delete import offset_tombstones
from quorate.coordinator.records import tombstone
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard, handles
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, Group, StreamsGroup

__all__ = ["delete_groups", "group_tombstones"]


@handles(DeleteGroupsRequest)
def delete_groups(
    shard: CoordinatorShard, request: DeleteGroupsRequest, context: RequestContext
) -> Result[DeleteGroupsResponse]:
    """Delete empty groups; each has an error of its own."""
    records: list[CoordinatorRecord] = []
    results = []
    for group_id in JavaHashSet.of(request.groups_names):
        group = shard.state.groups.get(group_id)
        code = ErrorCode.NONE
        if not isinstance(group, ClassicGroup | ConsumerGroup | StreamsGroup):
            code = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            code = ErrorCode.NON_EMPTY_GROUP
        else:
            records += offset_tombstones(shard, group_id)
            records += group_tombstones(group)
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return Result(records=records, response=DeleteGroupsResponse(results=tuple(results)))


def group_tombstones(group: Group) -> list[CoordinatorRecord]:
    """Everything that deletes an empty group, in Kafka's order: what is left of its members, what it has, the group itself."""
    if isinstance(group, ClassicGroup):
        return [tombstone(GroupMetadataKey(group=group.group_id))]
    if isinstance(group, StreamsGroup):
        return [
            tombstone(StreamsGroupTargetAssignmentMetadataKey(group_id=group.group_id)),
            tombstone(StreamsGroupMetadataKey(group_id=group.group_id)),
            tombstone(StreamsGroupTopologyKey(group_id=group.group_id)),
        ]
    if not isinstance(group, ConsumerGroup):
        return []
    group_id = group.group_id
    members = [member_id for member_id, _ in group.members.ordered()]
    return [
        *(tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=one)) for one in members),
        *(tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=one)) for one in members),
        tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=one)) for one in members),
        *(
            tombstone(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))
            for regex, _ in group.regexes.ordered()
        ),
        tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id)),
        tombstone(ConsumerGroupMetadataKey(group_id=group_id)),
    ]

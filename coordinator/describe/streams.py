"""StreamsGroupDescribe v0–1 (KIP-1071).

The topology has partition counts once a member has sent a heartbeat and its topics exist.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from quorate.assignors.java_order import JavaHashMap, string_key
from quorate.codecs.api import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from quorate.codecs.api.streams_group_describe import Assignment, DescribedGroup, Member
from quorate.codecs.api.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset
from quorate.codecs.messages import streams_group as stored
from quorate.coordinator.describe.common import describe_each
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.streams import MemberTaskOffsets, StreamsGroup, StreamsMember
from quorate.coordinator.streams.topology import described_stored_topology, described_topology


def streams_group_describe(
    shard: CoordinatorShard, request: StreamsGroupDescribeRequest, context: RequestContext
) -> Result[StreamsGroupDescribeResponse]:
    """Describe streams groups. Groups of other types are unknown."""
    groups = describe_each(shard, request.group_ids, StreamsGroup, described, DescribedGroup)
    if request.include_topology_description:
        # Without a plug-in of the broker (KIP-1331) none is stored.
        groups = tuple(
            one if one.error_code else replace(one, topology_description_status=_NOT_STORED) for one in groups
        )
    return Result(response=StreamsGroupDescribeResponse(groups=groups))


def described(shard: CoordinatorShard, group: StreamsGroup) -> DescribedGroup:
    """Return the description of a group.

    Raises `ApiError` UNKNOWN_SERVER_ERROR, as Kafka does, if the log lacks records of the group.
    """
    if group.topology is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group.group_id} has no topology")
    written = shard.state.written_streams.get(group.group_id)
    configured = group.configured if written is None else written.configured
    ready = configured is not None and configured.is_ready
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=described_topology(configured)
        if ready and configured is not None
        else described_stored_topology(group.topology),
        members=tuple(_member(group, member) for _, member in group.members.ordered()),
        assignor_name=_ASSIGNOR,
    )


_NOT_STORED = 1
_ASSIGNOR = "sticky"
"""Kafka's only task assignor."""


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    metadata, current = member.metadata, member.current
    if metadata is None or current is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member {member.member_id} is incomplete")
    endpoint = metadata.user_endpoint
    offsets = group.task_offsets.get(member.member_id, MemberTaskOffsets())
    tags: JavaHashMap[str, str] = JavaHashMap()
    for tag in metadata.client_tags:
        tags.put(tag.key, tag.value)
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=tuple(KeyValue(key=key, value=value) for key, value in tags.items()),
        task_offsets=_offsets(offsets.offsets),
        task_end_offsets=_offsets(offsets.end_offsets),
        assignment=_assignment(current),
        target_assignment=_assignment(group.targets.get(member.member_id)),
    )


def _offsets(offsets: Mapping[str, Mapping[int, int]]) -> tuple[TaskOffset, ...]:
    return tuple(
        TaskOffset(subtopology_id=one, partition=partition, offset=offset)
        for one in sorted(offsets, key=string_key)
        for partition, offset in sorted(offsets[one].items())
    )


def _assignment(
    tasks: stored.StreamsGroupCurrentMemberAssignmentValue | stored.StreamsGroupTargetAssignmentMemberValue | None,
) -> Assignment:
    if tasks is None:
        return Assignment()
    return Assignment(
        active_tasks=_tasks(tasks.active_tasks),
        standby_tasks=_tasks(tasks.standby_tasks),
        warmup_tasks=_tasks(tasks.warmup_tasks),
    )


def _tasks(tasks: Iterable[stored.TaskIds | stored.TargetTaskIds]) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(subtopology_id=task.subtopology_id, partitions=tuple(sorted(task.partitions)))
        for task in sorted(tasks, key=lambda task: string_key(task.subtopology_id))
    )

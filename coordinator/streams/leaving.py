"""Removal of members of streams groups: they leave, time out, or fail to revoke tasks."""

from dataclasses import replace

from quorate.codecs.api import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from quorate.coordinator.consumer.checks import check_static_member, existing_member
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import Result
from quorate.coordinator.sessions import Sessions, cancel_timers
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer_member import LEAVE_STATIC
from quorate.coordinator.state.streams import StreamsGroup, StreamsMember, TaskState
from quorate.coordinator.state.streams_tasks import AssignedTasks
from quorate.coordinator.streams import records as write


def leave(shard: CoordinatorShard, request: StreamsGroupHeartbeatRequest) -> Result[StreamsGroupHeartbeatResponse]:
    """Remove a member (epoch -1), or keep a static member that leaves temporarily (epoch -2).

    Raises `ApiError`: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID.
    """
    group = shard.group(StreamsGroup, request.group_id)
    if request.shutdown_application:
        group.request_shutdown(request.member_id)
    response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.instance_id is None:
        member = existing_member(group, request.member_id)
    else:
        member = check_static_member(group.static_member(request.instance_id), request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_STATIC:
            away = write.current_assignment(group.group_id, _away(member))
            return Result(records=[away], response=response)
    return _fence(shard, group, member).with_response(response)


def _away(member: StreamsMember) -> StreamsMember:
    """Return a static member that left temporarily.

    It keeps its tasks, active ones at assignment epoch 0, so that no commit is older. Its session
    timeout keeps running.
    """
    before, assigned = member.current, member.assigned
    if before is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member {member.member_id} has no tasks")  # Kafka: NPE
    active = {one: dict.fromkeys(partitions, 0) for one, partitions in assigned.active.items()}
    kept = AssignedTasks(active, assigned.standby, assigned.warmup)
    current = write.current_value(LEAVE_STATIC, before.previous_member_epoch, member.state, kept, AssignedTasks.NONE)
    return replace(member, current=current)


def _fence(shard: CoordinatorShard, group: StreamsGroup, member: StreamsMember) -> Result[None]:
    """Remove a member, and increment the group epoch. An empty group also gets its target epoch."""
    records = write.member_tombstones(group.group_id, member.member_id)
    epoch = group.epoch + 1
    records.append(
        write.group_epoch(
            group,
            epoch,
            group.metadata_hash,
            validated_epoch=group.validated_topology_epoch,
            configs=group.assignment_configs,
        )
    )
    if len(group.members) == 1:
        records.append(write.target_epoch(group.group_id, epoch, 0))
    cancel_timers(shard, group.group_id, member.member_id)
    return Result(records=records)


SESSIONS = Sessions(
    StreamsGroup,
    "group_streams_session_timeout_ms",
    lambda shard, group, member, _: _fence(shard, group, member),
    TaskState.UNREVOKED_TASKS,
)

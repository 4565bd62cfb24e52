"""Heartbeat v0–4: extends a member's session, and reports a rebalance.

Offset commits extend the session, too.
"""

from quorate.codecs.api import HeartbeatRequest, HeartbeatResponse
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.classic.groups import as_live, check_member, existing_group
from quorate.coordinator.classic.other_group_types import handle_on_consumer_group
from quorate.coordinator.classic.rebalance import expect_heartbeat
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup, ClassicState
from quorate.coordinator.state.groups import CoordinatorGroup


def heartbeat(shard: CoordinatorShard, request: HeartbeatRequest, context: RequestContext) -> Result[HeartbeatResponse]:
    """Restart the member's session. Raises `ApiError`."""
    found = existing_group(shard, request.group_id)
    if not isinstance(found, ClassicGroup):
        return handle_on_consumer_group(shard, found, request, context)
    group = as_live(shard, found, context.now_ms)
    check_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"group {group.group_id} is at generation {group.generation}")
    expect_heartbeat(shard, group, group.members[request.member_id], context.now_ms)
    preparing = group.phase is ClassicState.PREPARING_REBALANCE
    return Result(
        response=HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE)
    )


def keep_session(shard: CoordinatorShard, group: CoordinatorGroup, member_id: str, now_ms: int) -> None:
    """Restart the session of a member that commits offsets, unless it waits for its assignment."""
    if not member_id or not isinstance(group, LiveGroup) or member_id not in group.members:
        return  # most clients without a member id only commit
    if group.phase in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        expect_heartbeat(shard, group, group.members[member_id], now_ms)

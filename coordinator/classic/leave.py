"""LeaveGroup v0–5. Since v3 for several members, and by instance id for admin clients (KIP-345)."""

from quorate.codecs.api import JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse
from quorate.codecs.api.leave_group import MemberIdentity, MemberResponse
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.classic.groups import as_live, check_member, existing_group
from quorate.coordinator.classic.other_group_types import handle_on_consumer_group
from quorate.coordinator.classic.rebalance import (
    cancel_session,
    complete_join_if_all_joined,
    rebalance_if_possible,
)
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup, ClassicState

BATCHED = 3
"""First version with several members per request."""


def leave_group(
    shard: CoordinatorShard, request: LeaveGroupRequest, context: RequestContext
) -> Result[LeaveGroupResponse]:
    """Remove members. Each has its own error. Raises `ApiError`."""
    found = existing_group(shard, request.group_id)
    if not isinstance(found, ClassicGroup):
        return handle_on_consumer_group(shard, found, request, context)
    group = as_live(shard, found, context.now_ms)
    outcomes = [(identity, _left(shard, group, identity)) for identity in identities(request, context.api_version)]
    result: Result[None] = Result()
    if any(code == ErrorCode.NONE for _, code in outcomes):
        if group.phase is ClassicState.PREPARING_REBALANCE:
            result = complete_join_if_all_joined(shard, group, context.now_ms)
        elif group.phase in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            result = rebalance_if_possible(shard, group, context.now_ms)
    return result.with_response(left(outcomes, context.api_version))


def _left(shard: CoordinatorShard, group: LiveGroup, identity: MemberIdentity) -> ErrorCode:
    member_id = identity.member_id
    if identity.group_instance_id is None and member_id not in group.members and member_id not in group.pending:
        return ErrorCode.UNKNOWN_MEMBER_ID  # without an exception, which is slow for 100,000 members
    try:
        _leave(shard, group, identity)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def _leave(shard: CoordinatorShard, group: LiveGroup, identity: MemberIdentity) -> None:
    """Remove one member; its pending JoinGroup fails with UNKNOWN_MEMBER_ID. Raises `ApiError`."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id in group.pending:
        group.remove(member_id)
        cancel_session(shard, group, member_id)
        return
    if not member_id and instance_id is not None:
        member_id = group.static_member(instance_id) or ""
    check_member(group, member_id, instance_id)
    cancel_session(shard, group, member_id)
    group.complete_join(
        group.members[member_id], JoinGroupResponse(protocol_name=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    )
    group.remove(member_id)


def identities(request: LeaveGroupRequest, version: int) -> tuple[MemberIdentity, ...]:
    """Return the members to remove, for any version."""
    return tuple(request.members) if version >= BATCHED else (MemberIdentity(member_id=request.member_id),)


def left(outcomes: list[tuple[MemberIdentity, ErrorCode]], version: int) -> LeaveGroupResponse:
    """Return the response; before v3 the only member's error is the response's."""
    if version < BATCHED:
        return LeaveGroupResponse(error_code=outcomes[0][1])
    return LeaveGroupResponse(
        members=tuple(
            MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
            for one, code in outcomes
        )
    )


def leave_failed(
    request: LeaveGroupRequest, context: RequestContext, code: ErrorCode, message: str
) -> LeaveGroupResponse:
    """Return the response to a LeaveGroup that failed as a whole."""
    if code == ErrorCode.UNKNOWN_MEMBER_ID:  # unknown group: Kafka returns the error per member
        return left([(identity, code) for identity in identities(request, context.api_version)], context.api_version)
    return LeaveGroupResponse(error_code=code)

"""LeaveGroup v0–5: members go.

Since version 3 several at once, and static ones by their names (KIP-345), which admins do.
"""

from quorate.codecs.api import JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse
from quorate.codecs.api.leave_group import MemberIdentity, MemberResponse
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.classic.groups import alive, check_member, existing
from quorate.coordinator.classic.on_consumer_groups import handle_on_consumer_group
from quorate.coordinator.classic.rebalance import (
    complete_join_if_all_are_there,
    forget_session,
    rebalance_if_possible,
)
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup, ClassicState

__all__ = ["identities", "leave_failed", "leave_group", "left"]

SEVERAL = 3
"""Since this version several members leave with one request."""


def leave_group(
    shard: CoordinatorShard, request: LeaveGroupRequest, context: RequestContext
) -> Result[LeaveGroupResponse]:
    """Remove members; each has an error of its own. Raises `ApiError`."""
    there = existing(shard, request.group_id)
    if not isinstance(there, ClassicGroup):
        return handle_on_consumer_group(shard, there, request, context)
    group = alive(shard, there, context.now_ms)
    outcomes = [(identity, _left(shard, group, identity)) for identity in identities(request, context.api_version)]
    result: Result[None] = Result()
    if any(code == ErrorCode.NONE for _, code in outcomes):
        if group.phase is ClassicState.PREPARING_REBALANCE:
            result = complete_join_if_all_are_there(shard, group, context.now_ms)
        elif group.phase in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            result = rebalance_if_possible(shard, group, context.now_ms)
    return result.with_response(left(outcomes, context.api_version))


def _left(shard: CoordinatorShard, group: LiveGroup, identity: MemberIdentity) -> ErrorCode:
    member_id = identity.member_id
    if identity.group_instance_id is None and member_id not in group.members and member_id not in group.pending:
        return ErrorCode.UNKNOWN_MEMBER_ID  # an exception for each of 100,000 takes long
    try:
        _leave(shard, group, identity)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def _leave(shard: CoordinatorShard, group: LiveGroup, identity: MemberIdentity) -> None:
    """One member goes; an answer to JoinGroup that it waits for tells it so. Raises `ApiError`."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id in group.pending:
        group.remove(member_id)
        forget_session(shard, group, member_id)
        return
    if not member_id and instance_id is not None:
        member_id = group.static_member(instance_id) or ""
    check_member(group, member_id, instance_id)
    forget_session(shard, group, member_id)
    group.answer_join(
        group.members[member_id], JoinGroupResponse(protocol_name=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    )
    group.remove(member_id)


def identities(request: LeaveGroupRequest, version: int) -> tuple[MemberIdentity, ...]:
    """Who leaves, in any version."""
    return tuple(request.members) if version >= SEVERAL else (MemberIdentity(member_id=request.member_id),)


def left(outcomes: list[tuple[MemberIdentity, ErrorCode]], version: int) -> LeaveGroupResponse:
    """What became of whom; before version 3 the one member's error is the response's."""
    if version < SEVERAL:
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
    """The response to a LeaveGroup that failed as a whole."""
    if code == ErrorCode.UNKNOWN_MEMBER_ID:  # there is no such group, which Kafka tells each member
        return left([(one, code) for one in identities(request, context.api_version)], context.api_version)
    return LeaveGroupResponse(error_code=code)

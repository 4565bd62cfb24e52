"""SyncGroup v0–5: the leader sends all assignments, each member receives its own."""

from quorate.codecs.api import SyncGroupRequest, SyncGroupResponse
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.classic.groups import as_live, check_member, existing_group, group_record
from quorate.coordinator.classic.other_group_types import handle_on_consumer_group
from quorate.coordinator.classic.rebalance import rebalance_if_possible, reset_assignments, set_assignments, synced
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import Pending, RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup, ClassicState

PROTOCOL_REQUIRED = 5
"""First version in which a member must name its protocol (KIP-559)."""


def sync_group(
    shard: CoordinatorShard, request: SyncGroupRequest, context: RequestContext
) -> Result[SyncGroupResponse]:
    """Return a member's assignment, pending until the leader has sent it. Raises `ApiError`."""
    if context.api_version >= PROTOCOL_REQUIRED and (request.protocol_type is None or request.protocol_name is None):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "protocol type and protocol name are required")
    found = existing_group(shard, request.group_id)
    if found.is_empty:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {request.group_id} has no members")
    if not isinstance(found, ClassicGroup):
        return handle_on_consumer_group(shard, found, request, context)
    group = as_live(shard, found, context.now_ms)
    _check(group, request)
    member = group.members[request.member_id]
    if group.phase is ClassicState.PREPARING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {group.group_id} is rebalancing")
    if group.phase is ClassicState.STABLE:
        synced(shard, group, member.member_id)
        return Result(
            response=SyncGroupResponse(
                protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
            )
        )
    response: Pending[SyncGroupResponse] = Pending()
    member.syncing = response
    synced(shard, group, member.member_id)
    if member.member_id != group.leader:
        return Result(response=response)
    return _assign(shard, group, request, context, response)


def _check(group: LiveGroup, request: SyncGroupRequest) -> None:
    check_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"group {group.group_id} is at generation {group.generation}")
    other_type = request.protocol_type not in (None, group.protocol_type)
    if other_type or (group.protocol is not None and request.protocol_name not in (None, group.protocol)):
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"group {group.group_id} uses protocol {group.protocol} of type {group.protocol_type}",
        )


def _assign(
    shard: CoordinatorShard,
    group: LiveGroup,
    request: SyncGroupRequest,
    context: RequestContext,
    response: Pending[SyncGroupResponse],
) -> Result[SyncGroupResponse]:
    """Write the leader's assignments; then all pending responses complete, and the group is stable.

    Members without an assignment from the leader get an empty one.
    """
    assignments = dict.fromkeys(group.members, b"")
    assignments |= {assignment.member_id: assignment.assignment for assignment in request.assignments}
    generation = group.generation

    def is_current() -> bool:
        return group.phase is ClassicState.COMPLETING_REBALANCE and group.generation == generation

    def persisted() -> None:
        if is_current():
            set_assignments(shard, group, assignments, context.now_ms)
            group.transition_to(ClassicState.STABLE, context.now_ms)

    def failed(code: int) -> None:
        if is_current():
            reset_assignments(shard, group, code, context.now_ms)
            rebalance_if_possible(shard, group, context.now_ms)

    return Result(
        response=response,
        records=[group_record(group, assignments)],
        replay=False,
        on_appended=persisted,
        on_failed=failed,
    )

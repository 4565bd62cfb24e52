"""JoinGroup of a restarted static member, which gets a new member id (KIP-345)."""

from quorate.codecs.api import JoinGroupResponse, SyncGroupResponse
from quorate.coordinator.classic.group import LiveGroup, LiveMember
from quorate.coordinator.classic.groups import group_record
from quorate.coordinator.classic.pending_join import PendingJoin
from quorate.coordinator.classic.rebalance import (
    complete_join_if_all_joined,
    expect_heartbeat,
    join_response,
    prepare_rebalance,
    rebalance_if_possible,
)
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicState

SKIP_ASSIGNMENT_SINCE = 9
"""First version in which the leader can skip the assignment (KIP-814)."""


def rejoin_static(
    shard: CoordinatorShard, group: LiveGroup, old: LiveMember, new_id: str, pending_join: PendingJoin
) -> Result[None]:
    """Replace the member id of a static member; pending requests with the old id are fenced.

    A stable group does not rebalance, unless another protocol would be selected.
    """
    context = pending_join.context
    old_leader = group.leader
    renamed = _rename(group, old, new_id)
    expect_heartbeat(shard, group, renamed, context.now_ms)
    before = (renamed.protocols, renamed.rebalance_timeout_ms, renamed.session_timeout_ms)
    pending_join.update_member(group, renamed)
    if group.phase is ClassicState.COMPLETING_REBALANCE:
        # The leader knows the old id, so its assignment would not reach the new one.
        return prepare_rebalance(shard, group, context.now_ms)
    if group.phase is not ClassicState.STABLE:
        return complete_join_if_all_joined(shard, group, context.now_ms)
    if group.select_protocol() != group.protocol:
        return rebalance_if_possible(shard, group, context.now_ms)

    def persisted() -> None:
        leads = group.leader == new_id
        if context.api_version >= SKIP_ASSIGNMENT_SINCE:
            group.complete_join(renamed, join_response(group, new_id, with_members=leads, skip_assignment=leads))
        else:
            # With the old leader id, so that the member does not compute an assignment.
            group.complete_join(renamed, join_response(group, new_id, with_members=False, leader=old_leader))

    def taken_back(code: int) -> None:
        protocols, rebalance_timeout_ms, session_timeout_ms = before
        group.update(
            renamed,
            protocols,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=session_timeout_ms,
            joining=None,
        )
        expect_heartbeat(shard, group, _rename(group, renamed, old.member_id), context.now_ms)
        pending_join.response.complete(
            JoinGroupResponse(
                error_code=code,
                generation_id=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol,
                leader=old_leader or "",
            )
        )

    return Result(
        records=[group_record(group, {member.member_id: member.assignment for member in group.members.values()})],
        replay=False,
        on_appended=persisted,
        on_failed=taken_back,
    )


def _rename(group: LiveGroup, member: LiveMember, new_id: str) -> LiveMember:
    fenced = ErrorCode.FENCED_INSTANCE_ID
    group.complete_join(member, JoinGroupResponse(error_code=fenced, protocol_name=None, member_id=member.member_id))
    group.complete_sync(member, SyncGroupResponse(error_code=fenced))
    return group.rename(member, new_id)

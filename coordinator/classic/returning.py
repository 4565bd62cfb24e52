"""A static member that joins without an id while its instance is in the group: it was restarted, and takes its place under a new id (KIP-345)."""

from quorate.codecs.api import JoinGroupResponse, SyncGroupResponse
from quorate.coordinator.classic.group import LiveGroup, LiveMember
from quorate.coordinator.classic.groups import group_record
from quorate.coordinator.classic.joiner import Joiner
from quorate.coordinator.classic.rebalance import (
    complete_join_if_all_are_there,
    expect_heartbeat,
    joined,
    prepare_rebalance,
    rebalance_if_possible,
)
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicState

__all__ = ["join_again"]

SKIPS = 9
"""Since this version a leader can be told not to assign anew (KIP-814)."""


def join_again(shard: CoordinatorShard, group: LiveGroup, old: LiveMember, new_id: str, joiner: Joiner) -> Result[None]:
    """Who has the old id and still waits for something is fenced.

    A stable group does not rebalance, unless another protocol would be chosen now.
    """
    context = joiner.context
    old_leader = group.leader
    renamed = _rename(group, old, new_id)
    expect_heartbeat(shard, group, renamed, context.now_ms)
    before = (renamed.protocols, renamed.rebalance_timeout_ms, renamed.session_timeout_ms)
    joiner.tell(group, renamed)
    if group.phase is ClassicState.COMPLETING_REBALANCE:
        # The leader knows the old id, so what it gives out would not reach the new one.
        return prepare_rebalance(shard, group, context.now_ms)
    if group.phase is not ClassicState.STABLE:
        return complete_join_if_all_are_there(shard, group, context.now_ms)
    if group.choose_protocol() != group.protocol:
        return rebalance_if_possible(shard, group, context.now_ms)

    def persisted() -> None:
        leads = group.leader == new_id
        if context.api_version >= SKIPS:
            group.answer_join(renamed, joined(group, new_id, tell_members=leads, skip_assignment=leads))
        else:
            # It must not take itself for the leader, or it would assign anew: so it hears the
            # leader's old id.
            group.answer_join(renamed, joined(group, new_id, tell_members=False, leader=old_leader))

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
        joiner.answer.complete(
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
    group.answer_join(member, JoinGroupResponse(error_code=fenced, protocol_name=None, member_id=member.member_id))
    group.answer_sync(member, SyncGroupResponse(error_code=fenced))
    return group.rename(member, new_id)

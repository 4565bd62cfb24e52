"""Rebalances of classic groups, and their timers.

Timers have Kafka's keys: `heartbeat-GROUP-MEMBER` (session of a member, or of a pending member id),
`join-GROUP` (the group waits for members to join), and `sync-GROUP` (members must send SyncGroup).
As in Kafka, a timer is not retried if its record cannot be written.
"""

from collections.abc import Callable, Mapping

from quorate.codecs.api import JoinGroupResponse, SyncGroupResponse
from quorate.coordinator.classic.group import LiveGroup, LiveMember
from quorate.coordinator.classic.groups import as_live, group_record, live_group
from quorate.coordinator.classic.states import can_rebalance
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup, ClassicState

OnGroup = Callable[[LiveGroup, int], Result[None]]


def _schedule(shard: CoordinatorShard, group: LiveGroup, key: str, at_ms: int, operation: OnGroup) -> None:
    """Schedule an operation on the group; it is skipped if the group no longer exists."""

    def fire(now_ms: int) -> Result[None]:
        found = live_group(shard, group.group_id, now_ms)
        return Result() if found is None else operation(found, now_ms)

    shard.timers.schedule(key, at_ms, fire, retry_ms=None)


# Sessions


def _session_key(group: LiveGroup, member_id: str) -> str:
    return f"heartbeat-{group.group_id}-{member_id}"


def expect_heartbeat(
    shard: CoordinatorShard, group: LiveGroup, member: LiveMember, now_ms: int, timeout_ms: int | None = None
) -> None:
    """Restart a member's session: `timeout_ms`, by default its session timeout."""
    chosen = member.session_timeout_ms if timeout_ms is None else timeout_ms
    expect_join(shard, group, member.member_id, now_ms + chosen)


def expect_join(shard: CoordinatorShard, group: LiveGroup, member_id: str, at_ms: int) -> None:
    """Remove a member or a pending member id at `at_ms`, unless the timer is set again."""
    key = _session_key(group, member_id)
    if not shard.timers.postpone(key, at_ms):
        _schedule(shard, group, key, at_ms, lambda found, now_ms: _session_over(shard, found, member_id, now_ms))


def cancel_session(shard: CoordinatorShard, group: LiveGroup, member_id: str) -> None:
    """Cancel the session timer of a member."""
    shard.timers.cancel(_session_key(group, member_id))


def restart_sessions(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> None:
    """Restart the sessions of all members."""
    for member in group.ordered_members():
        expect_heartbeat(shard, group, member, now_ms)


def _session_over(shard: CoordinatorShard, group: LiveGroup, member_id: str, now_ms: int) -> Result[None]:
    if member_id in group.pending:
        group.remove(member_id)
        return _complete_if_prepared(shard, group, now_ms)
    member = group.members.get(member_id)
    if member is None or member.is_waiting:
        return Result()
    group.complete_join(member, JoinGroupResponse(protocol_name=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member_id)
    if group.phase in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        return rebalance_if_possible(shard, group, now_ms)
    return _complete_if_prepared(shard, group, now_ms)


def _complete_if_prepared(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """Complete a rebalance when all have joined, also during the initial rebalance delay."""
    if group.phase is ClassicState.PREPARING_REBALANCE and group.all_joined:
        return _complete_join(shard, group, now_ms)
    return Result()


# First half: members join


def _join_key(group: LiveGroup) -> str:
    return f"join-{group.group_id}"


def rebalance_if_possible(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """Start a rebalance; or complete the current one if all members have joined."""
    if can_rebalance(group.phase):
        return prepare_rebalance(shard, group, now_ms)
    return complete_join_if_all_joined(shard, group, now_ms)


def prepare_rebalance(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """Start a rebalance, in which all members must rejoin.

    An empty group waits `group.initial.rebalance.delay.ms` for more members (KIP-134).
    """
    if group.phase is ClassicState.COMPLETING_REBALANCE:
        reset_assignments(shard, group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
    group.unsynced.clear()
    shard.timers.cancel(_sync_key(group))
    first = group.phase is ClassicState.EMPTY
    if first:
        delay_ms = shard.config.group_initial_rebalance_delay_ms
        _delay(shard, group, now_ms, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
    group.transition_to(ClassicState.PREPARING_REBALANCE, now_ms)
    if first:
        return Result()
    if group.all_joined:
        return _complete_join(shard, group, now_ms)
    _wait_for_members(shard, group, now_ms)
    return Result()


def _delay(shard: CoordinatorShard, group: LiveGroup, now_ms: int, delay_ms: int, remaining_ms: int) -> None:
    """Wait for more members.

    The delay is extended while members join, up to the rebalance timeout.
    """

    def over(found: LiveGroup, at_ms: int) -> Result[None]:
        if not found.new_member_added or remaining_ms == 0:
            return _complete_join(shard, found, at_ms)
        found.new_member_added = False
        again_ms = min(shard.config.group_initial_rebalance_delay_ms, remaining_ms)
        _delay(shard, found, at_ms, again_ms, max(remaining_ms - delay_ms, 0))
        return Result()

    _schedule(shard, group, _join_key(group), now_ms + delay_ms, over)


def _wait_for_members(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> None:
    at_ms = now_ms + group.rebalance_timeout_ms
    _schedule(shard, group, _join_key(group), at_ms, lambda found, then_ms: _complete_join(shard, found, then_ms))


def complete_join_if_all_joined(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """Complete a rebalance when all members have joined, unless the initial delay is running."""
    prepared = group.phase is ClassicState.PREPARING_REBALANCE
    if prepared and group.previous_phase is not ClassicState.EMPTY and group.all_joined:
        return _complete_join(shard, group, now_ms)
    return Result()


def _complete_join(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """Start a generation with the members that have joined, and all static members (KIP-345).

    Completes all JoinGroup responses; members must then send SyncGroup. If no member has joined and
    only static members are left, the group waits again. Without members it becomes Empty, which is
    recorded.
    """
    shard.timers.cancel(_join_key(group))
    for member in group.ordered_members():
        if member.joining is None and member.group_instance_id is None:
            group.remove(member.member_id)
            cancel_session(shard, group, member.member_id)
    if group.members and not group.elect_leader():
        _wait_for_members(shard, group, now_ms)
        return Result()
    group.init_next_generation(now_ms)
    if group.phase is ClassicState.EMPTY:
        return Result(records=[group_record(group, {})], replay=False)
    for member in group.ordered_members():
        group.complete_join(
            member, join_response(group, member.member_id, with_members=member.member_id == group.leader)
        )
        expect_heartbeat(shard, group, member, now_ms)
        member.is_new = False
        group.unsynced.add(member.member_id)
    _wait_for_syncs(shard, group, now_ms)
    return Result()


def join_response(
    group: LiveGroup, member_id: str, *, with_members: bool, leader: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Return the JoinGroup response to a member of the current generation.

    `leader`: another leader id to report.
    """
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=(group.leader if leader is None else leader) or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.members_for_leader() if with_members else (),
    )


# Second half: members wait for their assignment


def _sync_key(group: LiveGroup) -> str:
    return f"sync-{group.group_id}"


def _wait_for_syncs(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> None:
    """Remove members that do not send SyncGroup within the rebalance timeout, and rebalance."""
    generation = group.generation

    def over(found: LiveGroup, at_ms: int) -> Result[None]:
        waits = found.phase in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
        if found.generation != generation or not waits or not found.unsynced:
            return Result()
        for member_id in sorted(found.unsynced):
            found.remove(member_id)
            cancel_session(shard, found, member_id)
        return prepare_rebalance(shard, found, at_ms)

    _schedule(shard, group, _sync_key(group), now_ms + group.rebalance_timeout_ms, over)


def synced(shard: CoordinatorShard, group: LiveGroup, member_id: str) -> None:
    """Note that the member has sent SyncGroup."""
    group.unsynced.discard(member_id)
    if not group.unsynced:
        shard.timers.cancel(_sync_key(group))


def reset_assignments(shard: CoordinatorShard, group: LiveGroup, code: int, now_ms: int) -> None:
    """Clear all assignments; pending SyncGroup responses fail with this error."""
    for member in group.members.values():
        member.assignment = b""
    _complete_syncs(shard, group, code, now_ms)


def set_assignments(shard: CoordinatorShard, group: LiveGroup, assignments: Mapping[str, bytes], now_ms: int) -> None:
    """Set the leader's assignments, by member id, and complete pending SyncGroup responses."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    _complete_syncs(shard, group, ErrorCode.NONE, now_ms)


def _complete_syncs(shard: CoordinatorShard, group: LiveGroup, code: int, now_ms: int) -> None:
    good = code == ErrorCode.NONE
    for member in group.ordered_members():
        response = SyncGroupResponse(
            error_code=code,
            protocol_type=group.protocol_type if good else None,
            protocol_name=group.protocol if good else None,
            assignment=member.assignment,
        )
        if group.complete_sync(member, response):
            # The end of the session was ignored while the response was pending, so the timer is set
            # again.
            expect_heartbeat(shard, group, member, now_ms)


def start_sessions(shard: CoordinatorShard, group: ClassicGroup, now_ms: int) -> None:
    """Start the sessions of a group after a load.

    A group that exceeds `group.max.size` rebalances, so that it shrinks.
    """
    if not group.members:
        return
    live = as_live(shard, group, now_ms)
    restart_sessions(shard, live, now_ms)
    if len(live.members) > shard.config.group_max_size:
        prepare_rebalance(shard, live, now_ms)


def fail_pending(shard: CoordinatorShard) -> None:
    """Fail pending requests with NOT_COORDINATOR."""
    for _, group in shard.state.groups.ordered():
        if isinstance(group, LiveGroup):
            group.fail_pending_responses(ErrorCode.NOT_COORDINATOR)

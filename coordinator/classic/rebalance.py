"""Rebalances of classic groups, and everything that time does to them: members wait for each other, then for their leader, and go if they are silent.

Timers, by Kafka's keys: `heartbeat-GROUP-MEMBER` (a session, also of an id that was given out and
is to join), `join-GROUP` (the group waits for members), and `sync-GROUP` (members that joined have
to send SyncGroup). Kafka does not try a timer's work again if its record could not be written.
"""

from collections.abc import Callable, Mapping

from quorate.codecs.api import JoinGroupResponse, SyncGroupResponse
from quorate.coordinator.classic.group import LiveGroup, LiveMember
from quorate.coordinator.classic.groups import alive, group_record, live_group
from quorate.coordinator.classic.states import can_rebalance
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup, ClassicState

__all__ = [
    "bring_to_life",
    "complete_join_if_all_are_there",
    "expect_heartbeat",
    "expect_join",
    "forget_session",
    "give_assignments",
    "heard_of_all",
    "let_go",
    "prepare_rebalance",
    "rebalance_if_possible",
    "reset_assignments",
    "synced",
]

OnGroup = Callable[[LiveGroup, int], Result[None]]


def _schedule(shard: CoordinatorShard, group: LiveGroup, key: str, at_ms: int, operation: OnGroup) -> None:
    """Do something to the group of this id, as it is then; nothing if there is no such classic group any more."""

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
    """The member was heard of.

    If it is not again in `timeout_ms` (by default its session timeout), it is removed.
    """
    chosen = member.session_timeout_ms if timeout_ms is None else timeout_ms
    expect_join(shard, group, member.member_id, now_ms + chosen)


def expect_join(shard: CoordinatorShard, group: LiveGroup, member_id: str, at_ms: int) -> None:
    """An id was given out, or a member was heard of: it goes at `at_ms`, unless something is heard of it before."""
    key = _session_key(group, member_id)
    _schedule(shard, group, key, at_ms, lambda found, now_ms: _session_over(shard, found, member_id, now_ms))


def forget_session(shard: CoordinatorShard, group: LiveGroup, member_id: str) -> None:
    """Nobody waits for signs of life any more."""
    shard.timers.cancel(_session_key(group, member_id))


def heard_of_all(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> None:
    """All members have a session's time from now on."""
    for member in group.ordered_members():
        expect_heartbeat(shard, group, member, now_ms)


def _session_over(shard: CoordinatorShard, group: LiveGroup, member_id: str, now_ms: int) -> Result[None]:
    if member_id in group.pending:
        group.remove(member_id)
        return _complete_if_prepared(shard, group, now_ms)
    member = group.members.get(member_id)
    if member is None or member.may_be_silent:
        return Result()
    group.answer_join(member, JoinGroupResponse(protocol_name=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member_id)
    if group.phase in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        return rebalance_if_possible(shard, group, now_ms)
    return _complete_if_prepared(shard, group, now_ms)


def _complete_if_prepared(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """Unlike `complete_join_if_all_are_there` also in a first rebalance, whose delay then ends early."""
    if group.phase is ClassicState.PREPARING_REBALANCE and group.all_joined:
        return _complete_join(shard, group, now_ms)
    return Result()


# First half: members join


def _join_key(group: LiveGroup) -> str:
    return f"join-{group.group_id}"


def rebalance_if_possible(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """Begin a rebalance; or, if one is being prepared, go on with it if nobody is missing any more."""
    if can_rebalance(group.phase):
        return prepare_rebalance(shard, group, now_ms)
    return complete_join_if_all_are_there(shard, group, now_ms)


def prepare_rebalance(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """Have all members join again.

    An empty group waits `group.initial.rebalance.delay.ms` for more (KIP-134).
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
    """Wait for more members; again if somebody came, but no longer than the rebalance timeout in all."""

    def over(found: LiveGroup, at_ms: int) -> Result[None]:
        if not found.newcomers or remaining_ms == 0:
            return _complete_join(shard, found, at_ms)
        found.newcomers = False
        again_ms = min(shard.config.group_initial_rebalance_delay_ms, remaining_ms)
        _delay(shard, found, at_ms, again_ms, max(remaining_ms - delay_ms, 0))
        return Result()

    _schedule(shard, group, _join_key(group), now_ms + delay_ms, over)


def _wait_for_members(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> None:
    at_ms = now_ms + group.rebalance_timeout_ms
    _schedule(shard, group, _join_key(group), at_ms, lambda found, then_ms: _complete_join(shard, found, then_ms))


def complete_join_if_all_are_there(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """Go on with a rebalance that is being prepared, if nobody is missing.

    A first one goes on when its delay is over.
    """
    prepared = group.phase is ClassicState.PREPARING_REBALANCE
    if prepared and group.previous_phase is not ClassicState.EMPTY and group.all_joined:
        return _complete_join(shard, group, now_ms)
    return Result()


def _complete_join(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> Result[None]:
    """A new generation of those that have joined, and of static members, which may be late (KIP-345).

    All answers go out; now SyncGroup is awaited.

    If only static members are left and none of them has joined, the group waits once more. If
    nobody is left, it is empty, and a record says so.
    """
    shard.timers.cancel(_join_key(group))
    for member in group.ordered_members():
        if member.joining is None and member.group_instance_id is None:
            group.remove(member.member_id)
            forget_session(shard, group, member.member_id)
    if group.members and not group.elect_leader():
        _wait_for_members(shard, group, now_ms)
        return Result()
    group.begin_generation(now_ms)
    if group.phase is ClassicState.EMPTY:
        return Result(records=[group_record(group, {})], replay=False)
    for member in group.ordered_members():
        group.answer_join(member, joined(group, member.member_id, tell_members=member.member_id == group.leader))
        expect_heartbeat(shard, group, member, now_ms)
        member.is_new = False
        group.unsynced.add(member.member_id)
    _wait_for_syncs(shard, group, now_ms)
    return Result()


def joined(
    group: LiveGroup, member_id: str, *, tell_members: bool, leader: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The answer to a member of the current generation.

    `leader`: if it is to hear of another one.
    """
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=(group.leader if leader is None else leader) or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.described_to_leader() if tell_members else (),
    )


# Second half: members wait for their assignment


def _sync_key(group: LiveGroup) -> str:
    return f"sync-{group.group_id}"


def _wait_for_syncs(shard: CoordinatorShard, group: LiveGroup, now_ms: int) -> None:
    """Whoever has not sent SyncGroup within the rebalance timeout is removed, and the others rebalance."""
    generation = group.generation

    def over(found: LiveGroup, at_ms: int) -> Result[None]:
        waits = found.phase in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
        if found.generation != generation or not waits or not found.unsynced:
            return Result()
        for member_id in sorted(found.unsynced):
            found.remove(member_id)
            forget_session(shard, found, member_id)
        return prepare_rebalance(shard, found, at_ms)

    _schedule(shard, group, _sync_key(group), now_ms + group.rebalance_timeout_ms, over)


def synced(shard: CoordinatorShard, group: LiveGroup, member_id: str) -> None:
    """The member has sent SyncGroup."""
    group.unsynced.discard(member_id)
    if not group.unsynced:
        shard.timers.cancel(_sync_key(group))


def reset_assignments(shard: CoordinatorShard, group: LiveGroup, code: int, now_ms: int) -> None:
    """Nobody has an assignment; those that wait for one hear why."""
    for member in group.members.values():
        member.assignment = b""
    _answer_syncs(shard, group, code, now_ms)


def give_assignments(shard: CoordinatorShard, group: LiveGroup, assignments: Mapping[str, bytes], now_ms: int) -> None:
    """Everybody has the assignment that the leader gave it, by member id; those that wait for one get it."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    _answer_syncs(shard, group, ErrorCode.NONE, now_ms)


def _answer_syncs(shard: CoordinatorShard, group: LiveGroup, code: int, now_ms: int) -> None:
    good = code == ErrorCode.NONE
    for member in group.ordered_members():
        response = SyncGroupResponse(
            error_code=code,
            protocol_type=group.protocol_type if good else None,
            protocol_name=group.protocol if good else None,
            assignment=member.assignment,
        )
        if group.answer_sync(member, response):
            # While a member waited for this, the end of its session was ignored, so nothing would
            # watch it now.
            expect_heartbeat(shard, group, member, now_ms)


def bring_to_life(shard: CoordinatorShard, group: ClassicGroup, now_ms: int) -> None:
    """Everybody's session starts anew.

    A group that is larger than is allowed now rebalances, so that it becomes smaller.
    """
    if not group.members:
        return
    live = alive(shard, group, now_ms)
    heard_of_all(shard, live, now_ms)
    if len(live.members) > shard.config.group_max_size:
        prepare_rebalance(shard, live, now_ms)


def let_go(shard: CoordinatorShard) -> None:
    """Whoever waits for an answer has to ask the new coordinator."""
    for _, group in shard.state.groups.ordered():
        if isinstance(group, LiveGroup):
            group.answer_all(ErrorCode.NOT_COORDINATOR)

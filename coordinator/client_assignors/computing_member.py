"""Selection of the member that computes the target assignment (KIP-848, "Client Side Mode").

When a target is due, the coordinator selects the first member that sends a heartbeat. The response
requests it to compute the target within its rebalance timeout. A late member is not fenced, but the
next member that sends a heartbeat is selected. Only one member computes at a time. If the group
epoch changes meanwhile, its next heartbeat response repeats the request.
"""

from collections.abc import Callable

from quorate.coordinator.client_assignors.computation import NO_COMPUTATION, Computation, Phase
from quorate.coordinator.client_assignors.selection import Selected, used_by
from quorate.coordinator.consumer.checks import existing_member
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember

TIMER = "compute-assignment-{}"
"""Key of the timer of the computing member, by group."""

_KEY = "client assignors"


def computation_of(group: ConsumerGroup) -> Computation:
    """Return the group's computation."""
    computation: Computation = group.attached.get(_KEY, NO_COMPUTATION)
    return computation


def put_computation(group: ConsumerGroup, computation: Computation) -> None:
    """Set the group's computation."""
    group.attached[_KEY] = computation


def running(group: ConsumerGroup) -> Computation:
    """Return the computation, unless its member left, also temporarily."""
    computation = computation_of(group)
    if computation.phase is Phase.IDLE:
        return computation
    member = group.members.get(computation.member_id)
    if member is None or member.is_away:
        return computation.abandoned()
    return computation


def request_computation(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    member: ConsumerMember,
    epoch: int,
    now_ms: int,
    *,
    may_begin: bool,
    joining: bool,
) -> Callable[[], None] | None:
    """Request the member to compute the target of `epoch`, if it may.

    Returns a function to call when the response is sent; `None` without a request.
    `may_begin`: the assignment interval has passed. `joining`: the member may have lost an earlier
    request. A member keeps its deadline, unless it fetched the group at an earlier epoch.
    """
    computation = running(group)
    deadline_ms, late = now_ms + max(member.metadata.rebalance_timeout_ms, 0), computation.late
    if computation.phase is not Phase.IDLE:
        if computation.member_id != member.member_id:
            return None
        if computation.phase is Phase.COMPUTING and computation.epoch == epoch and not joining:
            return None
        if computation.phase is Phase.REQUESTED or computation.epoch == epoch:
            deadline_ms = computation.deadline_ms
    elif not may_begin:
        return None
    elif member.member_id in late:
        if any(
            one.member_id not in late and not one.is_away and one.member_id != member.member_id
            for one in group.members.values()
        ):
            return None
        late = frozenset()  # all were late
    requested = computation.requested(member.member_id, epoch=epoch, deadline_ms=deadline_ms, late=late)
    return lambda: _requested(shard, group.group_id, requested)


def _requested(shard: CoordinatorShard, group_id: str, requested: Computation) -> None:
    group = shard.state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return
    put_computation(group, requested)

    def expire(at_ms: int) -> Result[None]:
        found = shard.state.groups.get(group_id)
        if isinstance(found, ConsumerGroup) and computation_of(found).member_id == requested.member_id:
            put_computation(found, computation_of(found).timed_out())
        return Result()

    shard.timers.schedule(TIMER.format(group_id), requested.deadline_ms, expire)


def clear_computation(shard: CoordinatorShard, group: ConsumerGroup) -> None:
    """Clear the computation, after an assignment or for a server-side assignor."""
    if group.attached.pop(_KEY, NO_COMPUTATION) is not NO_COMPUTATION:
        shard.timers.cancel(TIMER.format(group.group_id))


def check_computing_member(
    shard: CoordinatorShard, group_id: str, member_id: str, epoch: int
) -> tuple[ConsumerGroup, Selected]:
    """Return the group and its assignor for the computing member, after the KIP's checks in order.

    Raises `ApiError`: INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID (also for another
    member) or STALE_MEMBER_EPOCH.
    """
    for what, text in (("group id", group_id), ("member id", member_id)):
        if not text.strip():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} must not be empty")
    if epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"invalid member epoch {epoch}")
    group = shard.group(ConsumerGroup, group_id)
    member = existing_member(group, member_id)
    if member.epoch != epoch:
        raise ApiError(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"member {member_id} sent epoch {epoch}, expected {member.epoch}; get it by a heartbeat",
        )
    computation = running(group)
    used = used_by(group)
    if computation.member_id != member_id or used is None:
        computing = "a server-side assignor" if used is None else computation.member_id or "no member"
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"member {member_id} does not compute the target assignment, but {computing}",
        )
    return group, used

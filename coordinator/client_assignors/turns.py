"""Whose turn it is to run the group's client-side assignor (KIP-848, "Client Side Mode").

The first member that is heard of when a target is due gets the turn, and is told so in the answer;
its rebalance timeout runs from then. Whoever is late is not fenced, only sessions do that; the next
one that is heard of gets the turn. One computation at a time: nobody else is told meanwhile, and if
the group's epoch goes up, the same member is told again with its next heartbeat.
"""

from collections.abc import Callable

from quorate.coordinator.client_assignors.computation import IDLE, Computation, Phase
from quorate.coordinator.client_assignors.selection import Selected, used_by
from quorate.coordinator.consumer.checks import existing_member
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember

__all__ = ["TIMER", "asked", "computation_of", "forget", "put_computation", "running", "turn"]

TIMER = "compute-assignment-{}"
"""Key of the timer of the member whose turn it is, by group."""

_KEY = "client assignors"


def computation_of(group: ConsumerGroup) -> Computation:
    """Whose turn it is, as last set."""
    computation: Computation = group.attached.get(_KEY, IDLE)
    return computation


def put_computation(group: ConsumerGroup, computation: Computation) -> None:
    """Set whose turn it is."""
    group.attached[_KEY] = computation


def running(group: ConsumerGroup) -> Computation:
    """The computation, if its member is still there; a static member that is away is not."""
    computation = computation_of(group)
    if computation.phase is Phase.NOBODY:
        return computation
    member = group.members.get(computation.member_id)
    if member is None or member.is_away:
        return computation.given_up()
    return computation


def turn(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    member: ConsumerMember,
    epoch: int,
    now_ms: int,
    *,
    may_begin: bool,
    joining: bool,
) -> Callable[[], None] | None:
    """What has to be done when this member is told that it is its turn to compute the target of `epoch`; `None` if it is not told.

    `may_begin`: the last target is old enough for another one; `joining`: the member may have
    forgotten that it was told. A member whose time runs keeps its deadline, unless it has fetched
    the group at an earlier epoch.
    """
    computation = running(group)
    deadline_ms, late = now_ms + max(member.metadata.rebalance_timeout_ms, 0), computation.late
    if computation.phase is not Phase.NOBODY:
        if computation.member_id != member.member_id:
            return None
        if computation.phase is Phase.COMPUTING and computation.epoch == epoch and not joining:
            return None
        if computation.phase is Phase.TOLD or computation.epoch == epoch:
            deadline_ms = computation.deadline_ms
    elif not may_begin:
        return None
    elif member.member_id in late:
        if any(
            one.member_id not in late and not one.is_away and one.member_id != member.member_id
            for one in group.members.values()
        ):
            return None
        late = frozenset()  # all have been late, so it begins anew
    told = computation.told(member.member_id, epoch=epoch, deadline_ms=deadline_ms, late=late)
    return lambda: _tell(shard, group.group_id, told)


def _tell(shard: CoordinatorShard, group_id: str, told: Computation) -> None:
    group = shard.state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return
    put_computation(group, told)

    def expire(at_ms: int) -> Result[None]:
        found = shard.state.groups.get(group_id)
        if isinstance(found, ConsumerGroup) and computation_of(found).member_id == told.member_id:
            put_computation(found, computation_of(found).over())
        return Result()

    shard.timers.schedule(TIMER.format(group_id), told.deadline_ms, expire)


def forget(shard: CoordinatorShard, group: ConsumerGroup) -> None:
    """There is nothing to compute any more: an assignment has come, or the server makes it."""
    if group.attached.pop(_KEY, IDLE) is not IDLE:
        shard.timers.cancel(TIMER.format(group.group_id))


def asked(shard: CoordinatorShard, group_id: str, member_id: str, epoch: int) -> tuple[ConsumerGroup, Selected]:
    """The group that a member prepares or installs an assignment for, and its assignor; the checks that the KIP has, in its order.

    Raises `ApiError`: INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID (also if it is not the
    member's turn) or STALE_MEMBER_EPOCH.
    """
    for what, text in (("a group id", group_id), ("a member id", member_id)):
        if not text.strip():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} cannot be empty")
    if epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no member epoch {epoch}")
    group = shard.group(ConsumerGroup, group_id)
    member = existing_member(group, member_id)
    if member.epoch != epoch:
        raise ApiError(
            ErrorCode.STALE_MEMBER_EPOCH, f"{member_id} says epoch {epoch}, and is at {member.epoch}; heartbeats tell"
        )
    computation = running(group)
    used = used_by(group)
    if computation.member_id != member_id or used is None:
        whose = (
            "the server's" if used is None else f"{computation.member_id}'s" if computation.member_id else "nobody's"
        )
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"it is not {member_id}'s turn to compute an assignment, but {whose}"
        )
    return group, used

"""Session and revocation timers of members. They start again after a load."""

from functools import partial

from quorate.coordinator.consumer.leaving import REBALANCE_TIMER, fence, session_timer
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember, MemberState

__all__ = ["restart_sessions", "start_session", "watch_revocation"]


def start_session(
    shard: CoordinatorShard, group_id: str, member_id: str, now_ms: int, timeout_ms: int | None = None
) -> None:
    """Restart the member's session; it is fenced after `timeout_ms`, by default the group's."""
    if timeout_ms is None:
        timeout_ms = shard.config_of(group_id, "group_consumer_session_timeout_ms")
    key, at_ms = session_timer(group_id, member_id), now_ms + timeout_ms
    if not shard.timers.postpone(key, at_ms):
        shard.timers.schedule(key, at_ms, partial(fence_if_present, shard, group_id, member_id))


def watch_revocation(shard: CoordinatorShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """Fence a member that does not revoke its partitions within its rebalance timeout.

    The timer is set while the member has partitions to revoke at its epoch, and cancelled
    otherwise.
    """
    key = REBALANCE_TIMER % (group_id, member.member_id)
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        shard.timers.cancel(key)
        return
    expire = partial(fence_if_present, shard, group_id, member.member_id, epoch=member.epoch)
    shard.timers.schedule(key, now_ms + member.metadata.rebalance_timeout_ms, expire)


def fence_if_present(
    shard: CoordinatorShard, group_id: str, member_id: str, now_ms: int, *, epoch: int | None = None
) -> Result[None]:
    """Remove the member, if it still exists and has this epoch."""
    group = shard.state.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if member is None or not isinstance(group, ConsumerGroup) or epoch not in (None, member.epoch):
        return Result()
    return fence(shard, group, [member], now_ms)


def restart_sessions(shard: CoordinatorShard, group: ConsumerGroup, now_ms: int) -> None:
    """Start the session and revocation timers of all members after a load."""
    for member_id, member in group.members.ordered():
        start_session(shard, group.group_id, member_id, now_ms)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            watch_revocation(shard, group.group_id, member, now_ms)

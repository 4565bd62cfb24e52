"""The timers by which members go that are not heard of any more, or do not give up partitions in time.

After a load they start anew.
"""

from functools import partial

from quorate.coordinator.consumer.leaving import REBALANCE_TIMER, SESSION_TIMER, fence
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember, MemberState

__all__ = ["restart_sessions", "start_session", "watch_revocation"]


def start_session(
    shard: CoordinatorShard, group_id: str, member_id: str, now_ms: int, timeout_ms: int | None = None
) -> None:
    """The member was heard of; if it is not again in `timeout_ms` (by default the group's), it is fenced."""
    if timeout_ms is None:
        timeout_ms = shard.config_of(group_id, "group_consumer_session_timeout_ms")
    expire = partial(fence_if_there, shard, group_id, member_id)
    shard.timers.schedule(SESSION_TIMER % (group_id, member_id), now_ms + timeout_ms, expire)


def watch_revocation(shard: CoordinatorShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """Fence the member if it has not left its epoch within its rebalance timeout, while it has partitions to give up; or stop waiting for that."""
    key = REBALANCE_TIMER % (group_id, member.member_id)
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        shard.timers.cancel(key)
        return
    expire = partial(fence_if_there, shard, group_id, member.member_id, epoch=member.epoch)
    shard.timers.schedule(key, now_ms + member.metadata.rebalance_timeout_ms, expire)


def fence_if_there(
    shard: CoordinatorShard, group_id: str, member_id: str, now_ms: int, *, epoch: int | None = None
) -> Result[None]:
    """Remove the member, if it and its group are still there, and it is at this epoch."""
    group = shard.state.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if member is None or not isinstance(group, ConsumerGroup) or epoch not in (None, member.epoch):
        return Result()
    return fence(shard, group, [member], now_ms)


def restart_sessions(shard: CoordinatorShard, group: ConsumerGroup, now_ms: int) -> None:
    """The log was loaded: all members have a session's time to be heard of, and those that have to give up partitions their rebalance timeout."""
    for member_id, member in group.members.ordered():
        start_session(shard, group.group_id, member_id, now_ms)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            watch_revocation(shard, group.group_id, member, now_ms)

"""Timers of classic members in a consumer group, for rejoining and for SyncGroup."""

from quorate.coordinator.consumer.leaving import SESSIONS
from quorate.coordinator.sessions import JOIN_TIMER, SYNC_TIMER, FenceMember
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer_member import ConsumerMember


def expect_rejoin(shard: CoordinatorShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """Fence the member if it does not rejoin within its rebalance timeout.

    The timeout starts with the first response that requires it to rejoin.
    """
    expire = FenceMember(SESSIONS, shard, group_id, member.member_id)
    key = JOIN_TIMER % (group_id, member.member_id)
    shard.timers.schedule_if_absent(key, now_ms + member.metadata.rebalance_timeout_ms, expire)


def joined(
    shard: CoordinatorShard,
    group_id: str,
    member_id: str,
    now_ms: int,
    *,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
) -> None:
    """Start the member's session, and wait for SyncGroup within its rebalance timeout."""
    shard.timers.cancel(JOIN_TIMER % (group_id, member_id))
    SESSIONS.start(shard, group_id, member_id, now_ms, session_timeout_ms)
    expire = FenceMember(SESSIONS, shard, group_id, member_id)
    shard.timers.schedule(SYNC_TIMER % (group_id, member_id), now_ms + rebalance_timeout_ms, expire)


def synced(shard: CoordinatorShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """Note that the member has sent SyncGroup."""
    shard.timers.cancel(SYNC_TIMER % (group_id, member.member_id))
    restart_session(shard, group_id, member, now_ms)


def restart_session(shard: CoordinatorShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """Restart the session of a classic member, which has its own session timeout."""
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    SESSIONS.start(shard, group_id, member.member_id, now_ms, classic.session_timeout_ms)

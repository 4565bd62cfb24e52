"""Timers of classic members in a consumer group: they have to join again when they are told to, and to send SyncGroup after that."""

from functools import partial

from quorate.coordinator.consumer.leaving import JOIN_TIMER, SYNC_TIMER
from quorate.coordinator.consumer.sessions import fence_if_there, start_session
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerMember

__all__ = ["expect_rejoin", "heard", "joined", "synced"]


def expect_rejoin(shard: CoordinatorShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """The member was told to join again; if it has not within its rebalance timeout since it was first told, it is fenced."""
    expire = partial(fence_if_there, shard, group_id, member.member_id)
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
    """The member has joined; now it has to send heartbeats, and SyncGroup within its rebalance timeout."""
    shard.timers.cancel(JOIN_TIMER % (group_id, member_id))
    start_session(shard, group_id, member_id, now_ms, session_timeout_ms)
    expire = partial(fence_if_there, shard, group_id, member_id)
    shard.timers.schedule(SYNC_TIMER % (group_id, member_id), now_ms + rebalance_timeout_ms, expire)


def synced(shard: CoordinatorShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """The member has sent SyncGroup."""
    shard.timers.cancel(SYNC_TIMER % (group_id, member.member_id))
    heard(shard, group_id, member, now_ms)


def heard(shard: CoordinatorShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """A sign of life of a classic member, which says by itself how long it may be silent."""
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    start_session(shard, group_id, member.member_id, now_ms, classic.session_timeout_ms)

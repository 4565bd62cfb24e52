"""Expiry of offsets and empty groups (KIP-211, `offsets.retention.minutes`)."""

from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.offsets import OffsetCommitKey
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.offsets.delete import is_subscribed
from quorate.coordinator.offsets.groups import deleted_group
from quorate.coordinator.records import tombstone
from quorate.coordinator.results import Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state import ClassicGroup, ClassicState, CommittedOffset, CoordinatorGroup, ShareGroup

MINUTE_MS = 60_000


def expire(shard: CoordinatorShard, now_ms: int) -> Result[None]:
    """Return tombstones of expired offsets, and of empty groups without offsets.

    Raises `ApiError` as Kafka does since 4.4 if a share group has offsets, and nothing expires. It
    has the offsets of a consumer group that a rejected JoinGroup removed without a record.
    """
    records: list[CoordinatorRecord] = []
    for _, group in shard.state.groups.ordered():
        if isinstance(group, ShareGroup):
            # Share groups do not expire, and commit no offsets.
            if shard.behaviour.checks_share_offsets and group.group_id in shard.state.offsets.committed:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"share group {group.group_id} has offsets")
            continue
        if _expire_offsets(shard, group, now_ms, records) and group.is_empty:
            records += deleted_group(shard, group)
    return Result(records=records, atomic=False)


def _expire_offsets(
    shard: CoordinatorShard, group: CoordinatorGroup, now_ms: int, records: list[CoordinatorRecord]
) -> bool:
    """Add tombstones of expired offsets. Return whether no offset is left."""
    topics = shard.state.offsets.committed.get(group.group_id)
    if topics is None:
        return not shard.state.offsets.has_pending(group.group_id)
    if isinstance(group, ClassicGroup) and not _may_expire(group):
        return False
    nothing_left = not shard.state.offsets.has_pending(group.group_id)
    for topic, partitions in topics.ordered():
        if is_subscribed(group, topic):
            nothing_left = False
            continue
        for partition, offset in partitions.ordered():
            pending = shard.state.offsets.is_pending(group.group_id, topic, partition)
            if not pending and _is_expired(shard, group, offset, now_ms):
                records.append(tombstone(OffsetCommitKey(group=group.group_id, topic=topic, partition=partition)))
            else:
                nothing_left = False
    return nothing_left


def _may_expire(group: ClassicGroup) -> bool:
    """Return whether offsets may expire. With members, their subscriptions must be known."""
    if not group.protocol_type or group.state == ClassicState.EMPTY:
        return True
    return group.state == ClassicState.STABLE and group.subscribed_topics is not None


def _is_expired(shard: CoordinatorShard, group: CoordinatorGroup, offset: CommittedOffset, now_ms: int) -> bool:
    if offset.expire_timestamp_ms >= 0:
        return now_ms >= offset.expire_timestamp_ms
    base_ms = offset.value.commit_timestamp
    if isinstance(group, ClassicGroup) and group.protocol_type and group.is_empty and group.since_ms >= 0:
        base_ms = group.since_ms
    return now_ms - base_ms >= shard.config.offsets_retention_minutes * MINUTE_MS

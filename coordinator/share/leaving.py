"""Removal of members of share groups: they leave or time out."""

from quorate.codecs.api import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from quorate.coordinator.consumer.checks import existing_member
from quorate.coordinator.consumer.subscriptions import hash_of
from quorate.coordinator.results import Result
from quorate.coordinator.sessions import Sessions, session_timer
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.share import records as write
from quorate.coordinator.state.share import ShareGroup, ShareMember


def leave(shard: CoordinatorShard, request: ShareGroupHeartbeatRequest) -> Result[ShareGroupHeartbeatResponse]:
    """Remove a member. Raises `ApiError`: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID."""
    group = shard.group(ShareGroup, request.group_id)
    member = existing_member(group, request.member_id)
    response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return Result(records=_fence(shard, group, member).records, response=response)


def _fence(shard: CoordinatorShard, group: ShareGroup, member: ShareMember) -> Result[None]:
    """Remove a member, and increment the group epoch."""
    names = shard.image.topics.keys() & group.topic_subscribers.keys()
    left = frozenset(filter(names.__contains__, member.metadata.subscribed_topic_names))
    topics = {name: 1 for name in names if group.topic_subscribers[name] > (name in left)}
    records = write.member_tombstones(group.group_id, member.member_id)
    records.append(write.group_epoch(group.group_id, group.epoch + 1, hash_of(shard, topics)))
    if shard.behaviour.empties_target and len(group.members) == 1:
        records.append(write.target_epoch(group.group_id, group.epoch + 1, 0))
    shard.timers.cancel(session_timer(group.group_id, member.member_id))
    return Result(records=records)


SESSIONS = Sessions(
    ShareGroup, "group_share_session_timeout_ms", lambda shard, group, member, _: _fence(shard, group, member)
)


def restart_sessions(shard: CoordinatorShard, group: ShareGroup, now_ms: int) -> None:
    """Start sessions and the retry interval of initializing partitions after a load."""
    group.initializing_since_ms = now_ms
    SESSIONS.restart(shard, group, now_ms)

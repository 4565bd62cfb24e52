"""The heartbeat that comes most often: of a member that is where it shall be, and says only that it lives.

What is to be answered is known without looking further.

There are no records, the epoch stays, nothing is assigned: what the whole way (`heartbeat`) would
come to, step by step.
"""

from functools import lru_cache

from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from quorate.coordinator.consumer.sessions import start_session
from quorate.coordinator.consumer.subscriptions import is_stale
from quorate.coordinator.results import RequestContext
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup

__all__ = ["answer_at_rest"]


def answer_at_rest(
    shard: CoordinatorShard, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | None:
    """The answer, and the member's session begins anew; `None`, with nothing done, where more has to be looked at.

    The member announces nothing, is at the epoch that it says, and that is the group's and the
    target's; no expression may be due to be matched, no metadata hash to be computed. With plug-ins
    there is always more to look at. Members that say the same get one and the same object.
    """
    if (
        request.member_epoch <= 0
        or request.rebalance_timeout_ms != -1
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.instance_id is not None
        or request.rack_id is not None
        or request.server_assignor is not None
        or shard.extensions
    ):
        return None
    group_id, member_id = request.group_id, request.member_id
    group = shard.state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or group_id[:1] <= " ":  # names that may be blank are refused elsewhere
        return None
    member = group.members.get(member_id)
    if member is None or member_id[:1] <= " ":
        return None
    epoch, metadata, now_ms = request.member_epoch, member.metadata, context.now_ms
    if (
        not member.is_reconciled_to(epoch)
        or group.epoch != epoch
        or group.assignment_epoch != epoch
        or metadata.client_id != context.client_id
        or metadata.client_host != context.client_host
        or metadata.classic_member_metadata is not None
        or group.regex_subscribers
        or is_stale(group, now_ms)
    ):
        return None
    start_session(shard, group_id, member_id, now_ms)
    return _the_same(member_id, epoch, shard.config_of(group_id, "group_consumer_heartbeat_interval_ms"))


@lru_cache(maxsize=4096)
def _the_same(member_id: str, epoch: int, interval_ms: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms)

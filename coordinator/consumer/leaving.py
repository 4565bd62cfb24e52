"""Removal of members: they leave, are fenced, or time out."""

from collections.abc import Sequence
from dataclasses import replace

from quorate.assignors.java_order import JavaHashMap
from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.checks import check_static_member, existing_member
from quorate.coordinator.consumer.members import static_member
from quorate.coordinator.consumer.owned import Order
from quorate.coordinator.consumer.partition_metadata import Subscriptions, changed_record
from quorate.coordinator.consumer.subscriptions import hash_of, without_members
from quorate.coordinator.conversion.downgrade import downgrade
from quorate.coordinator.results import Result
from quorate.coordinator.sessions import Sessions, cancel_timers
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import LEAVE_STATIC, ConsumerMember, MemberState, recorded


def leave(
    shard: CoordinatorShard, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> Result[ConsumerGroupHeartbeatResponse]:
    """Remove a member (epoch -1), or keep a static member that leaves temporarily (epoch -2).

    Raises `ApiError`: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID.
    """
    group = shard.group(ConsumerGroup, request.group_id)
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.instance_id is None:
        member = existing_member(group, request.member_id)
    else:
        member = check_static_member(static_member(group, request.instance_id), request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_STATIC:
            return Result(records=[_away(shard, member, group.group_id)], response=response)
    result = fence(shard, group, [member], now_ms)
    return result.with_response(response)


def _away(shard: CoordinatorShard, member: ConsumerMember, group_id: str) -> CoordinatorRecord:
    """Return the record of a static member that left temporarily.

    It keeps its assignment, at assignment epoch 0, so that no commit is older. Its session timeout
    keeps running.
    """
    order = Order.of(shard.config)
    kept = order.loaded(member.assigned)
    if order.maps:
        kept = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in order.loaded(kept).items()}
    away = replace(member, epoch=LEAVE_STATIC, assigned_partitions=recorded(kept), partitions_pending_revocation=())
    return write.current_assignment(group_id, away, epochs=order.maps)


def fence(
    shard: CoordinatorShard, group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int
) -> Result[None]:
    """Remove members.

    Either the group is downgraded to a classic group, or its epoch is incremented.
    """
    if not members:
        return Result()
    converted = downgrade(shard, group, members, now_ms)
    if converted is not None:
        return converted
    records = removal(shard, group, members)
    for member in members:
        cancel_timers(shard, group.group_id, member.member_id)
    return Result(records=records)


def removal(
    shard: CoordinatorShard, group: ConsumerGroup, members: Sequence[ConsumerMember]
) -> list[CoordinatorRecord]:
    """Return the records that remove members.

    They delete the members and the regexes without other subscribers, and increment the group
    epoch. An empty group also gets its target epoch.
    """
    group_id = group.group_id
    records = [
        member_tombstone
        for member in members
        for member_tombstone in write.member_tombstones(group_id, member.member_id)
    ]
    subscribers: JavaHashMap[str, int] = JavaHashMap()
    for member in members:
        if regex := member.metadata.subscribed_topic_regex:
            subscribers.put(regex, subscribers.compute_if_absent(regex, int) + 1)
    dropped = [regex for regex, count in subscribers.items() if group.regex_subscribers.get(regex) == count]
    records += [write.regex_tombstone(group_id, regex) for regex in dropped]
    computed = 0
    if shard.behaviour.metadata_hash:
        computed = hash_of(shard, without_members(shard, group, members, dropped))
    else:
        subscriptions = Subscriptions(shard, group)
        for member in members:
            subscriptions.change(member, None)
        for regex in dropped:
            subscriptions.match(regex, ())
        records += changed_record(group, subscriptions.topics(shard.image))
    records.append(write.group_epoch(group_id, group.epoch + 1, computed))
    if shard.behaviour.empties_target and len(members) == len(group.members):
        records.append(write.target_epoch(group_id, group.epoch + 1, 0))
    return records


SESSIONS = Sessions(
    ConsumerGroup,
    "group_consumer_session_timeout_ms",
    lambda shard, group, member, now_ms: fence(shard, group, [member], now_ms),
    MemberState.UNREVOKED_PARTITIONS,
)

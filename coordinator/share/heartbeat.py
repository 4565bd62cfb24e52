"""ShareGroupHeartbeat v1 (KIP-932): members join, receive assignments, and leave."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from quorate.codecs.api.share_group_heartbeat import Assignment, TopicPartitions
from quorate.coordinator.consumer.checks import check_not_full, existing_member
from quorate.coordinator.consumer.members import same_names
from quorate.coordinator.consumer.owned import Partitions, as_recorded, as_target, equal
from quorate.coordinator.consumer.subscriptions import REFRESH_INTERVAL_MS, hash_of, is_stale
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.share import records as write
from quorate.coordinator.share.checks import JOIN, LEAVE, check_epoch, check_request
from quorate.coordinator.share.initialisation import initialize, uninitialized
from quorate.coordinator.share.leaving import SESSIONS, leave
from quorate.coordinator.share.states import advanced_to
from quorate.coordinator.share.subscriptions import in_map_order, subscribers, subscription_type_of, updated_metadata
from quorate.coordinator.share.target import (
    ShareTargetRequest,
    filter_subscribed,
    next_target,
    waits_for_target,
)
from quorate.coordinator.state.share import ShareGroup, ShareMember


def share_group_heartbeat(
    shard: CoordinatorShard, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> Result[ShareGroupHeartbeatResponse]:
    """Handle a heartbeat. Raises `ApiError`; see `check_request` and `_group_and_member`."""
    check_request(request)
    if request.member_epoch == LEAVE:
        return leave(shard, request)
    return _heartbeat(shard, request, context)


def _heartbeat(
    shard: CoordinatorShard, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> Result[ShareGroupHeartbeatResponse]:
    now_ms, jdk = context.now_ms, shard.config.jdk
    records: list[CoordinatorRecord] = []
    group, before = _group_and_member(shard, request)
    group_id, member_id = group.group_id, before.member_id

    # 1. Update the member's metadata. Increment the group epoch if subscriptions, topics or
    # assignable partitions changed.
    metadata = updated_metadata(before.metadata, request, context)
    member = replace(before, metadata=metadata)
    old_names = before.metadata.subscribed_topic_names
    topics = old_names if request.subscribed_topic_names is None else tuple(request.subscribed_topic_names)
    if metadata is not before.metadata:
        records.append(write.member_metadata(group_id, member_id, metadata))
    bump = not same_names(topics, old_names)
    if group.assignment_epoch >= group.epoch or not shard.behaviour.assignment_interval:
        bump = waits_for_target(shard, group) or bump
    epoch = group.epoch
    size = len(group.members) + (member_id not in group.members)
    counts: Mapping[str, int] = group.topic_subscribers
    in_order: Callable[[Collection[str]], list[str]] = group.topic_subscribers.in_order
    if bump or is_stale(group, now_ms):
        counts = subscribers(group, old_names, topics)
        in_order = partial(in_map_order, group, old_names, topics, size=len(counts), jdk=jdk)
        computed = hash_of(shard, counts)
        bump = bump or computed != group.metadata_hash
        if bump:
            epoch += 1
            records.append(write.group_epoch(group_id, epoch, computed))
        group.refresh_at_ms, group.refresh_epoch = now_ms + REFRESH_INTERVAL_MS, epoch

    # 2. Compute a target assignment if the group epoch is newer than the target's.
    target_epoch = group.assignment_epoch
    target: Partitions
    if epoch > group.assignment_epoch and shard.may_assign(group, "group_share_assignment_interval_ms", now_ms):
        kind = subscription_type_of(counts.values(), size)
        target_request = ShareTargetRequest(
            group=group, epoch=epoch, member=member, topics=topics, subscription_type=kind, now_ms=now_ms
        )
        target_epoch, target = epoch, next_target(shard, target_request, records)
    else:
        target = as_target(group.targets.get(member_id, ()), jdk)

    # 3. Assign the target at once: members of share groups revoke nothing first.
    assigned = as_target(member.assigned, jdk)
    updated = member
    if bump or not member.is_reconciled_to(target_epoch):
        subscribed_target = filter_subscribed(target, shard.image, topics, jdk=jdk)
        epoch_changed = target_epoch != member.epoch
        is_new = not equal(subscribed_target, assigned)
        assigned = subscribed_target
        if epoch_changed:
            updated = advanced_to(member, target_epoch)
        updated = replace(updated, assigned=as_recorded(subscribed_target))
        if epoch_changed or is_new:
            records.append(write.current_assignment(group_id, updated))
    SESSIONS.start(shard, group_id, member_id, now_ms)
    is_full = request.member_epoch == JOIN or request.subscribed_topic_names is not None
    response = ShareGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=shard.config_of(group_id, "group_share_heartbeat_interval_ms"),
        assignment=_assignment(assigned) if is_full or not equal(assigned, as_target(before.assigned, jdk)) else None,
    )

    # 4. Initialize the share state of new partitions.
    on_appended: Callable[[], None] | None = None
    new_partitions = uninitialized(shard, group, counts, now_ms, in_order)
    if new_partitions:
        on_written = initialize(shard, group_id, epoch, new_partitions, records)
        on_appended = lambda: on_written(now_ms)  # noqa: E731
    return Result(records=records, response=response, on_appended=on_appended)


def _group_and_member(shard: CoordinatorShard, request: ShareGroupHeartbeatRequest) -> tuple[ShareGroup, ShareMember]:
    """Return the group and the member before this heartbeat; new ones if the member joins.

    Raises `ApiError`: GROUP_ID_NOT_FOUND (also for a group of another type),
    GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, or FENCED_MEMBER_EPOCH.
    """
    joining = request.member_epoch == JOIN
    if joining and request.group_id not in shard.state.groups:
        group = ShareGroup(request.group_id)
        group.epoch = group.assignment_epoch = shard.behaviour.first_epoch
    else:
        group = shard.group(ShareGroup, request.group_id, noun="Share group")
    check_not_full(group, request.member_id, shard.config.group_share_max_size)
    if joining and request.member_id not in group.members:
        return group, ShareMember(member_id=request.member_id)
    member = existing_member(group, request.member_id)
    check_epoch(member, request.member_epoch)
    return group, member


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(numbers)) for topic_id, numbers in assigned.items()
        )
    )

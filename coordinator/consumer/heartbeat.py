"""ConsumerGroupHeartbeat v0–1 (KIP-848): members join, heartbeat and leave.

v1 adds regex subscriptions and member ids that clients generate (KIP-1082).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from quorate.codecs.api.consumer_group_heartbeat import Assignment, TopicPartitions
from quorate.codecs.messages.classic_group import GroupMetadataKey
from quorate.codecs.tags import Tags
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.checks import JOIN, LEAVE, check_capacity, check_request
from quorate.coordinator.consumer.leaving import SESSIONS, leave
from quorate.coordinator.consumer.members import find_or_join, same_names, updated_metadata
from quorate.coordinator.consumer.owned import Order
from quorate.coordinator.consumer.progress import Progress
from quorate.coordinator.consumer.regexes import RegexChange, update_regex
from quorate.coordinator.consumer.stable_heartbeat import stable_member_result
from quorate.coordinator.consumer.subscriptions import Refreshed, is_stale, refresh
from quorate.coordinator.consumer.target import changes_assignor
from quorate.coordinator.conversion.upgrade import upgrade
from quorate.coordinator.records import tombstone
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import LEAVE_STATIC, ConsumerMember, Owned


def consumer_group_heartbeat(
    shard: CoordinatorShard, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Result[ConsumerGroupHeartbeatResponse]:
    """Handle a heartbeat. Raises `ApiError`; see the modules of this package."""
    result = stable_member_result(shard, request, context)
    if result is not None:
        return result
    check_request(shard.config, request, context.api_version)
    if request.member_epoch in (LEAVE, LEAVE_STATIC):
        return leave(shard, request, context.now_ms)
    return _beat(shard, request, context)


def _group_for(
    shard: CoordinatorShard, group_id: str, records: list[CoordinatorRecord], now_ms: int, *, create: bool
) -> ConsumerGroup:
    """Return the consumer group; with `create`, a new one, which replaces an empty classic group.

    A classic group with members is upgraded. Raises `ApiError` GROUP_ID_NOT_FOUND if the group does
    not exist or has another type.
    """
    if create:
        group = shard.state.groups.get(group_id)
        if isinstance(group, ClassicGroup) and not group.is_empty:
            return upgrade(shard, group, records, now_ms)
        if isinstance(group, ClassicGroup):
            records.append(tombstone(GroupMetadataKey(group=group_id)))
        if group is None or isinstance(group, ClassicGroup):
            return _new(shard, group_id)
    return shard.group(ConsumerGroup, group_id, noun="Consumer group")


def _new(shard: CoordinatorShard, group_id: str) -> ConsumerGroup:
    group = ConsumerGroup(group_id)
    group.epoch = group.assignment_epoch = shard.behaviour.first_epoch
    return group


def _beat(
    shard: CoordinatorShard, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Result[ConsumerGroupHeartbeatResponse]:
    now_ms = context.now_ms
    records: list[CoordinatorRecord] = []
    joining = request.member_epoch == JOIN
    group = _group_for(shard, request.group_id, records, now_ms, create=joining)
    check_capacity(shard, group, request.member_id, request.instance_id)
    member_id = request.member_id or str(Uuid(shard.new_id().bytes))
    before = find_or_join(shard, group, member_id, request, records)

    # 1. The member's metadata, and the resulting group epoch.
    metadata = updated_metadata(shard, before.metadata, request, context)
    member = before
    names_changed = tags_changed = False
    if metadata is not before.metadata:
        member = replace(before, metadata=metadata)
        records.append(write.member_metadata(group.group_id, member_id, metadata))
        names_changed = not same_names(metadata.subscribed_topic_names, before.metadata.subscribed_topic_names)
        tags_changed = bool(shard.extensions) and metadata.unknown_tags != before.metadata.unknown_tags
    regex = update_regex(shard, group, before.metadata, metadata, records, context)
    bump = (
        names_changed
        or tags_changed
        or regex is RegexChange.RESOLVED
        or (group.epoch == 0 and shard.behaviour.first_epoch == 0)
        or (shard.behaviour.assignor_bumps and changes_assignor(shard, group, before.metadata, metadata))
    )
    refreshed: Refreshed | None = None
    if bump or is_stale(group, now_ms):
        refreshed = refresh(shard, group, before, member, records, bump=bump, now_ms=now_ms)

    # 2. A new target assignment, if the group epoch is ahead of the target epoch; then one step of
    # the member towards it.
    progress = Progress(
        group=group,
        before=before,
        member=member,
        topics=metadata.subscribed_topic_names
        if request.subscribed_topic_names is None
        else tuple(request.subscribed_topic_names),
        owned=request.topic_partitions,
        subscription_changed=names_changed or regex is not RegexChange.NONE,
        refreshed=refreshed,
        now_ms=now_ms,
    )
    updated = progress.assign_and_reconcile(shard, records)

    SESSIONS.start(shard, group.group_id, member_id, now_ms)
    extra = _NOTHING
    if shard.extensions:
        extra = _extra(shard, progress, updated, joining=joining)
    assignment: Assignment | None = None
    if not updated.has_assigned(before):
        assignment = _assignment(updated.assigned, extra.assignment)
    elif joining or (extra.has_part and updated.epoch != before.epoch) or _is_full(request):
        loaded = Order.of(shard.config).loaded
        assigned = updated.assigned
        assignment = _assignment(assigned if updated is not member else loaded(assigned), extra.assignment)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=shard.config_of(group.group_id, "group_consumer_heartbeat_interval_ms"),
        assignment=assignment,
        unknown_tags=extra.response,
    )
    return Result(records=records, response=response, on_appended=extra.on_appended)


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request has all fields, as when joining or after a lost response."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


class _Extra(NamedTuple):
    """What plug-ins add to a response.

    `has_part`: whether a plug-in adds tags to the assignment
    (`ConsumerGroupExtension.assignment_tags`).
    """

    has_part: bool = False
    assignment: Tags = ()
    response: Tags = ()
    on_appended: Callable[[], None] | None = None


_NOTHING = _Extra()


def _extra(shard: CoordinatorShard, progress: Progress, member: ConsumerMember, *, joining: bool) -> _Extra:
    parts: list[Tags] = []
    responses: list[Tags] = []
    actions: list[Callable[[], None]] = []
    for extension in shard.extensions:
        part = extension.assignment_tags(progress.group, member)
        if part is not None:
            parts.append(part)
        addition = extension.after_heartbeat(
            shard,
            progress.group,
            member,
            target_epoch=progress.epoch if progress.computed_by is extension else None,
            now_ms=progress.now_ms,
            joining=joining,
        )
        responses.append(addition.tags)
        if addition.on_appended is not None:
            actions.append(addition.on_appended)

    def appended() -> None:
        for action in actions:
            action()

    return _Extra(bool(parts), _together(parts), _together(responses), appended if actions else None)


def _together(parts: Sequence[Tags]) -> Tags:
    """Merge the tagged fields of several plug-ins, in the order in which they are written."""
    return tuple(sorted((tag for part in parts for tag in part), key=attrgetter("tag")))


def _assignment(assigned: Owned, tags: Tags) -> Assignment:
    return Assignment(
        unknown_tags=tags,
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in assigned.items()
        ),
    )

"""The member of a heartbeat: found, created, or replacing a static member; and its metadata."""

from collections.abc import Sequence
from dataclasses import replace

from quorate.assignors.java_order import in_java_order
from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.checks import (
    JOIN,
    check_epoch,
    check_static_member,
    existing_member,
    unreleased_instance,
)
from quorate.coordinator.consumer.owned import Order, as_target
from quorate.coordinator.results import RequestContext
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import LEAVE_STATIC, ConsumerMember, recorded


def find_or_join(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    member_id: str,
    request: ConsumerGroupHeartbeatRequest,
    records: list[CoordinatorRecord],
) -> ConsumerMember:
    """Return the member as it was before this heartbeat; a new one if it joins.

    Raises `ApiError`: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, or
    UNRELEASED_INSTANCE_ID.
    """
    if request.instance_id is not None:
        return _find_or_join_static(shard, group, member_id, request.instance_id, request, records)
    if request.member_epoch == JOIN and member_id not in group.members:
        return ConsumerMember(member_id=member_id)
    member = existing_member(group, member_id)
    check_epoch(member, request, rejoins_at_0=shard.behaviour.rejoins_at_0)
    return member


def _find_or_join_static(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    member_id: str,
    instance_id: str,
    request: ConsumerGroupHeartbeatRequest,
    records: list[CoordinatorRecord],
) -> ConsumerMember:
    current = static_member(group, instance_id)
    if request.member_epoch != JOIN:
        found = check_static_member(current, member_id, instance_id)
        check_epoch(found, request, rejoins_at_0=shard.behaviour.rejoins_at_0)
        return found
    if current is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    if not current.uses_classic_protocol and current.epoch != LEAVE_STATIC:
        raise unreleased_instance(instance_id, member_id, current.member_id)
    return replace_static(shard, group, current, member_id, records)


def replace_static(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    old: ConsumerMember,
    member_id: str,
    records: list[CoordinatorRecord],
) -> ConsumerMember:
    """Return the static member with a new member id, at epoch 0 (KIP-345).

    It keeps its metadata, target assignment and current assignment.
    """
    order = Order.of(shard.config)
    metadata, tags = old.metadata, group.target_tags.get(old.member_id, ())
    if not shard.extensions:  # like Kafka, which drops unknown tags
        tags = ()
        if metadata.unknown_tags:
            metadata = replace(metadata, unknown_tags=())
    new = replace(
        old,
        member_id=member_id,
        metadata=metadata,
        epoch=0,
        previous_epoch=0,
        assigned_partitions=recorded(order.loaded(old.assigned)),
        partitions_pending_revocation=recorded(order.loaded(old.pending_revocation)),
    )
    records += write.member_tombstones(group.group_id, old.member_id)
    records.append(write.member_metadata(group.group_id, member_id, as_written(new.metadata)))
    target = as_target(group.targets.get(old.member_id, ()), shard.config.jdk)
    records.append(write.target_assignment(group.group_id, member_id, target, tags))
    records.append(write.current_assignment(group.group_id, new, epochs=order.maps))
    return new


def static_member(group: ConsumerGroup, instance_id: str) -> ConsumerMember | None:
    """Return the member with this instance id.

    Raises `ApiError` UNKNOWN_MEMBER_ID if the member rejoined with another instance id and was then
    removed. As in Kafka, the group still maps the first instance id to it.
    """
    member_id = group.static_members.get(instance_id)
    return None if member_id is None else existing_member(group, member_id)


def updated_metadata(
    shard: CoordinatorShard,
    old: ConsumerGroupMemberMetadataValue,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
) -> ConsumerGroupMemberMetadataValue:
    """Return the member's metadata after this heartbeat; the same object if nothing changed.

    Fields that the request omits stay unchanged. Tagged fields that Kafka does not know belong to
    plug-ins; without plug-ins they are dropped, as by Kafka.

    Raises `ApiError`, see `ConsumerGroupExtension.member_tags`.
    """
    names = request.subscribed_topic_names
    tags = old.unknown_tags
    for extension in shard.extensions:
        tags = extension.member_tags(tags, request)
    if (
        (names is None or same_names(names, old.subscribed_topic_names))
        and old.client_id == context.client_id
        and old.client_host == context.client_host
        and request.instance_id in (None, old.instance_id)
        and request.rack_id in (None, old.rack_id)
        and request.rebalance_timeout_ms in (-1, old.rebalance_timeout_ms)
        and request.server_assignor in (None, old.server_assignor)
        and request.subscribed_topic_regex in (None, old.subscribed_topic_regex)
        and tags == old.unknown_tags
        and old.classic_member_metadata is None
    ):
        return old
    return as_written(
        replace(
            old,
            instance_id=old.instance_id if request.instance_id is None else request.instance_id,
            rack_id=old.rack_id if request.rack_id is None else request.rack_id,
            client_id=context.client_id,
            client_host=context.client_host,
            subscribed_topic_names=old.subscribed_topic_names if names is None else names,
            subscribed_topic_regex=old.subscribed_topic_regex
            if request.subscribed_topic_regex is None
            else request.subscribed_topic_regex,
            rebalance_timeout_ms=old.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms,
            server_assignor=old.server_assignor if request.server_assignor is None else request.server_assignor,
            classic_member_metadata=None,
            unknown_tags=tags if shard.extensions else (),
        )
    )


def same_names(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether both have the same topics, in any order and with repeats."""
    return one == other or set(one) == set(other)


def as_written(metadata: ConsumerGroupMemberMetadataValue) -> ConsumerGroupMemberMetadataValue:
    """Return the metadata as written: topic names sorted, without repeats."""
    names = tuple(in_java_order(dict.fromkeys(metadata.subscribed_topic_names)))
    return metadata if names == metadata.subscribed_topic_names else replace(metadata, subscribed_topic_names=names)

"""Validation of heartbeats: the request, member epochs, static members, group size (KIP-848)."""

from collections.abc import Sequence
from typing import Any, TypeVar

from quorate.assignors.java_order import JavaHashSet
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import LEAVE_STATIC, ConsumerMember, Owned
from quorate.coordinator.state.modern import ModernGroup, ModernMember

M = TypeVar("M", bound=ModernMember)

JOIN = 0
LEAVE = -1

_WHITE = "".join(map(chr, range(33)))
"""Characters that Java's `trim` removes."""


def check_request(config: CoordinatorConfig, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Check a heartbeat, without the group.

    Raises `ApiError`: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    epoch = request.member_epoch
    if version >= 1 or epoch > JOIN or epoch == LEAVE:  # in v0 the coordinator generates ids (KIP-1082)
        check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_not_blank("InstanceId", request.instance_id)
    check_not_blank("RackId", request.rack_id)
    if epoch == JOIN:
        if request.rebalance_timeout_ms == -1:
            raise invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEAVE_STATIC:
        if request.instance_id is None:
            raise invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC:
        raise invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in config.group_consumer_assignors:
        supported = ", ".join(JavaHashSet.of(config.group_consumer_assignors))
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}.",
        )


def check_not_blank(what: str, text: str | None) -> None:
    """Raise `ApiError` INVALID_REQUEST for a blank string."""
    if text is not None and not text.strip(_WHITE):
        raise invalid(f"{what} can't be empty.")


def invalid(message: str) -> ApiError:
    """Return an INVALID_REQUEST error."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def check_capacity(shard: CoordinatorShard, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """Raise `ApiError` GROUP_MAX_SIZE_REACHED for a new member of a full group.

    Since 4.4 not for a static member that replaces itself (KAFKA-20601).
    """
    if instance_id is None or instance_id not in group.static_members or not shard.behaviour.readmits_static:
        check_not_full(group, member_id, shard.config.group_consumer_max_size)


def check_not_full(group: ModernGroup[Any, Any], member_id: str, most: int) -> None:
    """Raise `ApiError` GROUP_MAX_SIZE_REACHED for a new member of a full group."""
    if len(group.members) >= most and (not member_id or member_id not in group.members):
        raise full(group, most)


def full(group: ModernGroup[Any, Any], most: int) -> ApiError:
    """Return a GROUP_MAX_SIZE_REACHED error."""
    return ApiError(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The {group.kind.lower()} group has reached its maximum capacity of {most} members.",
    )


def check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, *, rejoins_at_0: bool) -> None:
    """Raise `ApiError` FENCED_MEMBER_EPOCH for an unexpected member epoch.

    With `rejoins_at_0` (since 4.2, KAFKA-19233) epoch 0 always passes: the member rejoins. The
    previous epoch passes if the member reports no partition that it is not assigned: the response
    with the new epoch may have been lost.
    """
    epoch = request.member_epoch
    if epoch == member.epoch or (epoch == JOIN and rejoins_at_0):
        return
    if (
        epoch > member.epoch
        or epoch != member.previous_epoch
        or not _has_all(member.assigned, request.topic_partitions)
    ):
        raise fenced("consumer", member, epoch)


def existing_member(group: ModernGroup[M, Any], member_id: str) -> M:
    """Return the member. Raises `ApiError` UNKNOWN_MEMBER_ID if it does not exist."""
    member = group.members.get(member_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def fenced(kind: str, member: ModernMember, epoch: int, and_previous: str = "") -> ApiError:
    """Return a FENCED_MEMBER_EPOCH error of a member of a `kind` of group.

    `and_previous`: what is said about the previous epoch, if `epoch` is smaller than the member's.
    """
    compared, more = ("greater", "") if epoch > member.epoch else ("smaller", and_previous)
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {compared} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}){more}. The member must abandon all its partitions and rejoin.",
    )


def _has_all(assigned: Owned, owned: Sequence[TopicPartitions] | None) -> bool:
    if owned is None:
        return False
    return all(topic.topic_id in assigned and assigned[topic.topic_id].keys() >= {*topic.partitions} for topic in owned)


def check_static_member(static: M | None, member_id: str, instance_id: str) -> M:
    """Return the static member of an instance id.

    Raises `ApiError`: UNKNOWN_MEMBER_ID if it does not exist, FENCED_INSTANCE_ID if it has another
    member id.
    """
    if static is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}.",
        )
    return static


def unreleased_instance(instance_id: str | None, member_id: str, owner: str) -> ApiError:
    """Return an UNRELEASED_INSTANCE_ID error. `owner`: the member that has the instance id."""
    return ApiError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is "
        f"owned by {owner} member.",
    )

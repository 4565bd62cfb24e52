"""What a heartbeat has to be like, and what its member has to know (reference: KIP-848, "ConsumerGroupHeartbeat API", validation and epochs)."""

from collections.abc import Sequence
from typing import Any, TypeVar

from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.state.consumer import LEAVE_STATIC, ConsumerMember, Owned
from quorate.coordinator.state.modern import ModernGroup, ModernMember

__all__ = [
    "JOIN",
    "LEAVE",
    "check_epoch",
    "check_holder",
    "check_not_full",
    "check_request",
    "existing_member",
    "fenced",
    "invalid",
    "need_text",
]

M = TypeVar("M", bound=ModernMember)

JOIN = 0
LEAVE = -1

_WHITE = "".join(map(chr, range(33)))
"""What Java's `trim` takes off."""


def check_request(config: CoordinatorConfig, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """What can be told without looking at the group.

    Raises `ApiError`: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    epoch = request.member_epoch
    if version >= 1 or epoch > JOIN or epoch == LEAVE:  # in version 0 the coordinator made up ids (KIP-1082)
        need_text("a member id", request.member_id)
    need_text("a group id", request.group_id)
    need_text("an instance id", request.instance_id)
    need_text("a rack", request.rack_id)
    if epoch == JOIN:
        if request.rebalance_timeout_ms == -1:
            raise invalid("a member that joins has to give its rebalance timeout")
        if request.topic_partitions is None or request.topic_partitions:
            raise invalid("a member that joins has to say that it owns nothing")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise invalid("a member that joins has to subscribe, by names or by an expression")
    elif epoch == LEAVE_STATIC:
        if request.instance_id is None:
            raise invalid("only static members can leave for a while")
    elif epoch < LEAVE_STATIC:
        raise invalid(f"there is no member epoch {epoch}")
    if request.server_assignor is not None and request.server_assignor not in config.group_consumer_assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"no assignor {request.server_assignor}; there are {', '.join(config.group_consumer_assignors)}",
        )


def need_text(what: str, text: str | None) -> None:
    """Raises `ApiError` for a text of nothing but white space."""
    if text is not None and not text.strip(_WHITE):
        raise invalid(f"{what} cannot be empty")


def invalid(message: str) -> ApiError:
    """The error of a request that contradicts itself."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def check_not_full(group: ModernGroup[Any, Any], member_id: str, most: int) -> None:
    """Raises `ApiError` GROUP_MAX_SIZE_REACHED for a member id that is new in a group with as many members as there may be."""
    if len(group.members) >= most and (not member_id or member_id not in group.members):
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id} has {most} members already")


def check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, *, rejoins_at_0: bool) -> None:
    """Raises `ApiError` FENCED_MEMBER_EPOCH for an epoch that the member cannot have.

    With `rejoins_at_0` (since 4.2, KAFKA-19233) 0 always passes: it joins again. The previous epoch
    passes if the member owns nothing that it does not have: the answer with the new epoch may have
    been lost.
    """
    epoch = request.member_epoch
    if epoch == member.epoch or (epoch == JOIN and rejoins_at_0):
        return
    if (
        epoch > member.epoch
        or epoch != member.previous_epoch
        or not _has_all(member.assigned, request.topic_partitions)
    ):
        raise fenced(member, epoch)


def existing_member(group: ModernGroup[M, Any], member_id: str) -> M:
    """The member of this id. Raises `ApiError` UNKNOWN_MEMBER_ID if there is none."""
    member = group.members.get(member_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of group {group.group_id}")
    return member


def fenced(member: ModernMember, epoch: int) -> ApiError:
    """The error of a member at an epoch that it cannot have."""
    return ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"member {member.member_id} says epoch {epoch}, and is at {member.epoch}; it has to join again",
    )


def _has_all(assigned: Owned, owned: Sequence[TopicPartitions] | None) -> bool:
    if owned is None:
        return False
    return all(topic.topic_id in assigned and assigned[topic.topic_id].keys() >= {*topic.partitions} for topic in owned)


def check_holder(holder: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """The static member of an instance id.

    Raises `ApiError`: UNKNOWN_MEMBER_ID if there is none, FENCED_INSTANCE_ID if it has another
    member id.
    """
    if holder is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no static member {instance_id}")
    if holder.member_id != member_id:
        raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id} is member {holder.member_id} by now")
    return holder

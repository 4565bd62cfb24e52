"""Validation of share group heartbeats (KIP-932, "ShareGroupHeartbeat API")."""

from quorate.codecs.api import ShareGroupHeartbeatRequest
from quorate.coordinator.consumer.checks import JOIN, LEAVE, check_not_blank, fenced, invalid
from quorate.coordinator.state.share import ShareMember

__all__ = ["JOIN", "LEAVE", "check_epoch", "check_request"]


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Check a heartbeat, without the group. Raises `ApiError` INVALID_REQUEST."""
    check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_not_blank("RackId", request.rack_id)
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        raise invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE:
        raise invalid("MemberEpoch is invalid.")


def check_epoch(member: ShareMember, epoch: int) -> None:
    """Raise `ApiError` FENCED_MEMBER_EPOCH for an unexpected member epoch.

    Epoch 0 rejoins. The previous epoch passes, as a response may have been lost.
    """
    if epoch not in (JOIN, member.epoch) and (epoch > member.epoch or epoch != member.previous_epoch):
        previous = f", and it does not match the previous member epoch ({member.previous_epoch})"
        raise fenced("share", member, epoch, previous)

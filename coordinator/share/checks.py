"""What a heartbeat has to be like, and what its member has to know (KIP-932, "ShareGroupHeartbeat API")."""

from quorate.codecs.api import ShareGroupHeartbeatRequest
from quorate.coordinator.consumer.checks import JOIN, LEAVE, fenced, invalid, need_text
from quorate.coordinator.state.share import ShareMember

__all__ = ["JOIN", "LEAVE", "check_epoch", "check_request"]


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """What can be told without looking at the group. Raises `ApiError` INVALID_REQUEST."""
    need_text("a member id", request.member_id)
    need_text("a group id", request.group_id)
    need_text("a rack", request.rack_id)
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        raise invalid("a member that joins has to subscribe to topics")
    if request.member_epoch < LEAVE:
        raise invalid(f"there is no member epoch {request.member_epoch}")


def check_epoch(member: ShareMember, epoch: int) -> None:
    """Raises `ApiError` FENCED_MEMBER_EPOCH for an epoch that the member cannot have: 0 joins again, and the previous one passes, as an answer may be lost."""
    if epoch not in (JOIN, member.epoch) and (epoch > member.epoch or epoch != member.previous_epoch):
        raise fenced(member, epoch)

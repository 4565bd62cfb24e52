"""What a heartbeat has to be like, and what its member has to know (KIP-932, "ShareGroupHeartbeat API")."""

from quorate.codecs.api import ShareGroupHeartbeatRequest
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.state.share import ShareGroup, ShareMember

__all__ = ["JOIN", "LEAVE", "check_epoch", "check_not_full", "check_request"]

JOIN = 0
LEAVE = -1

_WHITE = "".join(map(chr, range(33)))
"""What Java's `trim` takes off."""


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """What can be told without looking at the group. Raises `ApiError` INVALID_REQUEST."""
    for what, text in (
        ("a member id", request.member_id),
        ("a group id", request.group_id),
        ("a rack", request.rack_id),
    ):
        if text is not None and not text.strip(_WHITE):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} cannot be empty")
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a member that joins has to subscribe to topics")
    if request.member_epoch < LEAVE:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no member epoch {request.member_epoch}")


def check_not_full(config: CoordinatorConfig, group: ShareGroup, member_id: str) -> None:
    """Raises `ApiError` GROUP_MAX_SIZE_REACHED for a member id that is new in a group with as many members as there may be."""
    if len(group.members) >= config.group_share_max_size and member_id not in group.members:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {group.group_id} has {config.group_share_max_size} members already",
        )


def check_epoch(member: ShareMember, epoch: int) -> None:
    """Raises `ApiError` FENCED_MEMBER_EPOCH for an epoch that the member cannot have: 0 joins again, and the previous one passes, as an answer may be lost."""
    if epoch not in (JOIN, member.epoch) and (epoch > member.epoch or epoch != member.previous_epoch):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member {member.member_id} says epoch {epoch}, and is at {member.epoch}; it has to join again",
        )

"""Whether whoever says to be a member is one."""

from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.state.classic import ClassicGroup

__all__ = ["check_member"]


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
    """Raise `ApiError`: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if the static member of this name is another one by now (KIP-345)."""
    if instance_id is not None:
        holder = group.static_member(instance_id)
        if holder is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{instance_id} is not a static member of {group.group_id}")
        if holder != member_id:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id} is another member by now")
    if member_id not in group.members:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of group {group.group_id}")

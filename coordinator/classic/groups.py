"""Finding a live classic group, or making one."""

from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup
from quorate.coordinator.state.groups import CoordinatorGroup

__all__ = ["alive", "existing", "live_group", "new_group"]


def live_group(shard: CoordinatorShard, group_id: str, now_ms: int) -> LiveGroup | None:
    """The classic group of this id, brought to life; `None` if there is none."""
    group = shard.state.groups.get(group_id)
    return alive(shard, group, now_ms) if isinstance(group, ClassicGroup) else None


def existing(shard: CoordinatorShard, group_id: str) -> CoordinatorGroup:
    """The group of this id, of any kind. Raises `ApiError`: INVALID_GROUP_ID, or UNKNOWN_MEMBER_ID, as nobody is a member of what is not there."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    group = shard.state.groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id}")
    return group


def alive(shard: CoordinatorShard, group: ClassicGroup, now_ms: int) -> LiveGroup:
    """A group of the shard, brought to life if it is as the log told it."""
    if isinstance(group, LiveGroup):
        return group
    live = LiveGroup.of(group, now_ms)
    shard.state.groups.exchange(group.group_id, live)
    return live


def new_group(shard: CoordinatorShard, group_id: str, now_ms: int) -> LiveGroup:
    """A group without members, which is there at once; the record that says so is the caller's business."""
    group = LiveGroup(group_id, since_ms=now_ms)
    shard.state.groups[group_id] = group
    return group

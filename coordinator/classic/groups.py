"""Finding a live classic group, or making one; whether a member is in it; and its record, type 2."""

from collections.abc import Mapping

from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.classic_group import GroupMetadataKey, GroupMetadataValue
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.records import written
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup
from quorate.coordinator.state.groups import CoordinatorGroup

__all__ = ["alive", "check_member", "existing", "group_record", "live_group", "new_group"]


def live_group(shard: CoordinatorShard, group_id: str, now_ms: int) -> LiveGroup | None:
    """The classic group of this id, brought to life; `None` if there is none."""
    group = shard.state.groups.get(group_id)
    return alive(shard, group, now_ms) if isinstance(group, ClassicGroup) else None


def existing(shard: CoordinatorShard, group_id: str) -> CoordinatorGroup:
    """The group of this id, of any kind.

    Raises `ApiError`: INVALID_GROUP_ID, or UNKNOWN_MEMBER_ID, as nobody is a member of what is not
    there.
    """
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


def group_record(group: LiveGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The group as it is, with these assignments by member id."""
    return written(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol,
            leader=group.leader,
            current_state_timestamp=group.since_ms,
            members=group.recorded_members(assignments),
        ),
    )

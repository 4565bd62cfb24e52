"""Lookup and creation of live classic groups, member checks, and the group's record (type 2)."""

from collections.abc import Mapping

from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.classic_group import GroupMetadataKey, GroupMetadataValue
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.records import written
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup
from quorate.coordinator.state.groups import CoordinatorGroup


def live_group(shard: CoordinatorShard, group_id: str, now_ms: int) -> LiveGroup | None:
    """Return the classic group as a live group; `None` if it does not exist."""
    group = shard.state.groups.get(group_id)
    return as_live(shard, group, now_ms) if isinstance(group, ClassicGroup) else None


def existing_group(shard: CoordinatorShard, group_id: str) -> CoordinatorGroup:
    """Return the group of any type.

    Raises `ApiError`: INVALID_GROUP_ID, or UNKNOWN_MEMBER_ID if the group does not exist.
    """
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    group = shard.state.groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"unknown group {group_id}")
    return group


def as_live(shard: CoordinatorShard, group: ClassicGroup, now_ms: int) -> LiveGroup:
    """Return a live group, replacing the one that replay created."""
    if isinstance(group, LiveGroup):
        return group
    live = LiveGroup.of(group, now_ms)
    shard.state.groups.exchange(group.group_id, live)
    return live


def new_group(shard: CoordinatorShard, group_id: str, now_ms: int) -> LiveGroup:
    """Create a group without members; the caller writes its record."""
    group = LiveGroup(group_id, since_ms=now_ms)
    shard.state.groups[group_id] = group
    return group


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
    """Raise `ApiError` for a wrong member id.

    UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has the instance id (KIP-345).
    """
    if instance_id is not None:
        holder = group.static_member(instance_id)
        if holder is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"unknown static member {instance_id} of group {group.group_id}"
            )
        if holder != member_id:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"instance id {instance_id} is used by another member")
    if member_id not in group.members:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of group {group.group_id}")


def group_record(group: LiveGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """Return the record of the group, with these assignments by member id."""
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

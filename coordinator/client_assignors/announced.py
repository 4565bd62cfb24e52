"""What heartbeats say of client-side assignors, and what members are told of an assignment that one has made."""

from collections.abc import Sequence

from quorate.codecs.api.consumer_group_heartbeat import AssignedMetadata
from quorate.codecs.messages.consumer_group import ClientAssignor
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember

__all__ = ["announced_assignors", "told_with"]


def announced_assignors(
    old: tuple[ClientAssignor, ...], given: Sequence[ClientAssignor] | None
) -> tuple[ClientAssignor, ...]:
    """What a member announces after a heartbeat that has `given`; the same object if it is left out. Raises `ApiError` INVALID_REQUEST."""
    if given is None:
        return old
    names: set[str] = set()
    for one in given:
        if not one.name.strip():
            raise _invalid("a client-side assignor needs a name")
        if one.name in names:
            raise _invalid(f"assignor {one.name} is announced twice")
        names.add(one.name)
        if not 0 <= one.minimum_version <= one.maximum_version:
            raise _invalid(
                f"assignor {one.name} cannot understand versions {one.minimum_version} to {one.maximum_version}"
            )
        if not one.minimum_version <= one.metadata_version <= one.maximum_version:
            raise _invalid(
                f"assignor {one.name} has metadata of version {one.metadata_version}, but understands {one.minimum_version} to {one.maximum_version}"
            )
    return tuple(given)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def told_with(group: ConsumerGroup, member: ConsumerMember) -> AssignedMetadata | None:
    """What a member is told beside the partitions of its target; `None` unless it has come to a target that a client-side assignor made.

    A static member that takes another's place right now has what that one was told.
    """
    made = group.computed_by
    if made is None or member.epoch != group.assignment_epoch:
        return None
    instance_id = member.metadata.instance_id
    holder = None if instance_id is None else group.static_members.get(instance_id)
    metadata = group.target_metadata.get(holder or member.member_id)
    return AssignedMetadata(
        assignor=made.assignor,
        error=made.error,
        metadata_version=0 if metadata is None else metadata.version,
        metadata=b"" if metadata is None else metadata.data,
    )

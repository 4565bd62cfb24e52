"""The one record of a classic group, type 2."""

from collections.abc import Mapping

from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.classic_group import GroupMetadataKey, GroupMetadataValue
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.records import written

__all__ = ["group_record"]


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

"""Streams groups (KIP-1071) as stored in records."""

from dataclasses import dataclass, replace
from typing import ClassVar

from quorate.codecs.messages.streams_group import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTopologyValue,
)
from quorate.coordinator.state.groups import GroupKind
from quorate.coordinator.state.modern import LEFT, ModernGroup

__all__ = ["StreamsGroup", "StreamsMember"]

STABLE = 1
"""The member state Stable in records.

Unlike those of consumer groups, the numbers start at 1 (2 unrevoked, 3 unreleased tasks).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """A member with its metadata and current tasks; a compacted log may lack either."""

    member_id: str
    metadata: StreamsGroupMemberMetadataValue | None = None
    current: StreamsGroupCurrentMemberAssignmentValue | None = None

    @property
    def epoch(self) -> int:
        """The epoch that it reached; 0 before its first tasks."""
        return 0 if self.current is None else self.current.member_epoch

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether it has exactly its target tasks of that epoch."""
        return self.epoch == epoch and self.current is not None and self.current.state == STABLE

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> "StreamsMember":
        """Return the member with the current assignment of a record."""
        return replace(self, current=value)

    def without_assignment(self) -> "StreamsMember":
        """Return the member after a tombstone of its current assignment."""
        return replace(self, current=_NOTHING)


_NOTHING = StreamsGroupCurrentMemberAssignmentValue(
    member_epoch=LEFT,
    previous_member_epoch=LEFT,
    state=STABLE,
    active_tasks=(),
    standby_tasks=(),
    warmup_tasks=(),
    active_tasks_pending_revocation=(),
    standby_tasks_pending_revocation=(),
    warmup_tasks_pending_revocation=(),
)


class StreamsGroup(ModernGroup[StreamsMember, StreamsGroupTargetAssignmentMemberValue]):
    """A streams group. `metadata`: its latest record of type 17; `topology`: of type 23."""

    __slots__ = ("metadata", "topology")

    kind: ClassVar[GroupKind] = GroupKind.STREAMS
    member_class = StreamsMember

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.metadata: StreamsGroupMetadataValue | None = None
        self.topology: StreamsGroupTopologyValue | None = None

    @property
    def protocol_type(self) -> str:
        """Always "streams"."""
        return "streams"

    def put_metadata(self, value: StreamsGroupMetadataValue) -> None:
        """Set the group epoch; also keeps the whole record."""
        super().put_metadata(value)
        self.metadata = value

    def put_target(self, member_id: str, value: StreamsGroupTargetAssignmentMemberValue | None) -> None:
        """Set a member's target tasks; `None` for a deletion."""
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = value

    @property
    def topics(self) -> set[str]:
        """The source and internal topics of its topology, which the metadata hash covers."""
        subtopologies = () if self.topology is None else self.topology.subtopologies
        internal = {
            topic.name
            for subtopology in subtopologies
            for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
        }
        return internal.union(*(subtopology.source_topics for subtopology in subtopologies))

    @property
    def state(self) -> str:
        """As for other groups; NotReady until its topology is validated."""
        validated = -1 if self.metadata is None else self.metadata.validated_topology_epoch
        if self.members and (self.topology is None or self.topology.epoch != validated):
            return "NotReady"
        return super().state

"""Streams groups (KIP-1071) as stored in records, with what their coordinator keeps in memory."""

from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from quorate.codecs.api.streams_group_heartbeat import EndpointToPartitions
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.streams_group import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTopologyValue,
)
from quorate.coordinator.state.groups import GroupKind, ReplayError
from quorate.coordinator.state.modern import LEFT, ModernGroup
from quorate.coordinator.state.streams_processes import TaskProcesses
from quorate.coordinator.state.streams_tasks import AssignedTasks, StoredTasks

if TYPE_CHECKING:
    from quorate.coordinator.streams.topology import ConfiguredTopology


class TaskState(IntEnum):
    """The state of a member in records.

    Unlike those of consumer groups, the numbers start at 1.
    """

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> "TaskState":
        """Return the state of a record; UNKNOWN for other numbers."""
        return cls(number) if number in (1, 2, 3) else cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """A member with its metadata and current tasks; a log may lack either.

    `assigned`, `pending_revocation`: the tasks in `current`.
    """

    member_id: str
    metadata: StreamsGroupMemberMetadataValue | None = None
    current: StreamsGroupCurrentMemberAssignmentValue | None = None
    assigned: AssignedTasks = AssignedTasks.NONE
    pending_revocation: AssignedTasks = AssignedTasks.NONE

    @property
    def epoch(self) -> int:
        """The epoch that it reached; 0 before its first tasks."""
        return 0 if self.current is None else self.current.member_epoch

    @property
    def state(self) -> TaskState:
        """Its state; UNKNOWN before its first tasks."""
        return TaskState.UNKNOWN if self.current is None else TaskState.of(self.current.state)

    @property
    def process_id(self) -> str | None:
        """The process that it runs in; `None` without metadata."""
        return None if self.metadata is None else self.metadata.process_id

    @property
    def instance_id(self) -> str | None:
        """The id of a static member."""
        return None if self.metadata is None else self.metadata.instance_id

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether it has exactly its target tasks of that epoch."""
        return self.epoch == epoch and self.state is TaskState.STABLE

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> "StreamsMember":
        """Return the member with the current assignment of a record."""
        epoch = value.member_epoch
        return replace(
            self,
            current=value,
            assigned=AssignedTasks.of(value.active_tasks, value.standby_tasks, value.warmup_tasks, epoch=epoch),
            pending_revocation=AssignedTasks.of(
                value.active_tasks_pending_revocation,
                value.standby_tasks_pending_revocation,
                value.warmup_tasks_pending_revocation,
                epoch=epoch,
            ),
        )

    def without_assignment(self) -> "StreamsMember":
        """Return the member after a tombstone of its current assignment. It keeps its state."""
        left = _NOTHING if self.current is None else replace(_NOTHING, state=self.current.state)
        return replace(self, current=left, assigned=AssignedTasks.NONE, pending_revocation=AssignedTasks.NONE)


NO_STATE = -128
"""The state of a member that left before it had one; in no record."""

_NOTHING = StreamsGroupCurrentMemberAssignmentValue(
    member_epoch=LEFT,
    previous_member_epoch=LEFT,
    state=NO_STATE,
    active_tasks=(),
    standby_tasks=(),
    warmup_tasks=(),
    active_tasks_pending_revocation=(),
    standby_tasks_pending_revocation=(),
    warmup_tasks_pending_revocation=(),
)


class MemberTaskOffsets(NamedTuple):
    """Offsets that a member reported: subtopology id → partition → offset."""

    offsets: Mapping[str, Mapping[int, int]] = {}
    end_offsets: Mapping[str, Mapping[int, int]] = {}


class Refined(NamedTuple):
    """The target tasks by member of the last heartbeat, which Kafka keeps per target epoch.

    Kafka 4.4 plans to refine them by warm-up tasks, but takes them as they are.
    `version`: `StreamsGroup.targets_version` of their copy, -1 for none.
    """

    epoch: int = -1
    tasks: Mapping[str, StoredTasks] = {}
    version: int = -1


class WrittenStreams(NamedTuple):
    """What is in no record of a group, but is reverted when a write fails, as in Kafka."""

    configured: "ConfiguredTopology | None"
    refined: Refined


class StreamsGroup(ModernGroup[StreamsMember, StreamsGroupTargetAssignmentMemberValue]):
    """A streams group. `metadata`: its latest record of type 17; `topology`: of type 23.

    `static_members`: instance id → member id. `processes`: those that run tasks. `targets_version`:
    increases when a target changes.

    The rest is in no record, as in Kafka. `configured`: the topology with partition counts;
    `endpoint_epoch`: increases with each change of the endpoint information, which members receive
    when it differs from theirs; `endpoints`: member id → endpoint information;
    `shutdown_member_id`: the member that shuts down the application; `task_offsets`:
    by member id; `refined`: see there.
    """

    __slots__ = (
        "configured",
        "endpoint_epoch",
        "endpoints",
        "metadata",
        "processes",
        "refined",
        "shutdown_member_id",
        "static_members",
        "targets_version",
        "task_offsets",
        "topology",
    )

    kind: ClassVar[GroupKind] = GroupKind.STREAMS
    member_class = StreamsMember

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.metadata: StreamsGroupMetadataValue | None = None
        self.topology: StreamsGroupTopologyValue | None = None
        self.static_members: dict[str, str] = {}
        self.processes = TaskProcesses()
        self.targets_version = 0
        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        self.endpoints: dict[str, EndpointToPartitions] = {}
        self.shutdown_member_id: str | None = None
        self.task_offsets: dict[str, MemberTaskOffsets] = {}
        self.refined = Refined()

    @property
    def protocol_type(self) -> str:
        """Always "streams"."""
        return "streams"

    @property
    def validated_topology_epoch(self) -> int:
        """The epoch of the last topology whose topics were valid, or -1."""
        return -1 if self.metadata is None else self.metadata.validated_topology_epoch

    @property
    def assignment_configs(self) -> Mapping[str, str]:
        """The configs of the last target assignment."""
        configs = () if self.metadata is None else self.metadata.last_assignment_configs or ()
        return {config.key: config.value for config in configs}

    def static_member(self, instance_id: str) -> StreamsMember | None:
        """Return the static member of an instance id, or `None`."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def request_shutdown(self, member_id: str) -> None:
        """Shut down the application. The first request counts until the group is empty."""
        self.shutdown_member_id = self.shutdown_member_id or member_id

    @property
    def source_topics(self) -> set[str]:
        """The topics that its members read, including repartition topics."""
        subtopologies = () if self.topology is None else self.topology.subtopologies
        repartition = {topic.name for one in subtopologies for topic in one.repartition_source_topics}
        return repartition.union(*(one.source_topics for one in subtopologies))

    @property
    def topics(self) -> set[str]:
        """The source and internal topics of its topology, which the metadata hash covers."""
        subtopologies = () if self.topology is None else self.topology.subtopologies
        return self.source_topics | {topic.name for one in subtopologies for topic in one.state_changelog_topics}

    @property
    def state(self) -> str:
        """As for other groups; NotReady until its topology is validated."""
        if self.members and (self.topology is None or self.topology.epoch != self.validated_topology_epoch):
            return "NotReady"
        return super().state

    # Replay

    def put_metadata(self, value: StreamsGroupMetadataValue) -> None:
        """Set the group epoch; also keeps the whole record."""
        super().put_metadata(value)
        self.metadata = value

    def put_target(self, member_id: str, value: StreamsGroupTargetAssignmentMemberValue | None) -> None:
        """Set a member's target tasks; `None` for a deletion."""
        self.targets_version += 1
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = value

    def put_topology(self, value: StreamsGroupTopologyValue | None) -> None:
        """Set the topology; `None` for a deletion. Raises `ReplayError` for an invalid one."""
        if value is not None and value.epoch < 0:
            raise ReplayError(f"group {self.group_id}: topology epoch {value.epoch}")
        if value is not None and len({one.subtopology_id for one in value.subtopologies}) < len(value.subtopologies):
            raise ReplayError(f"group {self.group_id}: topology with duplicate subtopologies")
        before = self.topics
        self.topology = value
        after = self.topics
        self.topics_changed(after - before, before - after)

    def put_member(self, member: StreamsMember) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        super().put_member(member)
        if old is not None:
            self._forget(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if member.process_id is not None:
            self.processes.add(member.assigned, member.process_id)
            self.processes.add(member.pending_revocation, member.process_id)
        self.endpoints.pop(member.member_id, None)

    def remove_member(self, member_id: str) -> None:
        """Remove an existing member; the last one also ends a shutdown of the application."""
        self._forget(self.members.pop(member_id))
        self.endpoints.pop(member_id, None)
        self.task_offsets.pop(member_id, None)
        if not self.members:
            self.shutdown_member_id = None

    def not_written(self, member_id: str, *, removed: bool) -> None:
        """Take note that a record of a member was not written, or the tombstone that removes it."""
        self.endpoints.pop(member_id, None)
        if removed:
            self.task_offsets.pop(member_id, None)
            if self.members.keys() <= {member_id}:
                self.shutdown_member_id = None

    def _forget(self, member: StreamsMember) -> None:
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if member.process_id is not None:
            self.processes.remove(member.assigned, member.process_id)
            self.processes.remove(member.pending_revocation, member.process_id)

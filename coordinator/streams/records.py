"""Records of streams groups. Kafka writes tasks by subtopology id and partition."""

from collections.abc import Mapping

from quorate.assignors.java_order import string_key
from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.streams_group import (
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TargetTaskIds,
    TaskIds,
)
from quorate.coordinator.records import tombstone, written
from quorate.coordinator.state.streams import StreamsGroup, StreamsMember, TaskState
from quorate.coordinator.state.streams_tasks import ActiveTasks, AssignedTasks, TargetTasks, Tasks


def member_metadata(group_id: str, member_id: str, metadata: StreamsGroupMemberMetadataValue) -> CoordinatorRecord:
    """Return the record of a member's metadata."""
    return written(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), metadata)


def group_epoch(
    group: StreamsGroup, epoch: int, metadata_hash: int, *, validated_epoch: int, configs: Mapping[str, str]
) -> CoordinatorRecord:
    """Return the record of the group epoch, the metadata hash (KIP-1101) and what was validated.

    `configs`: of the assignment.
    """
    before = group.metadata
    return written(
        StreamsGroupMetadataKey(group_id=group.group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_epoch,
            last_assignment_configs=tuple(
                LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs, key=string_key)
            ),
            stored_description_topology_epoch=-1 if before is None else before.stored_description_topology_epoch,
            failed_description_topology_epoch=-1 if before is None else before.failed_description_topology_epoch,
        ),
    )


def topology(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    """Return the record of the topology."""
    return written(StreamsGroupTopologyKey(group_id=group_id), value)


def target_assignment(group_id: str, member_id: str, target: TargetTasks) -> CoordinatorRecord:
    """Return the record of a member's target tasks."""
    return written(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_targets(target.active),
            standby_tasks=_targets(target.standby),
            warmup_tasks=_targets(target.warmup),
        ),
    )


def target_epoch(group_id: str, epoch: int, assigned_ms: int) -> CoordinatorRecord:
    """Return the record of the target epoch, and when the target was computed (KIP-1263)."""
    return written(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_ms),
    )


def current_assignment(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """Return the record of a member's current tasks."""
    assert member.current is not None  # members without tasks never get here
    return written(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), member.current
    )


def current_value(
    epoch: int, previous_epoch: int, state: TaskState, assigned: AssignedTasks, pending: AssignedTasks
) -> StreamsGroupCurrentMemberAssignmentValue:
    """Return the value of the record of a member's current tasks."""
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=previous_epoch,
        state=int(state),
        active_tasks=_active(assigned.active),
        standby_tasks=_tasks(assigned.standby),
        warmup_tasks=_tasks(assigned.warmup),
        active_tasks_pending_revocation=_active(pending.active),
        standby_tasks_pending_revocation=_tasks(pending.standby),
        warmup_tasks_pending_revocation=_tasks(pending.warmup),
    )


def _targets(tasks: Tasks) -> tuple[TargetTaskIds, ...]:
    return tuple(
        TargetTaskIds(subtopology_id=one, partitions=tuple(sorted(tasks[one]))) for one in sorted(tasks, key=string_key)
    )


def _tasks(tasks: Tasks) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(subtopology_id=one, partitions=tuple(sorted(tasks[one]))) for one in sorted(tasks, key=string_key)
    )


def _active(tasks: ActiveTasks) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(
            subtopology_id=one,
            partitions=tuple(partitions := sorted(tasks[one])),
            assignment_epochs=tuple(tasks[one][partition] for partition in partitions),
        )
        for one in sorted(tasks, key=string_key)
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones that remove a member; the order matters to replay."""
    return [
        tombstone(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a group without members."""
    return [
        tombstone(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        tombstone(StreamsGroupMetadataKey(group_id=group_id)),
        tombstone(StreamsGroupTopologyKey(group_id=group_id)),
    ]

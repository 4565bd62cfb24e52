"""Validation of streams group heartbeats (KIP-1071, "StreamsGroupHeartbeat API")."""

from collections.abc import Sequence

from quorate.codecs.api import StreamsGroupHeartbeatRequest
from quorate.codecs.api.streams_group_heartbeat import TaskIds, Topology
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.consumer.checks import (
    JOIN,
    LEAVE,
    check_not_blank,
    fenced,
    full,
    invalid,
)
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer_member import LEAVE_STATIC
from quorate.coordinator.state.streams import StreamsGroup, StreamsMember
from quorate.coordinator.state.streams_tasks import AssignedTasks
from quorate.coordinator.streams.topology import ConfiguredTopology

__all__ = [
    "JOIN",
    "LEAVE",
    "LEAVE_STATIC",
    "check_capacity",
    "check_epoch",
    "check_has_epoch",
    "check_request",
    "check_tasks",
]


def check_request(request: StreamsGroupHeartbeatRequest, behaviour: Behaviour) -> None:
    """Check a heartbeat, without the group. `behaviour`: that of the release.

    Raises `ApiError`: INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY.
    """
    topology, epoch = request.topology, request.member_epoch
    if not behaviour.streams_instances:
        _check_unsupported(request)
    if topology is not None and any(one.source_topic_regex for one in topology.subtopologies):
        raise invalid("Regular expressions for source topics are not supported yet.")
    check_not_blank("MemberId", request.member_id)
    check_not_blank("GroupId", request.group_id)
    check_not_blank("InstanceId", request.instance_id)
    check_not_blank("RackId", request.rack_id)
    roles = {"Active": request.active_tasks, "Standby": request.standby_tasks, "Warmup": request.warmup_tasks}
    if epoch == JOIN:
        if request.rebalance_timeout_ms == -1:
            raise invalid("RebalanceTimeoutMs must be provided in first request.")
        for role, tasks in roles.items():
            if tasks is None or tasks:
                raise invalid(f"{role}Tasks must be empty when (re-)joining.")
        if topology is None:
            raise invalid("Topology must be non-null when (re-)joining.")
        _check_changelogs(topology)
    elif epoch == LEAVE_STATIC:
        if request.instance_id is None:
            raise invalid("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC:
        raise invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to {LEAVE_STATIC}.")
    if len({tasks is None for tasks in roles.values()}) > 1:
        raise invalid("If one task-type is non-null, all must be non-null.")
    if epoch != JOIN and topology is not None:
        raise invalid("Topology can only be provided when (re-)joining.")


def _check_unsupported(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise `ApiError` INVALID_REQUEST for what Kafka supports since 4.4."""
    if request.instance_id is not None:
        raise invalid("Static membership is not yet supported.")
    for what, tasks in (
        ("TaskOffsets", request.task_offsets),
        ("TaskEndOffsets", request.task_end_offsets),
        ("WarmupTasks", request.warmup_tasks or None),
    ):
        if tasks is not None:
            raise invalid(f"{what} are not supported yet.")


def _check_changelogs(topology: Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise ApiError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, "
                    f"but it is set to {topic.partitions}.",
                )


def check_capacity(shard: CoordinatorShard, group: StreamsGroup, member_id: str, instance_id: str | None) -> None:
    """Raise `ApiError` GROUP_MAX_SIZE_REACHED for a new member of a full group."""
    most = shard.config.group_streams_max_size
    if instance_id in group.static_members or len(group.members) < most or member_id in group.members:
        return
    raise full(group, most)


def check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Raise `ApiError` FENCED_MEMBER_EPOCH for an unexpected member epoch.

    Epoch 0 rejoins. The previous epoch passes if the member reports no task that it is not
    assigned: the response with the new epoch may have been lost.
    """
    epoch = request.member_epoch
    if epoch == JOIN:
        return
    check_has_epoch(member)
    if epoch == member.epoch:
        return
    previous = -1 if member.current is None else member.current.previous_member_epoch
    if epoch > member.epoch or epoch != previous or not _has_all(member.assigned, request):
        raise fenced("streams", member, epoch)


def check_has_epoch(member: StreamsMember) -> None:
    """Raise `ApiError` UNKNOWN_SERVER_ERROR if the log lacks the member's epoch, as Kafka does."""
    if member.current is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member {member.member_id} has no epoch")


def _has_all(assigned: AssignedTasks, request: StreamsGroupHeartbeatRequest) -> bool:
    roles = (
        (request.active_tasks, assigned.active),
        (request.standby_tasks, assigned.standby),
        (request.warmup_tasks, assigned.warmup),
    )
    return all(
        owned is not None
        and all(one.subtopology_id in tasks and set(tasks[one.subtopology_id]) >= {*one.partitions} for one in owned)
        for owned, tasks in roles
    )


def check_tasks(configured: ConfiguredTopology, *owned: Sequence[TaskIds] | None) -> None:
    """Raise `ApiError` INVALID_REQUEST for owned tasks that the topology does not have."""
    subtopologies = configured.subtopologies or {}
    for tasks in owned:
        for task in tasks or ():
            subtopology = subtopologies.get(task.subtopology_id)
            if subtopology is None:
                raise invalid(f"Subtopology {task.subtopology_id} does not exist in the topology.")
            for partition in task.partitions:
                if not 0 <= partition < subtopology.number_of_tasks:
                    raise invalid(
                        f"Task {partition} for subtopology {task.subtopology_id} is invalid. "
                        f"Number of tasks for this subtopology: {subtopology.number_of_tasks}"
                    )

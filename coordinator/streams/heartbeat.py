"""StreamsGroupHeartbeat v0–1 (KIP-1071): members join, receive tasks, and leave.

v1 adds topology descriptions (KIP-1331), which need a plug-in of the broker, and a status for
missing client tags (KAFKA-20744).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from quorate.codecs.api.streams_group_heartbeat import Status, TaskOffset, Topology
from quorate.codecs.messages.streams_group import StreamsGroupTopologyValue
from quorate.coordinator.consumer.checks import invalid
from quorate.coordinator.consumer.subscriptions import REFRESH_INTERVAL_MS, hash_of, is_stale
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.offsets.groups import deleted_group
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup
from quorate.coordinator.state.streams import MemberTaskOffsets, StreamsGroup, StreamsMember
from quorate.coordinator.state.streams_tasks import TargetTasks
from quorate.coordinator.streams import records as write
from quorate.coordinator.streams import responses
from quorate.coordinator.streams.checks import (
    JOIN,
    LEAVE,
    LEAVE_STATIC,
    check_capacity,
    check_request,
    check_tasks,
)
from quorate.coordinator.streams.leaving import SESSIONS, leave
from quorate.coordinator.streams.members import METADATA, changes_assignment, find_or_join, updated_metadata
from quorate.coordinator.streams.reconcile import reconcile
from quorate.coordinator.streams.statuses import StreamsStatus
from quorate.coordinator.streams.target import (
    INITIAL_DELAY_TIMER,
    StreamsTarget,
    StreamsTargetRequest,
    assignment_configs,
    next_target,
    tasks_of_target,
)
from quorate.coordinator.streams.topology import (
    ConfiguredTopology,
    InternalTopologyError,
    InvalidTopologyError,
    configure_topics,
    required_topics,
    topology_value,
)


def streams_group_heartbeat(
    shard: CoordinatorShard, request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> Result[StreamsGroupHeartbeatResponse]:
    """Handle a heartbeat. Raises `ApiError`; see the modules of this package."""
    if not shard.behaviour.streams_groups:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "streams groups require Kafka 4.1 or later")
    check_request(request, shard.behaviour)
    if request.member_epoch in (LEAVE, LEAVE_STATIC):
        return leave(shard, request)
    try:
        return _beat(shard, request, context)
    except InvalidTopologyError as error:
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(error)) from None
    except InternalTopologyError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None


def _beat(
    shard: CoordinatorShard, request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> Result[StreamsGroupHeartbeatResponse]:
    now_ms = context.now_ms
    records: list[CoordinatorRecord] = []
    group = _group_for(shard, request, records)
    group_id, member_id = group.group_id, request.member_id
    replaced = _replaced(shard, group, request)
    before = find_or_join(group, request, records)

    # 1. The member's metadata and the topology. Increment the group epoch if the assignment
    # depends on what changed.
    metadata = updated_metadata(before.metadata, request, context)
    member = replace(before, metadata=metadata)
    bump = False
    if metadata != before.metadata:
        records.append(write.member_metadata(group_id, member_id, metadata))
        bump = request.instance_id is None or changes_assignment(before.metadata or METADATA, metadata)
    topology = _topology_for(group, request.topology, records)
    statuses = list(responses.stale_topology(group, metadata.topology_epoch))
    metadata_hash, configured, hash_changed = _configured(shard, group, topology, now_ms)
    bump |= hash_changed
    validated_epoch = -1
    if configured.topic_configuration_error is None:
        validated_epoch = topology.epoch
        check_tasks(configured, request.active_tasks, request.standby_tasks, request.warmup_tasks)
    _take_offsets(group, request)
    configs = assignment_configs(shard, group_id)
    bump |= validated_epoch != group.validated_topology_epoch or configs != group.assignment_configs
    stable = not bump and group.state == "Stable"
    refine_only = stable and not before.assigned.same_tasks(TargetTasks.of(group.targets.get(member_id)))
    epoch = group.epoch
    if bump or refine_only:
        epoch += 1
        records.append(write.group_epoch(group, epoch, metadata_hash, validated_epoch=validated_epoch, configs=configs))
        group.refresh_at_ms, group.refresh_epoch = now_ms + REFRESH_INTERVAL_MS, epoch

    # 2. A new target assignment, if the group epoch is ahead of the target epoch; then one step of
    # the member towards it.
    _delay_first_target(shard, group, now_ms)
    target_request = StreamsTargetRequest(
        group=group,
        epoch=epoch,
        member=member,
        configured=configured,
        configs=configs,
        now_ms=now_ms,
        refine_only=refine_only,
    )
    target = next_target(shard, target_request, records)
    statuses += _delayed(target)
    updated = _reconciled(shard, group, member, target, request, records, stable=stable, now_ms=now_ms)
    SESSIONS.start(shard, group_id, member_id, now_ms)
    if request.shutdown_application:
        group.request_shutdown(member_id)

    # 3. The response.
    response = _response(shard, group, before, updated, replaced, request)
    if configured.topic_configuration_error is not None:
        context.internal_topics = configured.internal_topics_to_be_created
    statuses += [*responses.topic_problem(configured), *responses.shutdown(group)]
    if context.api_version >= 1:
        statuses += responses.missing_tags(
            updated, shard.config_of(group_id, "group_streams_rack_aware_assignment_tags")
        )
    return Result(records=records, response=replace(response, status=tuple(statuses)))


def _group_for(
    shard: CoordinatorShard, request: StreamsGroupHeartbeatRequest, records: list[CoordinatorRecord]
) -> StreamsGroup:
    """Return the group, for a member that joins also a new one.

    A new group replaces an empty classic group.

    Raises `ApiError`: GROUP_ID_NOT_FOUND (also for a group of another type), or
    GROUP_MAX_SIZE_REACHED.
    """
    if request.member_epoch != JOIN:
        return shard.group(StreamsGroup, request.group_id, noun="Streams group")
    found = shard.state.groups.get(request.group_id)
    if found is None or (isinstance(found, ClassicGroup) and found.is_empty):
        if found is not None:
            records += deleted_group(shard, found)
        group = StreamsGroup(request.group_id)
    else:
        group = shard.group(StreamsGroup, request.group_id)
    check_capacity(shard, group, request.member_id, request.instance_id)
    return group


def _replaced(
    shard: CoordinatorShard, group: StreamsGroup, request: StreamsGroupHeartbeatRequest
) -> StreamsMember | None:
    """Return the static member whose instance id the member uses, if it is another one.

    As in Kafka, the tasks that are kept for it already belong to the new member id, even if the
    request is rejected later.
    """
    static = None if request.instance_id is None else group.static_member(request.instance_id)
    if static is None or static.member_id == request.member_id:
        return None
    kept = group.refined
    if static.member_id in kept.tasks:
        tasks = dict(kept.tasks)
        tasks[request.member_id] = tasks.pop(static.member_id)
        shard.state.remember_streams(group)
        group.refined = kept._replace(tasks=tasks, version=-1)
    return static


def _topology_for(
    group: StreamsGroup, sent: Topology | None, records: list[CoordinatorRecord]
) -> StreamsGroupTopologyValue:
    """Return the group's topology; the first member initializes it.

    Raises `ApiError` INVALID_REQUEST for another topology with the same or a later epoch.
    """
    known = group.topology
    if sent is None:
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group.group_id} has no topology")
        return known
    value = topology_value(sent)
    if known is None:
        records.append(write.topology(group.group_id, value))
        return value
    if known.epoch > value.epoch:
        return known
    if known.epoch != value.epoch or _by_id(known) != _by_id(value):
        raise invalid("Topology updates are not supported yet.")
    return known


def _by_id(topology: StreamsGroupTopologyValue) -> Mapping[str, object]:
    return {one.subtopology_id: one for one in topology.subtopologies}


def _configured(
    shard: CoordinatorShard, group: StreamsGroup, topology: StreamsGroupTopologyValue, now_ms: int
) -> tuple[int, ConfiguredTopology, bool]:
    """Return the metadata hash, the configured topology, and whether the hash changed.

    The topology is configured when it is new, after a load, and when its topics change.
    """
    configured = group.configured
    if group.topology is not None and configured is not None and not is_stale(group, now_ms):
        return group.metadata_hash, configured, False
    computed = hash_of(shard, dict.fromkeys(required_topics(topology)))
    changed = computed != group.metadata_hash
    if group.topology is None or changed or configured is None:
        configured = configure_topics(topology, shard.image)
        shard.state.remember_streams(group)
        group.configured = configured
        group.endpoints.clear()
    return computed, configured, changed


def _take_offsets(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> None:
    """Keep the offsets of tasks that the member reports; they are only described."""
    if request.task_offsets is None and request.task_end_offsets is None:
        return
    before = group.task_offsets.get(request.member_id, MemberTaskOffsets())
    group.task_offsets[request.member_id] = MemberTaskOffsets(
        before.offsets if request.task_offsets is None else _by_task(request.task_offsets),
        before.end_offsets if request.task_end_offsets is None else _by_task(request.task_end_offsets),
    )


def _by_task(offsets: tuple[TaskOffset, ...]) -> Mapping[str, Mapping[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for one in offsets:
        by_partition = found.setdefault(one.subtopology_id, {})
        if one.partition in by_partition:
            raise invalid(
                f"Task offsets contain a duplicate entry for subtopology {one.subtopology_id} "
                f"and partition {one.partition}."
            )
        by_partition[one.partition] = one.offset
    return found


def _delay_first_target(shard: CoordinatorShard, group: StreamsGroup, now_ms: int) -> None:
    """Wait for more members before the first target assignment of an empty group."""
    delay_ms = shard.config_of(group.group_id, "group_streams_initial_rebalance_delay_ms")
    if group.is_empty and delay_ms > 0:
        key = INITIAL_DELAY_TIMER % group.group_id
        shard.timers.schedule_if_absent(
            key, now_ms + delay_ms, partial(_assign_after_delay, shard, group.group_id), retry_ms=None
        )


def _assign_after_delay(shard: CoordinatorShard, group_id: str, now_ms: int) -> Result[None]:
    """Compute the first target assignment; without configured topology, the next heartbeat does."""
    group = shard.state.groups.get(group_id)
    if not isinstance(group, StreamsGroup) or group.is_empty:
        return Result()
    if group.epoch <= group.assignment_epoch:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group_id} has a target assignment")
    records: list[CoordinatorRecord] = []
    if group.configured is not None:
        request = StreamsTargetRequest(
            group=group,
            epoch=group.epoch,
            member=None,
            configured=group.configured,
            configs=group.assignment_configs,
            now_ms=now_ms,
        )
        next_target(shard, request, records)
    return Result(records=records)


def _delayed(target: StreamsTarget) -> list[Status]:
    if not target.delay:
        return []
    return [responses.status(StreamsStatus.ASSIGNMENT_DELAYED, f"Assignment delayed due to {target.delay}.")]


def _reconciled(
    shard: CoordinatorShard,
    group: StreamsGroup,
    member: StreamsMember,
    target: StreamsTarget,
    request: StreamsGroupHeartbeatRequest,
    records: list[CoordinatorRecord],
    *,
    stable: bool,
    now_ms: int,
) -> StreamsMember:
    """Move the member one step towards its target tasks, and add the record of a change."""
    tasks = tasks_of_target(shard, group, member, target, stable=stable)
    if member.is_reconciled_to(target.epoch):
        return member
    updated = reconcile(member, target.epoch, tasks, group.processes, _owned(request))
    if updated is not member:
        records.append(write.current_assignment(group.group_id, updated))
        SESSIONS.watch_revocation(shard, group.group_id, updated, now_ms)
    return updated


def _owned(request: StreamsGroupHeartbeatRequest) -> TargetTasks | None:
    """Return the tasks that the member reports, `None` if it reports none.

    Raises `ApiError` UNKNOWN_SERVER_ERROR for a repeated subtopology, as Kafka does.
    """
    roles = []
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        if tasks is None:
            return None
        role = {task.subtopology_id: frozenset(task.partitions) for task in tasks}
        if len(role) < len(tasks):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "duplicate subtopology in owned tasks")
        roles.append(role)
    return TargetTasks(*roles)


def _response(
    shard: CoordinatorShard,
    group: StreamsGroup,
    before: StreamsMember,
    updated: StreamsMember,
    replaced: StreamsMember | None,
    request: StreamsGroupHeartbeatRequest,
) -> StreamsGroupHeartbeatResponse:
    """Return the response without statuses, and update the group's endpoint information."""
    group_id, joining = group.group_id, request.member_epoch == JOIN
    assert updated.metadata is not None  # set by this heartbeat
    endpoint = updated.metadata.user_endpoint
    tasks_changed = before.assigned != updated.assigned
    endpoint_changed = endpoint != (None if before.metadata is None else before.metadata.user_endpoint)
    if joining or tasks_changed or endpoint_changed or replaced is not None:
        group.endpoints.pop(updated.member_id, None)
        if replaced is not None:
            group.endpoints.pop(replaced.member_id, None)
    if endpoint_changed or (tasks_changed and endpoint is not None):
        group.endpoint_epoch += 1
    information = None
    if group.endpoint_epoch != request.endpoint_information_epoch:
        information = responses.endpoint_information(group, updated, replaced, group.configured, shard.image)
    response = StreamsGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=shard.config_of(group_id, "group_streams_heartbeat_interval_ms"),
        task_offset_interval_ms=shard.config_of(group_id, "group_streams_task_offset_interval_ms"),
        acceptable_recovery_lag=shard.config_of(group_id, "group_streams_acceptable_recovery_lag"),
        endpoint_information_epoch=group.endpoint_epoch if group_id in shard.state.groups else 0,
        partitions_by_user_endpoint=information,
    )
    if not (joining or tasks_changed):
        return response
    return replace(
        response,
        active_tasks=responses.task_ids(updated.assigned.active),
        standby_tasks=responses.task_ids(updated.assigned.standby),
        warmup_tasks=responses.task_ids(updated.assigned.warmup),
    )

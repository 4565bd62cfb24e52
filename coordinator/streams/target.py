"""Target assignments of streams groups and their records (KIP-1071; interval: KIP-1263)."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from quorate.assignors import streams as assignor
from quorate.assignors.errors import AssignorError
from quorate.assignors.java_order import JavaHashMap
from quorate.codecs import CoordinatorRecord
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.streams import MemberTaskOffsets, Refined, StreamsGroup, StreamsMember
from quorate.coordinator.state.streams_tasks import StoredTasks, TargetTasks
from quorate.coordinator.streams import records as write
from quorate.coordinator.streams.reconcile import hash_order
from quorate.coordinator.streams.topology import ConfiguredTopology, describe

INITIAL_DELAY_TIMER = "initial-rebalance-timeout-%s"
"""Key of a group's timer for its first target assignment.

The timers of its members have the keys of consumer groups.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsTargetRequest:
    """Request for the target assignment of a group at `epoch`.

    `member`: the member of this heartbeat, `None` when the initial delay has passed. `refine_only`:
    only the epoch changed, not what the assignor sees.
    """

    group: StreamsGroup
    epoch: int
    member: StreamsMember | None
    configured: ConfiguredTopology
    configs: Mapping[str, str]
    now_ms: int
    refine_only: bool = False


class StreamsTarget(NamedTuple):
    """A target epoch with the tasks by member, `None` for those in the state.

    `delay`: the config that delays the target assignment, if one does.
    """

    epoch: int
    tasks: Mapping[str, TargetTasks] | None = None
    delay: str = ""


def assignment_configs(shard: CoordinatorShard, group_id: str) -> dict[str, str]:
    """Return the configs of the assignment, by Kafka's names in string order."""
    configs = {"num.standby.replicas": str(shard.config_of(group_id, "group_streams_num_standby_replicas"))}
    tags: tuple[str, ...] = shard.config_of(group_id, "group_streams_rack_aware_assignment_tags")
    if tags:
        configs["rack.aware.assignment.tags"] = ",".join(tags)
    return configs


def next_target(
    shard: CoordinatorShard, request: StreamsTargetRequest, records: list[CoordinatorRecord]
) -> StreamsTarget:
    """Compute the target assignment of the group if it is due, and add records of the changes.

    Raises `ApiError` UNKNOWN_SERVER_ERROR if the assignor fails.
    """
    group = request.group
    if INITIAL_DELAY_TIMER % group.group_id in shard.timers:
        return StreamsTarget(group.assignment_epoch, {}, "the configured initial rebalance delay")
    if group.assignment_epoch >= request.epoch:
        return StreamsTarget(group.assignment_epoch)
    if request.refine_only and group.assignment_epoch >= group.epoch:
        records.append(write.target_epoch(group.group_id, request.epoch, group.assignment_timestamp_ms))
        return StreamsTarget(request.epoch)
    if not shard.may_assign(group, "group_streams_assignment_interval_ms", request.now_ms):
        return StreamsTarget(group.assignment_epoch, None, "the configured assignment interval")
    tasks = _assigned(group, request)
    before = _stored(group, request.member)
    for member_id, new in tasks.items():
        old = before.get(member_id)
        if old is None or TargetTasks.of(old) != new:
            records.append(write.target_assignment(group.group_id, member_id, new))
    records.append(write.target_epoch(group.group_id, request.epoch, request.now_ms))
    return StreamsTarget(request.epoch, tasks)


def _assigned(group: StreamsGroup, request: StreamsTargetRequest) -> dict[str, TargetTasks]:
    """Return the new target tasks, in the order of Kafka's map of members."""
    members = _members(group, request.member)
    prepared = {one: _prepared(member, group.task_offsets.get(one)) for one, member in members.items()}
    if not request.configured.is_ready:
        return dict.fromkeys(hash_order(members), TargetTasks.NONE)
    try:
        assigned = assignor.StickyTaskAssignor().assign(
            prepared, assignor.StreamsAssignmentConfigs.from_map(request.configs), describe(request.configured)
        )
    except (AssignorError, ValueError) as error:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"cannot compute the target assignment for epoch {request.epoch}: {error}"
        ) from None
    return {
        one: TargetTasks(_copied(assigned[one].active_tasks), _copied(assigned[one].standby_tasks))
        for one in hash_order(members)
    }


def _copied(tasks: assignor.Tasks) -> dict[str, frozenset[int]]:
    """Return tasks in the order of Kafka's map, which `computeIfAbsent` filled."""
    if len(tasks) < 2:
        return {one: frozenset(partitions) for one, partitions in tasks.items()}
    made: JavaHashMap[str, frozenset[int]] = JavaHashMap()
    for one, partitions in tasks.items():
        made.compute_if_absent(one, partial(frozenset, partitions))
    return dict(made.items())


def _members(group: StreamsGroup, updated: StreamsMember | None) -> dict[str, StreamsMember]:
    """Return the members with the updated one, without a static member that it replaces."""
    members = dict(group.members.ordered())
    if updated is not None:
        members[updated.member_id] = updated
        replaced = _replaced_by(group, updated)
        if replaced is not None:
            del members[replaced]
    return members


def _replaced_by(group: StreamsGroup, member: StreamsMember) -> str | None:
    """Return the id of the static member that this one replaces, or `None`."""
    other = None if member.instance_id is None else group.static_members.get(member.instance_id)
    return other if other != member.member_id else None


def _stored(group: StreamsGroup, updated: StreamsMember | None) -> dict[str, StoredTasks]:
    """Return the stored target tasks by member, of a replaced static member by the new one."""
    targets: dict[str, StoredTasks] = dict(group.targets)
    replaced = None if updated is None else _replaced_by(group, updated)
    if updated is not None and replaced is not None and replaced in targets:
        targets[updated.member_id] = targets.pop(replaced)
    return targets


def _prepared(member: StreamsMember, reported: MemberTaskOffsets | None) -> assignor.StreamsMemberSpec:
    """Return the member as the assignor sees it."""
    metadata, tasks = member.metadata, member.assigned
    if metadata is None or member.current is None:  # Kafka: NullPointerException
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member {member.member_id} is incomplete")
    offsets = reported or MemberTaskOffsets()
    return assignor.StreamsMemberSpec(
        process_id=metadata.process_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_tags={tag.key: tag.value for tag in metadata.client_tags},
        active_tasks={one: frozenset(tasks.active[one]) for one in hash_order(tasks.active)},
        standby_tasks={one: tasks.standby[one] for one in hash_order(tasks.standby)},
        warmup_tasks={one: tasks.warmup[one] for one in hash_order(tasks.warmup)},
        task_offsets=offsets.offsets,
        task_end_offsets=offsets.end_offsets,
    )


def tasks_of_target(
    shard: CoordinatorShard, group: StreamsGroup, member: StreamsMember, target: StreamsTarget, *, stable: bool
) -> TargetTasks:
    """Return the member's tasks of a target assignment.

    Kafka keeps the tasks of all members per target epoch while warm-up tasks are enabled, so a
    member that returns within an epoch gets its tasks back. `stable`: the group was stable, so they
    are the stored ones.
    """
    kept = group.refined
    if not stable and kept.epoch == target.epoch:
        return _of_member(kept.tasks, member)
    version = -1
    tasks: Mapping[str, StoredTasks]
    if stable:
        version, tasks = group.targets_version, group.targets
    else:
        tasks = _stored(group, member) if target.tasks is None else target.tasks
    if shard.config_of(group.group_id, "group_streams_num_warmup_replicas") > 0 and (
        version == -1 or (kept.epoch, kept.version) != (target.epoch, version)
    ):
        shard.state.remember_streams(group)
        group.refined = Refined(target.epoch, dict(tasks), version)
    return _of_member(tasks, member)


def _of_member(tasks: Mapping[str, StoredTasks], member: StreamsMember) -> TargetTasks:
    return TargetTasks.of(tasks.get(member.member_id))

"""Computation of target assignments, and their records (KIP-848)."""

import logging

from quorate.assignors.errors import AssignorError
from quorate.codecs import CoordinatorRecord
from quorate.codecs.printable import brief
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.few_targets import few_targets
from quorate.coordinator.consumer.owned import Partitions, as_target, equal
from quorate.coordinator.consumer.target import NewTargets, Target, TargetRequest, preferred_assignor
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.shard import CoordinatorShard

log = logging.getLogger(__name__)


def next_target(shard: CoordinatorShard, request: TargetRequest, records: list[CoordinatorRecord]) -> Target:
    """Compute the target assignment of the group, and add records of the changes.

    Returns the member's target assignment.
    Raises `ApiError` UNKNOWN_SERVER_ERROR if the assignor fails or is not configured.
    """
    group, jdk, own = request.group, shard.config.jdk, request.member.member_id
    name = preferred_assignor(group, request.before.metadata, request.member.metadata)
    name = name or shard.config.group_consumer_assignors[0]
    if name not in shard.config.group_consumer_assignors:  # the member joined under another configuration
        problem = f"group {brief(group.group_id)} requests assignor {brief(name)}, which is not configured"
        shard.on_fault(f"{problem}; heartbeats fail")
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, problem)
    try:
        order, changed = _new_targets(shard, request, name)
    except AssignorError as error:
        shard.on_fault(
            f"group {brief(group.group_id)}: no target assignment for epoch {request.epoch}: {error}; "
            "the group keeps its last one, and heartbeats fail"
        )
        log.debug("the exception of assignor %s", name, exc_info=error.__cause__)
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from None  # as in Kafka, clients get no reason
    ignores_targets = name == "range" and name not in shard.config.server_assignors
    targets = group.targets
    tagged = group.target_tags if shard.extensions else {}  # assignors write no tags of plug-ins
    mine: Partitions = {}
    with_record = {own, *changed, *tagged}
    for member_id in [one for one in order if one in with_record or one not in targets]:
        if member_id == own:
            stored = request.previous_target if request.moves_target else targets.get(own)
            if own in changed:
                mine = changed[own]
            elif not ignores_targets:
                mine = as_target(request.previous_target or (), jdk)
            elif own in tagged and stored is not None:
                mine = as_target(stored, jdk)
            if (
                stored is None
                or own in tagged
                or not equal({topic.topic_id: topic.partitions for topic in stored}, mine)
            ):
                records.append(write.target_assignment(group.group_id, own, mine))
        elif member_id in changed:
            records.append(write.target_assignment(group.group_id, member_id, changed[member_id]))
        elif member_id not in targets:
            records.append(write.target_assignment(group.group_id, member_id, {}))
        else:
            records.append(write.target_assignment(group.group_id, member_id, as_target(targets[member_id], jdk)))
    assigned_ms = request.now_ms if shard.behaviour.assignment_interval else 0
    records.append(write.target_epoch(group.group_id, request.epoch, assigned_ms))
    return Target(request.epoch, mine)


def _new_targets(shard: CoordinatorShard, request: TargetRequest, name: str) -> NewTargets:
    """Compute the target assignments. Raises `AssignorError`."""
    if name == "uniform" and name not in shard.config.server_assignors:
        found = few_targets(shard, request)
        if found is not None:
            return found
    from quorate.coordinator.consumer.run_assignor import run_assignor  # with NumPy, which takes 0.2 s to load

    return run_assignor(shard, request, name)

"""ConsumerGroupInstallAssignment: installs the computing member's target assignment."""

from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.api import ConsumerGroupInstallAssignmentRequest, ConsumerGroupInstallAssignmentResponse
from quorate.codecs.client_assignors import ComputedBy, TargetOrigin
from quorate.codecs.messages.consumer_group import TopicPartition
from quorate.codecs.tags import written_tags
from quorate.coordinator.client_assignors.computation import Phase
from quorate.coordinator.client_assignors.computing_member import (
    check_computing_member,
    clear_computation,
    computation_of,
    put_computation,
)
from quorate.coordinator.client_assignors.validation import checked
from quorate.coordinator.consumer import records as write
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup


def consumer_group_install_assignment(
    shard: CoordinatorShard, request: ConsumerGroupInstallAssignmentRequest, context: RequestContext
) -> Result[ConsumerGroupInstallAssignmentResponse]:
    """Install the assignment as target assignment of the group.

    If the assignor reports an error, the target epoch advances with the same target, and all
    members receive the error. After another error the request to the computing member is repeated,
    with the same deadline.

    Raises `ApiError`: see `check_computing_member`; INVALID_REQUEST; STALE_MEMBER_EPOCH if the
    group epoch has changed; INVALID_ASSIGNMENT, see `checked`.
    """
    group, used = check_computing_member(shard, request.group_id, request.member_id, request.member_epoch)
    origin = TargetOrigin(computed_by=ComputedBy(assignor=used.name, member_id=request.member_id, error=request.error))
    try:
        _check_epoch(group, request)
        if request.error:
            records: list[CoordinatorRecord] = []
        else:
            records = _changes(shard, group, used.name, request)
    except ApiError:
        if computation_of(group).phase is not Phase.IDLE:
            put_computation(group, computation_of(group).rejected())
        raise
    records.append(write.target_epoch(group.group_id, group.epoch, context.now_ms, written_tags(origin)))
    return Result(
        records=records,
        response=ConsumerGroupInstallAssignmentResponse(),
        on_appended=lambda: clear_computation(shard, group),
    )


def _check_epoch(group: ConsumerGroup, request: ConsumerGroupInstallAssignmentRequest) -> None:
    if request.group_epoch < group.epoch:
        raise ApiError(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"the assignment is for epoch {request.group_epoch}, but group {group.group_id} is at {group.epoch}; "
            "prepare another one",
        )
    if request.group_epoch > group.epoch:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"group {group.group_id} is at epoch {group.epoch}, before {request.group_epoch}",
        )
    if request.error and request.members:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"error {request.error} and an assignment exclude each other")


def _changes(
    shard: CoordinatorShard, group: ConsumerGroup, assignor: str, request: ConsumerGroupInstallAssignmentRequest
) -> list[CoordinatorRecord]:
    """Return records of changed or missing targets, in the order of Kafka's map."""
    given = checked(shard.image, group, assignor, request.members)
    return [
        write.target_assignment(group.group_id, member_id, *given[member_id])
        for member_id, _ in group.members.ordered()
        if member_id not in group.targets
        or _sets(group.targets[member_id]) != {one: set(numbers) for one, numbers in given[member_id][0].items()}
        or group.target_tags.get(member_id, ()) != given[member_id][1]
    ]


def _sets(target: tuple[TopicPartition, ...]) -> dict[Uuid, set[int]]:
    return {one.topic_id: set(one.partitions) for one in target}

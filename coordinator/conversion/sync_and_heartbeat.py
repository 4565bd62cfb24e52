"""SyncGroup, Heartbeat and LeaveGroup of classic members of a consumer group.

Their generation is the member epoch.
"""

from quorate.codecs import DecodeError
from quorate.codecs.api import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from quorate.codecs.api.leave_group import MemberIdentity
from quorate.coordinator.classic.leave import identities, left
from quorate.coordinator.consumer.checks import check_static_member, existing_member
from quorate.coordinator.consumer.leaving import fence
from quorate.coordinator.consumer.members import static_member
from quorate.coordinator.consumer.owned import Order, copied_set
from quorate.coordinator.conversion.embedded import assignment_for
from quorate.coordinator.conversion.timers import expect_rejoin, restart_session, synced
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import Pending, RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember, MemberState
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL


def sync_group(
    shard: CoordinatorShard, group: ConsumerGroup, request: SyncGroupRequest, context: RequestContext
) -> Result[SyncGroupResponse]:
    """Return the member's assignment.

    Raises `ApiError`: REBALANCE_IN_PROGRESS if it must rejoin first.
    """
    member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    preferred = classic.supported_protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL) or request.protocol_name not in (None, preferred.name):
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"member {member.member_id} uses protocol {preferred.name} of type {CONSUMER_PROTOCOL}",
        )
    if _newest_epoch(shard, group) > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        expect_rejoin(shard, group.group_id, member, context.now_ms)
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS, f"member {member.member_id} must rejoin")
    synced(shard, group.group_id, member, context.now_ms)
    order = Order.of(shard.config)
    assigned = {
        topic_id: copied_set(tuple(numbers), order.jdk) if order.maps else tuple(numbers)
        for topic_id, numbers in order.loaded(member.assigned).items()
    }
    try:
        assignment = assignment_for(preferred.metadata, assigned, shard.image)
    except DecodeError:
        # The group was converted while it used another protocol, so this metadata was never
        # decoded. Kafka does not respond in this case.
        return Result(response=Pending())
    return Result(
        response=SyncGroupResponse(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        )
    )


def heartbeat(
    shard: CoordinatorShard, group: ConsumerGroup, request: HeartbeatRequest, context: RequestContext
) -> Result[HeartbeatResponse]:
    """Restart the member's session; REBALANCE_IN_PROGRESS if it must rejoin. Raises `ApiError`."""
    member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    restart_session(shard, group.group_id, member, context.now_ms)
    rejoins = (
        member.epoch < _newest_epoch(shard, group)
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    )
    if rejoins:
        expect_rejoin(shard, group.group_id, member, context.now_ms)
    return Result(response=HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if rejoins else ErrorCode.NONE))


def _newest_epoch(shard: CoordinatorShard, group: ConsumerGroup) -> int:
    """Return the epoch of the latest target assignment; before 4.3 the group epoch."""
    return group.assignment_epoch if shard.behaviour.follows_target else group.epoch


def leave_group(
    shard: CoordinatorShard, group: ConsumerGroup, request: LeaveGroupRequest, context: RequestContext
) -> Result[LeaveGroupResponse]:
    """Remove members of either protocol. Each has its own error.

    Kafka's order of removing several members is random (a HashSet of objects).
    """
    outcomes = []
    leaving: dict[str, ConsumerMember] = {}
    for identity in identities(request, context.api_version):
        if identity.group_instance_id is None and identity.member_id not in group.members:
            outcomes.append(
                (identity, ErrorCode.UNKNOWN_MEMBER_ID)
            )  # without an exception, which is slow for 100,000 members
            continue
        try:
            member = _leaving_member(group, identity)
        except ApiError as error:
            outcomes.append((identity, error.code))
        else:
            outcomes.append((identity, ErrorCode.NONE))
            leaving[member.member_id] = member
    response = left(outcomes, context.api_version)
    result = fence(shard, group, list(leaving.values()), context.now_ms)
    return result.with_response(response)


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.group_instance_id is not None and not identity.member_id:
        static = static_member(group, identity.group_instance_id)
        return check_static_member(static, "" if static is None else static.member_id, identity.group_instance_id)
    return _member(group, identity.member_id, identity.group_instance_id)


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is not None:
        return check_static_member(static_member(group, instance_id), member_id, instance_id)
    return existing_member(group, member_id)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    """Return a classic member at its generation.

    Raises `ApiError`: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION.
    """
    member = _member(group, member_id, instance_id)
    if not member.uses_classic_protocol:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} does not use the classic protocol")
    if member.epoch != generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"member {member_id} is at generation {member.epoch}")
    return member


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether another member still owns a partition of the member's target assignment."""
    assigned = member.assigned
    return any(
        partition not in assigned.get(topic.topic_id, {}) and group.partition_epoch(topic.topic_id, partition) != -1
        for topic in group.targets.get(member.member_id, ())
        for partition in topic.partitions
    )

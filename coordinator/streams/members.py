"""Members of streams groups: new ones, static ones that return, and their metadata."""

from dataclasses import replace

from quorate.assignors.java_order import string_key
from quorate.codecs import CoordinatorRecord
from quorate.codecs.api import StreamsGroupHeartbeatRequest
from quorate.codecs.messages import streams_group as stored
from quorate.coordinator.consumer.checks import check_static_member, existing_member, unreleased_instance
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import RequestContext
from quorate.coordinator.state.streams import StreamsGroup, StreamsMember, TaskState
from quorate.coordinator.state.streams_tasks import AssignedTasks, TargetTasks
from quorate.coordinator.streams import records as write
from quorate.coordinator.streams.checks import JOIN, LEAVE_STATIC, check_epoch, check_has_epoch

METADATA = stored.StreamsGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    rebalance_timeout_ms=-1,
    topology_epoch=-1,
    process_id="",
    user_endpoint=None,
    client_tags=(),
)
"""The metadata of a new member before its first heartbeat."""

_NOTHING = write.current_value(0, 0, TaskState.STABLE, AssignedTasks.NONE, AssignedTasks.NONE)


def find_or_join(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, records: list[CoordinatorRecord]
) -> StreamsMember:
    """Return the member before this heartbeat: a new one, or one that replaces a static member.

    Raises `ApiError`: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID or
    UNRELEASED_INSTANCE_ID.
    """
    joining = request.member_epoch == JOIN
    if request.instance_id is None:
        member = group.members.get(request.member_id) if joining else existing_member(group, request.member_id)
        member = member or _new(request.member_id)
        check_epoch(member, request)
        return member
    static = group.static_member(request.instance_id)
    if not joining:
        static = check_static_member(static, request.member_id, request.instance_id)
        check_epoch(static, request)
        return static
    if static is None:
        return group.members.get(request.member_id) or _new(request.member_id)
    check_has_epoch(static)
    if static.epoch != LEAVE_STATIC:
        raise unreleased_instance(request.instance_id, request.member_id, static.member_id)
    return _replaced(group, static, request.member_id, records)


def _new(member_id: str) -> StreamsMember:
    return StreamsMember(member_id=member_id, metadata=METADATA, current=_NOTHING)


def _replaced(
    group: StreamsGroup, old: StreamsMember, member_id: str, records: list[CoordinatorRecord]
) -> StreamsMember:
    """Return a static member with its new member id, and add the records of the replacement."""
    assert old.metadata is not None  # static members have metadata
    assert old.current is not None  # and this one the epoch -2
    member = replace(
        old, member_id=member_id, current=replace(old.current, member_epoch=JOIN, previous_member_epoch=JOIN)
    )
    group_id = group.group_id
    records += write.member_tombstones(group_id, old.member_id)
    records.append(write.member_metadata(group_id, member_id, old.metadata))
    target = TargetTasks.of(group.targets.get(old.member_id))
    records.append(write.target_assignment(group_id, member_id, target))
    records.append(write.current_assignment(group_id, member))
    return member


def updated_metadata(
    old: stored.StreamsGroupMemberMetadataValue | None, request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> stored.StreamsGroupMemberMetadataValue:
    """Return the member's metadata after this heartbeat. Fields that it omits stay unchanged.

    A member that joins without endpoint loses its previous one. Raises `ApiError`
    UNKNOWN_SERVER_ERROR for a repeated client tag, as Kafka does.
    """
    if old is None:  # a compacted log without the metadata; Kafka: NullPointerException
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member {request.member_id} has no metadata")
    tags = old.client_tags
    if request.client_tags is not None:
        by_key = {tag.key: tag.value for tag in request.client_tags}
        if len(by_key) < len(request.client_tags):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "duplicate client tag")
        tags = tuple(stored.KeyValue(key=key, value=by_key[key]) for key in sorted(by_key, key=string_key))
    endpoint = None if request.member_epoch == JOIN else old.user_endpoint
    if request.user_endpoint is not None:
        endpoint = stored.Endpoint(host=request.user_endpoint.host, port=request.user_endpoint.port)
    timeout_ms = request.rebalance_timeout_ms
    return stored.StreamsGroupMemberMetadataValue(
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=old.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=old.process_id if request.process_id is None else request.process_id,
        user_endpoint=endpoint,
        client_tags=tags,
    )


def changes_assignment(
    old: stored.StreamsGroupMemberMetadataValue, new: stored.StreamsGroupMemberMetadataValue
) -> bool:
    """Return whether a static member's new metadata needs a new target assignment."""
    return (old.topology_epoch, old.rack_id, old.client_tags, old.process_id) != (
        new.topology_epoch,
        new.rack_id,
        new.client_tags,
        new.process_id,
    )

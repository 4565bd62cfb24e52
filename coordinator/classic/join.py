"""JoinGroup v0–9. The response is pending until all members have joined."""

from dataclasses import replace

from quorate.codecs.api import JoinGroupRequest, JoinGroupResponse
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.classic.groups import check_member, live_group, new_group
from quorate.coordinator.classic.other_group_types import handle_on_consumer_group, is_replaceable, replace_empty_group
from quorate.coordinator.classic.pending_join import PendingJoin
from quorate.coordinator.classic.rebalance import expect_heartbeat, expect_join, join_response, rebalance_if_possible
from quorate.coordinator.classic.static_rejoin import rejoin_static
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.records import empty_classic_group
from quorate.coordinator.results import Pending, RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup, ClassicState

NULL_PROTOCOL_NAME = 7
"""First version in which the protocol name can be null."""

MEMBER_ID_REQUIRED_SINCE = 4
"""First version in which a new member must rejoin with a generated member id (KIP-394)."""


def join_group(
    shard: CoordinatorShard, request: JoinGroupRequest, context: RequestContext
) -> Result[JoinGroupResponse]:
    """Add or update a member. Errors are returned at once, other responses after the rebalance."""
    config = shard.config
    if not request.group_id:
        return _refused(request, context, ErrorCode.INVALID_GROUP_ID)
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        return _refused(request, context, ErrorCode.INVALID_SESSION_TIMEOUT)
    if context.api_version == 0:
        request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
    found = shard.state.groups.get(request.group_id)
    if found is not None and not isinstance(found, ClassicGroup) and not is_replaceable(found):
        result: Result[JoinGroupResponse] = handle_on_consumer_group(shard, found, request, context)
        assert isinstance(result.response, JoinGroupResponse)  # never pending
        return replace(result, response=_encodable(result.response, context.api_version))
    sent: Pending[JoinGroupResponse] = Pending()
    joined: Pending[JoinGroupResponse] = Pending()
    joined.on_complete(lambda response: sent.complete(_encodable(response, context.api_version)))
    return replace(_join(shard, PendingJoin(request=request, context=context, response=joined)), response=sent)


def _join(shard: CoordinatorShard, pending_join: PendingJoin) -> Result[JoinGroupResponse]:
    """Return the records to write; completes the response now or later."""
    request, now_ms, response = pending_join.request, pending_join.context.now_ms, pending_join.response
    group_id = request.group_id
    records, undo = replace_empty_group(shard, group_id)
    group = live_group(shard, group_id, now_ms)
    is_new = group is None
    if group is None:
        if request.member_id:
            # An empty group of another type was removed already. Kafka loses it in this case, too,
            # until it loads its log again.
            response.complete(_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return Result()
        group = new_group(shard, group_id, now_ms)
    if not _may_join(shard, group, request.member_id):
        group.remove(request.member_id)
        response.complete(_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        result: Result[None] = Result()
    else:
        try:
            result = (_join_known if request.member_id else _join_unknown)(shard, group, pending_join)
        except ApiError as error:
            if error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
                raise
            response.complete(_error(error.code, request.member_id))
            result = Result()
    if not is_new or result.records:
        return result.with_response(None)

    # A new group is recorded before its first member has joined. The group exists already, so the
    # record is not replayed.
    def gone(code: int) -> None:
        if shard.state.groups.get(group_id) is group:
            del shard.state.groups[group_id]
        undo()
        response.complete(_error(code))

    return Result(records=[*records, empty_classic_group(group_id, now_ms)], replay=False, on_failed=gone)


def _may_join(shard: CoordinatorShard, group: LiveGroup, member_id: str) -> bool:
    """Return whether one more member may join (`group.max.size`, KIP-389).

    During a rebalance, members that have rejoined count, so that the last ones may be rejected.
    """
    member = group.members.get(member_id)
    match group.phase:
        case ClassicState.EMPTY | ClassicState.DEAD:
            return True
        case ClassicState.PREPARING_REBALANCE:
            waits = member is not None and member.joining is not None
            return waits or group.joining_count < shard.config.group_max_size
        case _:
            return member is not None or len(group.members) < shard.config.group_max_size


def _join_unknown(shard: CoordinatorShard, group: LiveGroup, pending_join: PendingJoin) -> Result[None]:
    """Handle a JoinGroup without a member id.

    A known static member is replaced, any other client gets a new member id.
    """
    request, context = pending_join.request, pending_join.context
    _check_protocols(group, request)
    instance_id = request.group_instance_id
    new_id = f"{context.client_id if instance_id is None else instance_id}-{shard.new_id()}"
    if instance_id is not None:
        known = group.static_member(instance_id)
        if known is not None:
            return rejoin_static(shard, group, group.members[known], new_id, pending_join)
        return _add(shard, group, new_id, pending_join)
    if context.api_version < MEMBER_ID_REQUIRED_SINCE:
        return _add(shard, group, new_id, pending_join)
    group.pending.add(new_id)
    expect_join(shard, group, new_id, context.now_ms + request.session_timeout_ms)
    pending_join.response.complete(_error(ErrorCode.MEMBER_ID_REQUIRED, new_id))
    return Result()


def _join_known(shard: CoordinatorShard, group: LiveGroup, pending_join: PendingJoin) -> Result[None]:
    """Handle a JoinGroup of a member, or with a generated member id.

    A follower with unchanged metadata gets the current generation again.
    """
    request = pending_join.request
    _check_protocols(group, request)
    member_id = request.member_id
    if member_id in group.pending:
        if request.group_instance_id is not None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member id {member_id} was generated for a dynamic member")
        return _add(shard, group, member_id, pending_join)
    check_member(group, member_id, request.group_instance_id)
    member = group.members[member_id]
    unchanged = tuple(request.protocols) == tuple(member.protocols)
    leads = member_id == group.leader
    match group.phase:
        case ClassicState.EMPTY | ClassicState.DEAD:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.group_id} has no members")
        case ClassicState.COMPLETING_REBALANCE if unchanged:
            pending_join.response.complete(join_response(group, member_id, with_members=leads))
            return Result()
        case ClassicState.STABLE if unchanged and not leads:
            pending_join.response.complete(join_response(group, member_id, with_members=False))
            return Result()
    pending_join.update_member(group, member)
    return rebalance_if_possible(shard, group, pending_join.context.now_ms)


def _check_protocols(group: LiveGroup, request: JoinGroupRequest) -> None:
    if not group.supports(request.protocol_type, (offered.name for offered in request.protocols)):
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"the member supports no protocol of all members of group {group.group_id}",
        )


def _add(shard: CoordinatorShard, group: LiveGroup, member_id: str, pending_join: PendingJoin) -> Result[None]:
    """Add a new member and start a rebalance."""
    if group.phase is ClassicState.PREPARING_REBALANCE and group.previous_phase is ClassicState.EMPTY:
        group.new_member_added = True
    now_ms, timeout_ms = pending_join.context.now_ms, shard.config.classic_group_new_member_join_timeout_ms
    member = pending_join.as_member(member_id)
    group.add(member, pending_join.request.protocol_type, pending_join.response)
    # A new member cannot send heartbeats before it knows its id, so its session timeout does not
    # apply. A longer one removes members whose clients timed out and joined again under another id.
    expect_heartbeat(shard, group, member, now_ms, timeout_ms)
    return rebalance_if_possible(shard, group, now_ms)


def _error(code: int, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None, member_id=member_id)


def _encodable(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Return the response as its version can encode it."""
    if version < NULL_PROTOCOL_NAME and response.protocol_name is None:
        return replace(response, protocol_name="")
    if version >= NULL_PROTOCOL_NAME and response.protocol_name == "":
        return replace(response, protocol_name=None)
    return response


def _refused(request: JoinGroupRequest, context: RequestContext, code: ErrorCode) -> Result[JoinGroupResponse]:
    return Result(response=_encodable(_error(code, request.member_id), context.api_version))


def join_failed(request: JoinGroupRequest, context: RequestContext, code: ErrorCode, message: str) -> JoinGroupResponse:
    """Return the response to a JoinGroup that failed as a whole."""
    # Without a group id the request reaches no coordinator, and the response has the member id.
    return _encodable(_error(code, request.member_id if not request.group_id else ""), context.api_version)

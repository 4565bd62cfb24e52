"""JoinGroup v0–9: a member asks to be in. Its answer comes when the group is complete."""

from dataclasses import replace

from quorate.codecs.api import JoinGroupRequest, JoinGroupResponse
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.classic.groups import check_member, live_group, new_group
from quorate.coordinator.classic.joiner import Joiner
from quorate.coordinator.classic.on_consumer_groups import gives_way, handle_on_consumer_group, replace_empty_group
from quorate.coordinator.classic.rebalance import expect_heartbeat, expect_join, joined, rebalance_if_possible
from quorate.coordinator.classic.returning import join_again
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.records import empty_classic_group
from quorate.coordinator.results import Pending, RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup, ClassicState

__all__ = ["TWO_STEPS", "join_failed", "join_group"]

NAMELESS = 7
"""Before this version a protocol's name could not be null."""

TWO_STEPS = 4
"""Since this version a member without an id gets one, and has to join again with it (KIP-394)."""


def join_group(
    shard: CoordinatorShard, request: JoinGroupRequest, context: RequestContext
) -> Result[JoinGroupResponse]:
    """Take a member in. Errors are told at once, all else when the rebalance is over."""
    config = shard.config
    if not request.group_id:
        return _refused(request, context, ErrorCode.INVALID_GROUP_ID)
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        return _refused(request, context, ErrorCode.INVALID_SESSION_TIMEOUT)
    if context.api_version == 0:
        request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
    there = shard.state.groups.get(request.group_id)
    if there is not None and not isinstance(there, ClassicGroup) and not gives_way(there):
        result: Result[JoinGroupResponse] = handle_on_consumer_group(shard, there, request, context)
        assert isinstance(result.response, JoinGroupResponse)  # nobody waits in these
        return replace(result, response=_fitting(result.response, context.api_version))
    sent: Pending[JoinGroupResponse] = Pending()
    answer: Pending[JoinGroupResponse] = Pending()
    answer.on_complete(lambda response: sent.complete(_fitting(response, context.api_version)))
    return replace(_join(shard, Joiner(request=request, context=context, answer=answer)), response=sent)


def _join(shard: CoordinatorShard, joiner: Joiner) -> Result[JoinGroupResponse]:
    """What is to be written; the joiner gets its answer now or later."""
    request, now_ms, answer = joiner.request, joiner.context.now_ms, joiner.answer
    group_id = request.group_id
    records, undo = replace_empty_group(shard, group_id)
    group = live_group(shard, group_id, now_ms)
    is_new = group is None
    if group is None:
        if request.member_id:
            # An empty group of the other protocol is forgotten all the same; Kafka loses it in this
            # way, too, until it loads its log again.
            answer.complete(_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return Result()
        group = new_group(shard, group_id, now_ms)
    if not _has_room(shard, group, request.member_id):
        group.remove(request.member_id)
        answer.complete(_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        result: Result[None] = Result()
    else:
        try:
            result = (_join_known if request.member_id else _join_unknown)(shard, group, joiner)
        except ApiError as error:
            if error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
                raise
            answer.complete(_error(error.code, request.member_id))
            result = Result()
    if not is_new or result.records:
        return result.with_response(None)

    # A group that is new is recorded before anybody is in it. The record replaces what stands here
    # already, so it is not replayed.
    def gone(code: int) -> None:
        if shard.state.groups.get(group_id) is group:
            del shard.state.groups[group_id]
        undo()
        answer.complete(_error(code))

    return Result(records=[*records, empty_classic_group(group_id, now_ms)], replay=False, on_failed=gone)


def _has_room(shard: CoordinatorShard, group: LiveGroup, member_id: str) -> bool:
    """Whether one more may join (`group.max.size`, KIP-389).

    While members join anew, those count that have; the last ones have no room then.
    """
    member = group.members.get(member_id)
    match group.phase:
        case ClassicState.EMPTY | ClassicState.DEAD:
            return True
        case ClassicState.PREPARING_REBALANCE:
            waits = member is not None and member.joining is not None
            return waits or group.joining < shard.config.group_max_size
        case _:
            return member is not None or len(group.members) < shard.config.group_max_size


def _join_unknown(shard: CoordinatorShard, group: LiveGroup, joiner: Joiner) -> Result[None]:
    """Somebody without an id: gets one. A static member that is known takes its own place."""
    request, context = joiner.request, joiner.context
    _check_protocols(group, request)
    instance_id = request.group_instance_id
    new_id = f"{context.client_id if instance_id is None else instance_id}-{shard.new_id()}"
    if instance_id is not None:
        known = group.static_member(instance_id)
        if known is not None:
            return join_again(shard, group, group.members[known], new_id, joiner)
        return _add(shard, group, new_id, joiner)
    if context.api_version < TWO_STEPS:
        return _add(shard, group, new_id, joiner)
    group.pending.add(new_id)
    expect_join(shard, group, new_id, context.now_ms + request.session_timeout_ms)
    joiner.answer.complete(_error(ErrorCode.MEMBER_ID_REQUIRED, new_id))
    return Result()


def _join_known(shard: CoordinatorShard, group: LiveGroup, joiner: Joiner) -> Result[None]:
    """A member, or an id that was given out.

    A follower that announces nothing new hears again what it has heard already.
    """
    request = joiner.request
    _check_protocols(group, request)
    member_id = request.member_id
    if member_id in group.pending:
        if request.group_instance_id is not None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{member_id} was not given to a static member")
        return _add(shard, group, member_id, joiner)
    check_member(group, member_id, request.group_instance_id)
    member = group.members[member_id]
    unchanged = tuple(request.protocols) == tuple(member.protocols)
    leads = member_id == group.leader
    match group.phase:
        case ClassicState.EMPTY | ClassicState.DEAD:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.group_id} has no members")
        case ClassicState.COMPLETING_REBALANCE if unchanged:
            joiner.answer.complete(joined(group, member_id, tell_members=leads))
            return Result()
        case ClassicState.STABLE if unchanged and not leads:
            joiner.answer.complete(joined(group, member_id, tell_members=False))
            return Result()
    joiner.tell(group, member)
    return rebalance_if_possible(shard, group, joiner.context.now_ms)


def _check_protocols(group: LiveGroup, request: JoinGroupRequest) -> None:
    if not group.supports(request.protocol_type, (offered.name for offered in request.protocols)):
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group.group_id} and the member have no protocol in common"
        )


def _add(shard: CoordinatorShard, group: LiveGroup, member_id: str, joiner: Joiner) -> Result[None]:
    """A new member, for whom the others rebalance."""
    if group.phase is ClassicState.PREPARING_REBALANCE and group.previous_phase is ClassicState.EMPTY:
        group.newcomers = True
    now_ms, timeout_ms = joiner.context.now_ms, shard.config.classic_group_new_member_join_timeout_ms
    member = joiner.as_member(member_id)
    group.add(member, joiner.request.protocol_type, joiner.answer)
    # It cannot send heartbeats before it knows its id, so its session does not count; but if it
    # asks again and again, as clients do whose requests time out, the members that it left behind
    # must go.
    expect_heartbeat(shard, group, member, now_ms, timeout_ms)
    return rebalance_if_possible(shard, group, now_ms)


def _error(code: int, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None, member_id=member_id)


def _fitting(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """The response as a version can carry it."""
    if version < NAMELESS and response.protocol_name is None:
        return replace(response, protocol_name="")
    if version >= NAMELESS and response.protocol_name == "":
        return replace(response, protocol_name=None)
    return response


def _refused(request: JoinGroupRequest, context: RequestContext, code: ErrorCode) -> Result[JoinGroupResponse]:
    return Result(response=_fitting(_error(code, request.member_id), context.api_version))


def join_failed(request: JoinGroupRequest, context: RequestContext, code: ErrorCode, message: str) -> JoinGroupResponse:
    """The response to a JoinGroup that failed as a whole."""
    # Without a group's name no coordinator is asked, and the member hears its id again.
    return _fitting(_error(code, request.member_id if not request.group_id else ""), context.api_version)

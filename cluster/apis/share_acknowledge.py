"""ShareAcknowledge v1–2: acknowledge records of a share session (KIP-932).

v2 renews acquisition locks (KIP-1222). Acknowledgements in ShareFetch are handled here, too.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context, endpoints
from quorate.cluster.apis.groups import lacks_feature
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.cluster.share.acknowledge import RENEW, Acknowledgement
from quorate.cluster.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionPartition
from quorate.cluster.share.store import ShareError, ShareOutcome, ShareRequestFailed
from quorate.codecs.api.broker import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from quorate.codecs.api.broker.share_acknowledge import PartitionData, ShareAcknowledgeTopicResponse
from quorate.codecs.api.broker.share_fetch import LeaderIdAndEpoch, NodeEndpoint
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

Outcomes = dict[SessionPartition, ShareOutcome]
"""Partition → result of its acknowledgements."""

_MAX_MEMBER_ID = 36
_KNOWS_RENEW = 2
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def share_acknowledge(
    broker: "Broker", request: ShareAcknowledgeRequest, context: Context
) -> ShareAcknowledgeResponse | Pending[Any]:
    """Acknowledge records. The response comes when their states are stored."""
    code = check_member(broker, request, context)
    if code:
        return ShareAcknowledgeResponse(error_code=code)
    group_id, member_id = request.group_id or "", request.member_id or ""
    sessions = broker.share.sessions
    try:
        if request.share_session_epoch == INITIAL_EPOCH:
            raise ShareError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if request.share_session_epoch == FINAL_EPOCH:
            sessions.get(group_id, member_id)
        else:
            sessions.use(group_id, member_id, request.share_session_epoch)
    except ShareError as error:
        return ShareAcknowledgeResponse(error_code=error.outcome.code)
    response: Pending[Any] = Pending()

    def respond(outcomes: Outcomes) -> None:
        if request.share_session_epoch == FINAL_EPOCH:
            broker.share.release_session(group_id, member_id)
        response.complete(_response(broker, group_id, outcomes))

    readable = readable_topics(broker, context, (topic.topic_id for topic in request.topics))
    try:
        stored = acknowledge_all(broker, request, context, readable)
    except ShareRequestFailed:
        return ShareAcknowledgeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    stored.on_complete(respond)
    return response


def check_member(broker: "Broker", request: Any, context: Context) -> ErrorCode:
    """Return why a member's request is rejected, or NONE."""
    if lacks_feature(broker, request):
        return ErrorCode.UNSUPPORTED_VERSION
    if request.group_id is None:
        return ErrorCode.INVALID_REQUEST
    access = context.access
    if access is not None and not access.may(Operation.READ, ResourceType.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not request.member_id or len(request.member_id) > _MAX_MEMBER_ID:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def readable_topics(broker: "Broker", context: Context, topic_ids: Iterable[Any]) -> Collection[Any]:
    """Return the ids of existing topics that the client may read."""
    topics = broker.cluster.topics_by_id
    existing = {topic_id for topic_id in topic_ids if topic_id in topics}
    if context.access is None:
        return existing
    allowed = context.access.topics(Operation.READ, (topics[topic_id].name for topic_id in existing))
    return {topic_id for topic_id in existing if topics[topic_id].name in allowed}


def acknowledge_all(broker: "Broker", request: Any, context: Context, readable: Collection[Any]) -> Pending[Outcomes]:
    """Acknowledge the records of all partitions in a request.

    As in Kafka, a partition without acknowledgements has a result only if another one has some.

    Raises `ShareRequestFailed` if one fails the request; partitions before it are acknowledged.
    """
    outcomes: Outcomes = {}
    empty: list[SessionPartition] = []
    valid: dict[SessionPartition, list[Acknowledgement]] = {}
    may_renew = context.api_version >= _KNOWS_RENEW and request.is_renew_ack
    for topic in request.topics:
        known = broker.cluster.topics_by_id.get(topic.topic_id)
        for partition in topic.partitions:
            key = topic.topic_id, partition.partition_index
            some = [
                Acknowledgement(one.first_offset, one.last_offset, one.acknowledge_types)
                for one in partition.acknowledgement_batches
            ]
            if known is None:
                outcomes[key] = ShareOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
            elif not _is_valid(some, may_renew=may_renew):
                outcomes[key] = ShareOutcome(ErrorCode.INVALID_REQUEST)
            elif topic.topic_id not in readable:
                outcomes[key] = ShareOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif not 0 <= partition.partition_index < len(known.partitions):
                outcomes[key] = ShareOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif some:
                valid[key] = some
            else:
                empty.append(key)
    if valid:
        outcomes |= dict.fromkeys(empty, ShareOutcome())
    return _all(broker, request, valid, outcomes)


def _all(
    broker: "Broker", request: Any, valid: Mapping[SessionPartition, list[Acknowledgement]], outcomes: Outcomes
) -> Pending[Outcomes]:
    done: Pending[Outcomes] = Pending()
    left = len(valid)
    if not left:
        done.complete(outcomes)

    def acknowledged(key: SessionPartition, outcome: ShareOutcome) -> None:
        nonlocal left
        outcomes[key] = outcome
        left -= 1
        if not left:
            done.complete(outcomes)

    for key, some in valid.items():
        pending = broker.share.acknowledge(request.group_id, request.member_id, *key, some)
        pending.on_complete(lambda outcome, key=key: acknowledged(key, outcome))  # type: ignore[misc]
    return done


def _is_valid(some: Iterable[Acknowledgement], *, may_renew: bool) -> bool:
    """Return whether batches are in order, and each has one type or as many as offsets."""
    previous = -1
    for one in some:
        if one.first > one.last or one.first < previous or not one.types:
            return False
        if len(one.types) > 1 and one.last - one.first != len(one.types) - 1:
            return False
        if any(kind < 0 or kind > RENEW or (kind == RENEW and not may_renew) for kind in one.types):
            return False
        previous = one.last
    return True


def _response(broker: "Broker", group_id: str, outcomes: Outcomes) -> ShareAcknowledgeResponse:
    leaders, endpoints = current_leaders(broker, {key: outcome.code for key, outcome in outcomes.items()})
    topics: dict[Any, list[PartitionData]] = {}
    for (topic_id, index), outcome in outcomes.items():
        topics.setdefault(topic_id, []).append(
            PartitionData(
                partition_index=index,
                error_code=outcome.code,
                error_message=outcome.message,
                current_leader=leaders.get((topic_id, index), LeaderIdAndEpoch()),
            )
        )
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.share.configs.of(group_id).record_lock_duration_ms,
        responses=tuple(
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        ),
        node_endpoints=endpoints,
    )


def current_leaders(
    broker: "Broker", codes: Mapping[SessionPartition, int]
) -> tuple[dict[SessionPartition, LeaderIdAndEpoch], tuple[NodeEndpoint, ...]]:
    """Return the leaders of partitions that moved to another broker, and their addresses."""
    leaders: dict[SessionPartition, LeaderIdAndEpoch] = {}
    for (topic_id, index), code in codes.items():
        topic = broker.cluster.topics_by_id.get(topic_id)
        if code in _MOVED and topic is not None and 0 <= index < len(topic.partitions):
            partition = topic.partitions[index]
            leaders[topic_id, index] = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    return leaders, endpoints(broker, sorted({one.leader_id for one in leaders.values()}), NodeEndpoint)

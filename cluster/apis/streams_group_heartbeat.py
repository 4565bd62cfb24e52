"""StreamsGroupHeartbeat v0–1 (KIP-1071): the coordinator of the group handles it.

The broker then creates internal topics that the group lacks. The response does not wait for them.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context
from quorate.cluster.apis.groups import about_one_group, lacks_feature
from quorate.cluster.apis.topics import create_topics
from quorate.cluster.authorizer import Operation
from quorate.cluster.topics import INTERNAL, is_valid_name
from quorate.codecs.api import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, api_of
from quorate.codecs.api.broker import CreateTopicsRequest, CreateTopicsResponse
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.streams_group_heartbeat import Status
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending
from quorate.coordinator.streams.statuses import StreamsStatus

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

_MOST_SHOWN = 3
_TIMEOUT_MS = 30_000


def streams_group_heartbeat(
    broker: "Broker", request: StreamsGroupHeartbeatRequest, context: Context
) -> Message | Pending[Any]:
    """Hand a heartbeat to the coordinator of its group, and create missing internal topics."""
    if not lacks_feature(broker, request) and (problem := topology_problem(request)):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=problem)
    result: Any = about_one_group(broker, request, context)
    if not isinstance(result, Pending):
        return _finished(broker, request, context, result)
    finished: Pending[Any] = Pending()
    result.on_complete(lambda response: finished.complete(_finished(broker, request, context, response)))
    return finished


def named_topics(request: StreamsGroupHeartbeatRequest) -> dict[str, None]:
    """Return the topics in the request's topology, each once."""
    found: dict[str, None] = {}
    for one in () if request.topology is None else request.topology.subtopologies:
        found.update(dict.fromkeys((*one.source_topics, *one.repartition_sink_topics)))
        found.update(dict.fromkeys(topic.name for topic in one.repartition_source_topics))
        found.update(dict.fromkeys(topic.name for topic in one.state_changelog_topics))
    return found


def topology_problem(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return why a topology is rejected for its topic names, or `None`."""
    names = named_topics(request)
    if prohibited := [name for name in names if name in INTERNAL]:
        return f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
    if invalid := [name for name in names if not is_valid_name(name)]:
        return f"Topic names {','.join(invalid)} are not valid topic names."
    return None


def _finished(
    broker: "Broker", request: StreamsGroupHeartbeatRequest, context: Context, response: StreamsGroupHeartbeatResponse
) -> StreamsGroupHeartbeatResponse:
    """Create internal topics, or return the response with the reason why they are not created."""
    topics = context.internal_topics
    if not topics or response.error_code:
        return response
    if denied := _denied(context, topics):
        return _with_detail(response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
    errors = broker.internal_topics.errors(topics, context.now_ms)
    _create(broker, request.group_id, topics, context)
    if not errors:
        return response
    shown = ", ".join(f"{name} ({errors[name]})" for name in list(errors)[:_MOST_SHOWN])
    more = f" and {len(errors) - _MOST_SHOWN} more" if len(errors) > _MOST_SHOWN else ""
    return _with_detail(response, f"Creation failed: {shown}{more}.")


def _denied(context: Context, topics: Iterable[str]) -> list[str]:
    """Return the topics that the client may not create."""
    access = context.access
    if access is None or access.may_with_cluster(Operation.CREATE):
        return []
    allowed = access.topics(Operation.CREATE, topics)
    return [name for name in topics if name not in allowed]


def _create(broker: "Broker", group_id: str, topics: Mapping[str, CreatableTopic], context: Context) -> None:
    """Create topics in turns. Errors are reported for two heartbeat intervals."""
    creation = broker.internal_topics
    new = creation.start(topics, context.now_ms)
    if not new:
        return
    until_ms = context.now_ms + 2 * broker.cluster.groups.streams_heartbeat_interval_ms(group_id)

    def created(response: CreateTopicsResponse) -> None:
        creation.created(response, until_ms=until_ms)

    def failed(error: BaseException) -> None:
        creation.failed([topic.name for topic in new], error, until_ms=until_ms)
        broker.note(f"cannot create internal topics of streams group {group_id}: {error}")

    request = CreateTopicsRequest(topics=new, timeout_ms=_TIMEOUT_MS)
    newest = copy(context)
    newest.api_version = api_of(CreateTopicsRequest).versions[-1]
    broker.cluster.turns.run(create_topics(broker, request, newest), created, failed)


def _with_detail(response: StreamsGroupHeartbeatResponse, text: str) -> StreamsGroupHeartbeatResponse:
    """Add a text to the status of missing internal topics; without such a status, add one."""
    statuses = list(response.status or ())
    for place, one in enumerate(statuses):
        if one.status_code == StreamsStatus.MISSING_INTERNAL_TOPICS:
            statuses[place] = replace(one, status_detail=f"{one.status_detail}; {text}")
            return replace(response, status=tuple(statuses))
    statuses.append(Status(status_code=StreamsStatus.MISSING_INTERNAL_TOPICS, status_detail=text))
    return replace(response, status=tuple(statuses))

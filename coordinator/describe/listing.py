"""ListGroups v0–5: filters by state (KIP-518) and type (KIP-848), both case-insensitive."""

from quorate.codecs.api import ListGroupsRequest, ListGroupsResponse
from quorate.codecs.api.list_groups import ListedGroup
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard


def _in_filters(state: str) -> str:
    """Return a state as filters name it, in lower case. That of streams groups has another name."""
    return "not_ready" if state == "NotReady" else state.lower()


def list_groups(
    shard: CoordinatorShard, request: ListGroupsRequest, context: RequestContext
) -> Result[ListGroupsResponse]:
    """List groups, in the order of Kafka's map."""
    states = {state.lower() for state in request.states_filter}
    kinds = {kind.lower() for kind in request.types_filter}
    return Result(
        response=ListGroupsResponse(
            groups=tuple(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.kind.lower(),
                )
                for group in shard.state.all_readable()
                if (not states or _in_filters(group.state) in states) and (not kinds or group.kind.lower() in kinds)
            )
        )
    )

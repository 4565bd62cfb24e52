"""`Persister`: how partition leaders and group coordinators reach share coordinators (KIP-932)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from quorate.codecs.api import ReadShareGroupStateRequest, ReadShareGroupStateSummaryRequest
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending
from quorate.coordinator.share_state.requests import OPERATIONS


class Persister(Protocol):
    """Kafka's `Persister`: the state of a group's partitions, wherever their coordinators are."""

    def persist(self, request: Message) -> Pending[Any]:
        """Handle a request about share state: the types in `OPERATIONS`.

        Returns a response that is complete already, or later, in the cluster's loop. It has one
        result per requested partition, in any order. A result has an error code, 0 for success. The
        persister itself finds the coordinators, and retries while they move or load; other errors
        (such as FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, INVALID_REQUEST) are in the result.
        Nothing is raised. A request that the persister refuses as a whole has no results: one
        without partitions of each topic, or with a negative one.

        A `start_offset` of -1: the first reader decides (initialize), it stays (write), there is no
        state (read).
        """


_NO_STATE: Final[Mapping[type[Any], Mapping[str, int]]] = MappingProxyType(
    {
        ReadShareGroupStateRequest: {"start_offset": -1},
        ReadShareGroupStateSummaryRequest: {"start_offset": -1, "delivery_complete_count": -1},
    }
)


class NoPersister:
    """A `Persister` whose requests succeed at once, and change nothing (`NoOpStatePersister`)."""

    def persist(self, request: Any) -> Pending[Any]:
        """Return success, and no state."""
        operation, values = OPERATIONS[type(request)], _NO_STATE.get(type(request), {})
        results = tuple(
            operation.topic_result(
                topic_id=topic.topic_id,
                partitions=tuple(
                    operation.partition_result(partition=one.partition, **values) for one in topic.partitions
                ),
            )
            for topic in request.topics
        )
        pending: Pending[Any] = Pending()
        pending.complete(request.api.response.cls(results=results))
        return pending

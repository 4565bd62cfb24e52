"""`NoPersister`: share state that exists nowhere, for group coordinators without a cluster."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from quorate.codecs.api import ReadShareGroupStateRequest, ReadShareGroupStateSummaryRequest
from quorate.coordinator.results import Pending
from quorate.coordinator.share_state.requests import OPERATIONS

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

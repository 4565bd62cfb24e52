"""`NoPersister`: share state that exists nowhere, for group coordinators without a cluster."""

from typing import Any

from quorate.codecs.api import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from quorate.coordinator.results import Pending
from quorate.coordinator.share_state.requests import OPERATIONS


class NoPersister:
    """A `Persister` whose requests succeed at once, and change nothing (`NoOpStatePersister`)."""

    def initialize_state(self, request: InitializeShareGroupStateRequest) -> Pending[InitializeShareGroupStateResponse]:
        """Return success."""
        return _succeeded(request)

    def read_state(self, request: ReadShareGroupStateRequest) -> Pending[ReadShareGroupStateResponse]:
        """Return no state."""
        return _succeeded(request, start_offset=-1)

    def write_state(self, request: WriteShareGroupStateRequest) -> Pending[WriteShareGroupStateResponse]:
        """Return success."""
        return _succeeded(request)

    def delete_state(self, request: DeleteShareGroupStateRequest) -> Pending[DeleteShareGroupStateResponse]:
        """Return success."""
        return _succeeded(request)

    def read_summary(self, request: ReadShareGroupStateSummaryRequest) -> Pending[ReadShareGroupStateSummaryResponse]:
        """Return no state."""
        return _succeeded(request, start_offset=-1, delivery_complete_count=-1)


def _succeeded(request: Any, **values: int) -> Pending[Any]:
    operation = OPERATIONS[type(request)]
    pending: Pending[Any] = Pending()
    pending.complete(
        request.api.response.cls(
            results=tuple(
                operation.topic_result(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        operation.partition_result(partition=one.partition, **values) for one in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
    )
    return pending

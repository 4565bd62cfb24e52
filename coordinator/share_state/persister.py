"""`Persister`: how partition leaders and group coordinators reach share coordinators (KIP-932)."""

from typing import Protocol

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


class Persister(Protocol):
    """Kafka's `Persister`: the state of a group's partitions, wherever their coordinators are.

    Each method returns a response that is complete already, or later, in the cluster's loop. It has
    one result per requested partition, in any order. A result has an error code, 0 for success. The
    persister itself finds the coordinators, and retries while they move or load; other errors
    (such as FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, INVALID_REQUEST) are in the result. Nothing is
    raised. A request that the persister refuses as a whole has no results: one without partitions
    of each topic, or with a negative one.
    """

    def initialize_state(self, request: InitializeShareGroupStateRequest) -> Pending[InitializeShareGroupStateResponse]:
        """Create or reset the state of partitions. `start_offset` -1: the first reader decides."""

    def read_state(self, request: ReadShareGroupStateRequest) -> Pending[ReadShareGroupStateResponse]:
        """Read the state of partitions.

        A higher `leader_epoch` than that of the last reader or writer fences those.
        """

    def write_state(self, request: WriteShareGroupStateRequest) -> Pending[WriteShareGroupStateResponse]:
        """Change the state of partitions.

        `start_offset` -1 keeps the start offset. Batches replace the state of their offsets; the
        coordinator drops what is below the start offset.
        """

    def delete_state(self, request: DeleteShareGroupStateRequest) -> Pending[DeleteShareGroupStateResponse]:
        """Delete the state of partitions; it is no error if there is none."""

    def read_summary(self, request: ReadShareGroupStateSummaryRequest) -> Pending[ReadShareGroupStateSummaryResponse]:
        """Read offsets and epochs without batches, or fencing. `start_offset` -1: no state."""

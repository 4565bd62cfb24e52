"""`Persister`: how partition leaders and group coordinators reach share coordinators (KIP-932)."""

from typing import Any, Protocol

from quorate.codecs.message import Message
from quorate.coordinator.results import Pending


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

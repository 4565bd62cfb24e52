"""What a share-partition needs of others: configs, the store of its state, dead letter queues."""

from collections.abc import Sequence
from typing import Protocol

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.errors import QuorateError
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.share_state import StateBatch
from quorate.coordinator.results import Pending

NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class ShareOutcome:
    """The result of an operation: an error code, 0 for success, and Kafka's message."""

    code: int = ErrorCode.NONE
    message: str | None = None


DONE = ShareOutcome()


class ShareError(QuorateError):
    """An operation failed. `outcome`: the error for the client."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(message)
        self.outcome = ShareOutcome(code, message)


class ShareRequestFailed(QuorateError):
    """A whole request fails with UNKNOWN_SERVER_ERROR, as Kafka throws an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConfigs:
    """Configs of a share group. They may change between two calls.

    `auto_offset_reset`: latest, earliest, or by_duration: and an ISO 8601 duration.
    """

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    partition_max_record_locks: int = 2_000
    renew_acknowledge_enable: bool = True
    isolation_level: str = "read_uncommitted"
    auto_offset_reset: str = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The stored state of a share-partition, or the error of reading it.

    `start_offset` -1: the group has not fetched yet.
    """

    outcome: ShareOutcome = DONE
    state_epoch: int = 0
    start_offset: int = NO_OFFSET
    batches: Sequence[StateBatch] = ()


class StateStore(Protocol):
    """Stores the state of one share-partition. Errors are in the results."""

    def read(self, leader_epoch: int) -> Pending[StoredState]:
        """Read the state as the leader with an epoch."""

    def write(
        self,
        *,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Pending[ShareOutcome]:
        """Change the state of the offsets in the batches."""


class DeadLetters(Protocol):
    """The dead letter queue of one share-partition (KIP-1191)."""

    def enabled(self) -> bool:
        """Return whether the group has one."""

    def write(self, first: int, last: int, delivery_count: int, cause: str) -> None:
        """Write records, as far as possible; `cause` is `REJECTED` or `DELIVERED_TOO_OFTEN`."""


class _NoDeadLetters:
    def enabled(self) -> bool:
        return False

    def write(self, first: int, last: int, delivery_count: int, cause: str) -> None:
        """Write nothing, as Kafka's NoOpShareGroupDLQManager."""


NO_DEAD_LETTERS: DeadLetters = _NoDeadLetters()
DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."
REJECTED = "Offset rejected by client."
"""Kafka's texts, in the header `__dlq.errors.message` of dead letters."""

_SAME = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_SERVER_ERROR)
_UNAVAILABLE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
_FENCED = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_HIDDEN = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_VERSION)


def stored_error(outcome: ShareOutcome) -> tuple[int, str | None]:
    """Return the client's error for an error of the share coordinator."""
    code, message = outcome.code, outcome.message
    if code in _UNAVAILABLE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif code in _FENCED:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif code in _HIDDEN:
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, "Unable to complete operation due to server error."
    elif code not in _SAME:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return code, message

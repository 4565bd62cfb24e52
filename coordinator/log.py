"""The log of a coordinator: what `PartitionRuntime` writes to and loads from, and `MemoryLog`, which keeps it in memory.

`MAPPED_ERRORS`: as which error a client gets what its coordinator's log says (Kafka's CoordinatorRuntime).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from quorate.codecs import CoordinatorRecord, MalformedRecord, UnknownRecord
from quorate.coordinator.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = [
    "MAPPED_ERRORS",
    "AppendError",
    "ColumnarLog",
    "CoordinatorLog",
    "MemoryLog",
    "StoredMarker",
    "StoredRecord",
]

MAPPED_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class AppendError(ApiError):
    """A batch is rejected, or the log cannot be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record in a log, with its batch's facts. `producer_id`, `producer_epoch`: -1 outside transactions."""

    offset: int
    timestamp_ms: int
    record: CoordinatorRecord | UnknownRecord | MalformedRecord
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMarker:
    """The end of a producer's transaction."""

    offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    commit: bool


class CoordinatorLog(Protocol):
    """Where records go: a batch is written whole or not at all."""

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        """Write one batch; returns the offset of its first record. Raises `AppendError`."""

    def parts(self, records: Sequence[CoordinatorRecord]) -> Iterable[Sequence[CoordinatorRecord]]:
        """The records in as few batches as the log has room for; one that is too large alone is in a batch alone."""

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Write the end of a transaction; returns its offset. Raises `AppendError`."""

    def read(self) -> Iterator[StoredRecord | StoredMarker]:
        """Everything, oldest first."""


@runtime_checkable
class ColumnarLog(CoordinatorLog, Protocol):
    """A log that can be read many records at a time."""

    def blocks(self) -> Iterator["RawBlock"] | None:
        """Everything, oldest first; `None` if it cannot be read so here."""


@dataclass
class MemoryLog:
    """A log in memory. `fail_next`: what the next append fails with."""

    stored: list[StoredRecord | StoredMarker] = field(default_factory=list)
    fail_next: ErrorCode | None = None

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        """Write one batch; returns the offset of its first record. Raises `AppendError` if it was told to."""
        self._fail()
        first = len(self.stored)
        self.stored += [
            StoredRecord(
                offset=first + index,
                timestamp_ms=timestamp_ms,
                record=record,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
            for index, record in enumerate(records)
        ]
        return first

    def parts(self, records: Sequence[CoordinatorRecord]) -> Iterable[Sequence[CoordinatorRecord]]:
        """All in one batch: there is no limit."""
        return [records]

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Write the end of a transaction; returns its offset. Raises `AppendError` if it was told to."""
        self._fail()
        self.stored.append(
            StoredMarker(
                offset=len(self.stored),
                timestamp_ms=timestamp_ms,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                commit=commit,
            )
        )
        return len(self.stored) - 1

    def read(self) -> Iterator[StoredRecord | StoredMarker]:
        """Everything, oldest first."""
        return iter(self.stored)

    def _fail(self) -> None:
        if self.fail_next is not None:
            code, self.fail_next = self.fail_next, None
            raise AppendError(code)

"""`CoordinatorRuntime`: what is around a shard on a broker, without threads: write, replay, answer; a clock that somebody else moves; timers.

A request's records are written as one batch, then replayed, then the response is given. If they cannot be written, nothing is replayed, so nothing has to
be rolled back, and the client gets the error (`MAPPED_ERRORS`: as Kafka's coordinator translates what a log says).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quorate.codecs import CoordinatorRecord
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import Pending, RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.timers import Timer

__all__ = ["AppendError", "CoordinatorLog", "CoordinatorRuntime", "MemoryLog", "StoredRecord"]

RETRY_BACKOFF_MS = 500
"""A timer whose records could not be written fires again after this."""

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


class AppendError(Exception):
    """The log could not be written; `code` is Kafka's."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record in a log, with its batch's facts that matter for replay. `producer_id`: -1 outside transactions."""

    offset: int
    timestamp_ms: int
    record: CoordinatorRecord
    producer_id: int = -1


class CoordinatorLog(Protocol):
    """Where records go: a batch is written whole or not at all."""

    def append(self, records: Sequence[CoordinatorRecord], *, timestamp_ms: int, producer_id: int = -1) -> int:
        """Write one batch; returns the offset of its first record. Raises `AppendError`."""

    def read(self) -> Iterator[StoredRecord]:
        """All records, oldest first."""


@dataclass
class MemoryLog:
    """A log in memory."""

    records: list[StoredRecord] = field(default_factory=list)

    def append(self, records: Sequence[CoordinatorRecord], *, timestamp_ms: int, producer_id: int = -1) -> int:
        """Write one batch; returns the offset of its first record."""
        first = len(self.records)
        self.records += [
            StoredRecord(offset=first + index, timestamp_ms=timestamp_ms, record=record, producer_id=producer_id)
            for index, record in enumerate(records)
        ]
        return first

    def read(self) -> Iterator[StoredRecord]:
        """All records, oldest first."""
        return iter(self.records)


class CoordinatorRuntime:
    """One shard and its log. `now_ms`: the clock, which only `advance` moves. `error_response`: makes the answer to a request that failed as a whole."""

    def __init__(
        self,
        shard: CoordinatorShard,
        log: CoordinatorLog,
        *,
        now_ms: int,
        error_response: Callable[[Message, ErrorCode, str], Message],
    ) -> None:
        self.shard = shard
        self.log = log
        self.now_ms = now_ms
        self._error_response = error_response

    def load(self) -> None:
        """Replay the log. What Kafka does after loading (sessions start anew) is the shard's `loaded`."""
        for stored in self.log.read():
            self.shard.replay(stored.record, offset=stored.offset, producer_id=stored.producer_id)

    def request(self, request: Message, context: RequestContext) -> Pending[Any]:
        """Handle, write, replay, answer."""
        answer: Pending[Any] = Pending()
        try:
            result = self.shard.handle(request, context)
        except ApiError as error:
            answer.complete(self._error_response(request, error.code, error.message))
            return answer
        if isinstance(result.response, Pending):
            result.response.on_complete(answer.complete)
        failed = self._write(result)
        if failed is not None:
            answer.complete(self._error_response(request, failed, ""))
        elif result.response is not None and not isinstance(result.response, Pending):
            answer.complete(result.response)
        return answer

    def advance(self, to_ms: int) -> int:
        """Move the clock, firing each timer at its time; returns how many fired."""
        fired = 0
        while (at_ms := self.shard.timers.next_at_ms()) is not None and at_ms <= to_ms:
            self.now_ms = max(self.now_ms, at_ms)
            timer = self.shard.timers.next_due(self.now_ms)
            assert timer is not None
            fired += 1
            self._fire(timer)
        self.now_ms = max(self.now_ms, to_ms)
        return fired

    def _fire(self, timer: Timer) -> None:
        if self._write(timer.operation()) is not None:
            self.shard.timers.schedule(timer.key, self.now_ms + RETRY_BACKOFF_MS, timer.operation)

    def _write(self, result: Result[Any]) -> ErrorCode | None:
        """The error that clients get, if the records could not be written."""
        if result.records:
            try:
                first = self.log.append(result.records, timestamp_ms=self.now_ms)
            except AppendError as error:
                code = MAPPED_ERRORS.get(error.code, error.code)
                if result.on_failed is not None:
                    result.on_failed(code)
                return code
            if result.replay:
                for index, record in enumerate(result.records):
                    self.shard.replay(record, offset=first + index, strict=True)
        if result.on_appended is not None:
            result.on_appended()
        return None

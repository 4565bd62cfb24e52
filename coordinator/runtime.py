"""`CoordinatorRuntime`: what is around a shard on a broker, without threads: write, replay, answer; a clock that somebody else moves; timers, tasks.

A request's records are written as one batch, then replayed, then the response is given. If they cannot be written, nothing is replayed, so nothing has to
be rolled back, and the client gets the error (`MAPPED_ERRORS`: as Kafka's coordinator translates what a log says).
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from quorate.codecs import CoordinatorRecord, MalformedRecord, UnknownRecord
from quorate.codecs.errors import QuorateError
from quorate.codecs.message import Message
from quorate.coordinator import handlers  # noqa: F401  # enters all handlers into the tables of the shard
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.results import Pending, RequestContext, Result, Task
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.timers import Timer

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = [
    "AppendError",
    "ColumnarLog",
    "CoordinatorLog",
    "CoordinatorRuntime",
    "MemoryLog",
    "StoredMarker",
    "StoredRecord",
    "WriteEvent",
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


class AppendError(QuorateError):
    """The log could not be written; `code` is Kafka's."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEvent:
    """Something was to be written: for whom, how many records, when; `error`: why it was not."""

    name: str
    records: int
    at_ms: int
    error: ErrorCode | None = None


RunWork = Callable[[Generator[None, None, None], Callable[[], None]], bool]


def _at_once(work: Generator[None, None, None], then: Callable[[], None]) -> bool:
    for _ in work:
        pass
    then()
    return True


class CoordinatorRuntime:
    """One shard and its log. `now_ms`: the clock, which only `advance` moves, and `step` sets.

    `on_event`: is told of everything that was written, or could not be. `run_tasks_at_once`: whether what a shard leaves for later (`CoordinatorShard.tasks`)
    is done right after what left it. `run_work`: does the long part of that (`Task.work`) and calls what follows; returns whether both were at once.
    """

    def __init__(
        self,
        shard: CoordinatorShard,
        log: CoordinatorLog,
        *,
        now_ms: int,
        on_event: Callable[[WriteEvent], None] | None = None,
        run_tasks_at_once: bool = True,
        run_work: RunWork | None = None,
    ) -> None:
        self.shard = shard
        self.log = log
        self.now_ms = now_ms
        self.run_tasks_at_once = run_tasks_at_once
        self._run_work = run_work or _at_once
        self._working: Task | None = None
        self._on_event = on_event

    def load(self) -> None:
        """Replay the log, and do what a coordinator does then: sessions start anew. A log that has columns is replayed by these, with the same result."""
        blocks = self.log.blocks() if isinstance(self.log, ColumnarLog) else None
        if blocks is not None:
            from quorate.coordinator.bulk import replay_blocks

            replay_blocks(self.shard.state, blocks, strict=True)
        else:
            self._replay_log()
        self._write("load", self.shard.loaded(self.now_ms))
        self.settle()

    def _replay_log(self) -> None:
        for stored in self.log.read():
            if isinstance(stored, StoredMarker):
                self.shard.end_transaction(stored.producer_id, commit=stored.commit)
            else:
                self.shard.replay(stored.record, offset=stored.offset, producer_id=stored.producer_id, strict=True)

    def unload(self) -> None:
        """Another broker coordinates the partition from now on: requests that wait are answered NOT_COORDINATOR. The runtime is not to be used any more."""
        self.shard.tasks.clear()
        self.shard.unloaded()

    def request(self, request: Message, context: RequestContext) -> Pending[Any]:
        """Handle, write, replay, answer. A request that fails as a whole is answered by its error."""
        answer: Pending[Any] = Pending()
        name = type(request).__name__
        try:
            result = self.shard.handle(request, context)
        except ApiError as error:
            answer.complete(self.shard.failed(request, context, error.code, error.message))
            return answer
        while True:
            if isinstance(result.response, Pending):
                result.response.on_complete(answer.complete)
            failed = self._write(name, result)
            if failed is not None or result.then is None:
                break
            result = result.then(self.now_ms)
        if failed is not None:
            answer.complete(self.shard.failed(request, context, failed, "the coordinator could not write to its log"))
        elif result.response is not None and not isinstance(result.response, Pending):
            answer.complete(result.response)
        self.settle()
        return answer

    def take_image(self, image: MetadataImage, delta: MetadataDelta | None = None) -> MetadataDelta:
        """The cluster's metadata has changed. `delta`: how, if that is known."""
        delta, results = self.shard.take_image(image, self.now_ms, delta)
        for result in results:
            self._write("image", result)
        self.settle()
        return delta

    def end_transaction(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Write the marker that ends a producer's transaction (KIP-447). Raises `AppendError`."""
        self.log.append_marker(producer_id, producer_epoch, commit=commit, timestamp_ms=self.now_ms)
        self.shard.state.written()
        self.shard.end_transaction(producer_id, commit=commit)
        self._tell("marker", 1)
        self.settle()

    def clean_up(self) -> None:
        """Expire offsets and groups now, as the shard's own timer does from time to time."""
        self._write("cleanup", self.shard.clean_up(self.now_ms))
        self.settle()

    def advance(self, to_ms: int) -> int:
        """Move the clock, firing each timer at its time; returns how many fired."""
        self.settle()
        fired = 0
        while (at_ms := self.shard.timers.next_at_ms()) is not None and at_ms <= to_ms:
            self.now_ms = max(self.now_ms, at_ms)
            timer = self.shard.timers.next_due(self.now_ms)
            assert timer is not None
            fired += 1
            self._fire(timer)
            fired += self.settle()
        self.now_ms = max(self.now_ms, to_ms)
        return fired

    def step(self, by_ms: int) -> None:
        """The clock was set, forward or back, without time having passed: what is due in a minute still is."""
        self.now_ms += by_ms
        self.shard.timers.step(by_ms)

    def run_tasks(self, most: int | None = None) -> int:
        """Do what the shard has left for later; returns how much was done."""
        done = 0
        while self.shard.tasks and self._working is None and (most is None or done < most):
            task = self._working = self.shard.tasks[0]
            if task.work is None:
                self._finish(task)
            elif not self._run_work(self._long_part(task), partial(self._finish, task)):
                break
            done += 1
        return done

    def _long_part(self, task: Task) -> Generator[None, None, None]:
        """What a task needs first. A task that fails is dropped, as Kafka's executor drops it: others follow."""
        assert task.work is not None
        try:
            yield from task.work()
        except Exception:
            self._take(task)
            raise

    def _finish(self, task: Task) -> None:
        """What follows the long part of a task."""
        if self._take(task):
            self._write(task.name, task.operation(self.now_ms))

    def _take(self, task: Task) -> bool:
        """Remove the task that is being done; whether it was still to be done, which it is not after `unload`."""
        self._working = None
        if not (self.shard.tasks and self.shard.tasks[0] is task):
            return False
        self.shard.tasks.popleft()
        return True

    def settle(self) -> int:
        """What happens without the clock moving: tasks, then timers that are due already. Returns how many timers fired."""
        fired = 0
        while True:
            if self.run_tasks_at_once:
                self.run_tasks()
            timer = self.shard.timers.next_due(self.now_ms)
            if timer is None:
                return fired
            fired += 1
            self._fire(timer)

    def _fire(self, timer: Timer) -> None:
        name = f"Timeout(key={timer.key})"
        try:
            failed = self._write(name, timer.operation(self.now_ms))
        except ApiError as error:
            failed = error.code
            self._tell(name, 0, failed)
        if failed is not None and timer.retry_ms is not None:
            at_ms = self.now_ms + timer.retry_ms
            self.shard.timers.schedule(timer.key, at_ms, timer.operation, retry_ms=timer.retry_ms)

    def _write(self, name: str, result: Result[Any]) -> ErrorCode | None:
        """The error that clients get, if the records could not be written. Batches before the one that could not be stay."""
        if result.records:
            try:
                for part in [result.records] if result.atomic else self.log.parts(result.records):
                    self._append(part, result)
            except AppendError as error:
                code = MAPPED_ERRORS.get(error.code, error.code)
                self._tell(name, 0, error.code)
                if result.on_failed is not None:
                    result.on_failed(code)
                return code
        if self._on_event is not None:
            self._tell(name, len(result.records))
        if result.on_appended is not None:
            result.on_appended()
        return None

    def _append(self, records: Sequence[CoordinatorRecord], result: Result[Any]) -> None:
        """Write and replay one batch. Raises `AppendError`."""
        first = self.log.append(
            records, timestamp_ms=self.now_ms, producer_id=result.producer_id, producer_epoch=result.producer_epoch
        )
        self.shard.state.written()
        if result.replay:
            for index, record in enumerate(records):
                self.shard.replay(record, offset=first + index, producer_id=result.producer_id, strict=True)

    def _tell(self, name: str, records: int, error: ErrorCode | None = None) -> None:
        if self._on_event is not None:
            name = name.removesuffix("Request")
            self._on_event(WriteEvent(name=name, records=records, at_ms=self.now_ms, error=error))

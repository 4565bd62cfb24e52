"""`PartitionRuntime`: appends, replays and responds for the shard of one partition.

It also runs the shard's timers and tasks. It has no threads, and the caller advances its clock. A
request's records are appended as one batch and replayed, then the response is completed. If the
append fails, nothing is replayed, so no record is rolled back, and the client gets the error
(`MAPPED_ERRORS`). `Shard` is the interface of a coordinator, as in Kafka's coordinator-common.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from quorate.codecs import CoordinatorRecord, MalformedRecord, UnknownRecord
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.log import MAPPED_ERRORS, AppendError, ColumnarLog, CoordinatorLog, StoredMarker
from quorate.coordinator.results import Pending, RequestContext, Result, Task
from quorate.coordinator.timers import Timer, Timers

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = ["ColumnarShard", "PartitionRuntime", "Q", "RequestShard", "S", "Shard", "WriteEvent"]


class Shard(Protocol):
    """The coordinator of one partition. Only replay changes the state that is in the log.

    `timers`, `tasks`: scheduled work, whose results are appended like those of requests.
    """

    timers: Timers
    tasks: deque[Task]
    image: MetadataImage

    def replay(
        self,
        record: CoordinatorRecord | UnknownRecord | MalformedRecord,
        *,
        offset: int = -1,
        producer_id: int | None = -1,
        strict: bool = False,
    ) -> None:
        """Apply a record of the log. Raises `ReplayError` if `strict` and it cannot be applied."""

    def written(self) -> None:
        """Take note that a batch is appended, before its records are replayed."""

    def not_written(self, records: Sequence[CoordinatorRecord]) -> None:
        """Revert changes that are in no record, as a write failed: those since the last write."""

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Complete or abort a producer's transaction after its marker is appended."""

    def loaded(self, now_ms: int) -> Result[None]:
        """Start timers after the log is replayed; returns the records to write."""

    def unloaded(self) -> None:
        """Fail pending requests with NOT_COORDINATOR, as another broker becomes the coordinator."""

    def take_image(
        self, image: MetadataImage, now_ms: int, delta: MetadataDelta | None = None
    ) -> tuple[MetadataDelta, list[Result[None]]]:
        """Take new cluster metadata; returns the differences and the records to write for them."""

    def clean_up(self, now_ms: int) -> Result[None]:
        """Expire offsets and groups, or what else the shard keeps for a limited time."""


class RequestShard(Shard, Protocol):
    """A shard that handles whole requests, and not only operations of its host."""

    def handle(self, request: Message, context: RequestContext) -> Result[Any]:
        """Return a request's records and response.

        Raises `ApiError` if the request fails as a whole.
        """

    def failed(self, request: Message, context: RequestContext, code: ErrorCode, message: str) -> Message:
        """Return the response to a request that failed as a whole."""


@runtime_checkable
class ColumnarShard(Shard, Protocol):
    """A shard that can replay a log by columns."""

    def replay_columns(self, blocks: Iterator["RawBlock"]) -> Iterator[None]:
        """Replay a log by columns, in steps that each end with a yield."""


S = TypeVar("S", bound=Shard)
Q = TypeVar("Q", bound=RequestShard)
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEvent:
    """A write: for which request or timer, number of records, time; `error`: why it failed."""

    name: str
    records: int
    at_ms: int
    error: ErrorCode | None = None


_NOT_WRITTEN = "the coordinator could not write to its log"

Turn = Callable[[], Callable[[], bool]]
RunWork = Callable[[Generator[None, None, None], Callable[[], None]], bool]


def _at_once(work: Generator[None, None, None], then: Callable[[], None]) -> bool:
    for _ in work:
        pass
    then()
    return True


def _pending(response: R | Pending[R] | None) -> Pending[R]:
    if isinstance(response, Pending):
        return response
    complete: Pending[R] = Pending()
    if response is not None:
        complete.complete(response)
    return complete


class PartitionRuntime(Generic[S]):
    """One shard and its log. `now_ms`: its clock, which `advance` moves and `step` sets.

    `on_event`: called with each write, also a failed one. `run_tasks_at_once`: whether
    `Shard.tasks` run right after the operation that added them. `run_work`: runs the long part of a
    task (`Task.work`), then a callback; returns whether both are done.

    `turn`: called when timers begin to fire. It returns a function that is called after each timer,
    and returns whether other work has to run before the next. If so, the runtime `is_late`, and
    fires no timers until its host resets that. Meanwhile a heartbeat may arrive for a member whose
    session timeout is due, as in Kafka, where both are events in one queue.
    """

    def __init__(
        self,
        shard: S,
        log: CoordinatorLog,
        *,
        now_ms: int,
        on_event: Callable[[WriteEvent], None] | None = None,
        run_tasks_at_once: bool = True,
        run_work: RunWork | None = None,
        turn: Turn = lambda: lambda: False,
    ) -> None:
        self.shard = shard
        self.log = log
        self.now_ms = now_ms
        self.run_tasks_at_once = run_tasks_at_once
        self._run_work = run_work or _at_once
        self._working: list[Task] = []
        self._on_event = on_event
        self.is_late = False
        self._turn = turn

    def load(self) -> None:
        """Replay the log and start sessions. Raises `LogError` and `ReplayError`."""
        for _ in self.replay_log():
            pass
        self.loaded(self.now_ms)

    def replay_log(self) -> Iterator[None]:
        """Replay the log in steps, each of which ends with a yield; `loaded` has to follow.

        A log that can be read by columns is replayed by columns, with the same result. Raises
        `LogError` and `ReplayError`.
        """
        if isinstance(self.shard, ColumnarShard) and isinstance(self.log, ColumnarLog):
            blocks = self.log.blocks()
            if blocks is not None:
                yield from self.shard.replay_columns(blocks)
                return
        for stored in self.log.read():
            if isinstance(stored, StoredMarker):
                self.shard.end_transaction(stored.producer_id, commit=stored.commit)
            else:
                self.shard.replay(stored.record, offset=stored.offset, producer_id=stored.producer_id, strict=True)
            yield

    def loaded(self, now_ms: int) -> None:
        """Start sessions at a time, after the log was replayed."""
        self.now_ms = now_ms
        self._write("load", self.shard.loaded(now_ms))
        self.settle()

    def unload(self) -> None:
        """Fail pending requests with NOT_COORDINATOR, as another broker becomes the coordinator.

        The runtime must not be used afterwards.
        """
        self.shard.unloaded()

    def handle(self: "PartitionRuntime[Q]", request: Message, context: RequestContext) -> Message | Pending[Any]:
        """Handle a request: write and replay its records, then return the response.

        It may be pending. A request that fails as a whole gets an error response.
        """
        shard = self.shard
        try:
            result = shard.handle(request, context)
            response: Message | Pending[Any] | None = result.response
            if result.records or response is None or result.then or result.on_appended or self._on_event:
                response = self._write_all(type(request).__name__, result)
        except ApiError as error:
            # As in Kafka, tasks that the request has started run although it failed.
            response = shard.failed(request, context, error.code, error.message or "")
        if shard.tasks or shard.timers.none_before_ms <= self.now_ms:
            self.settle()
        return Pending() if response is None else response

    def request(self: "PartitionRuntime[Q]", request: Message, context: RequestContext) -> Pending[Any]:
        """Handle a request; return the response of `handle` as `Pending`, complete or not."""
        return _pending(self.handle(request, context))

    def run(self, name: str, operation: Callable[[S, int], Result[R]]) -> Pending[R]:
        """Run an operation of the host with the shard and the time in ms, as for a request.

        Raises `ApiError`.
        """
        found = self._write_all(name, operation(self.shard, self.now_ms))
        self.settle()
        return _pending(found)

    def _write_all(self, name: str, result: Result[R]) -> R | Pending[R] | None:
        """Write a result and those that follow from it; return the response, or the pending one.

        Raises `ApiError` if a write fails, unless that has completed the response.
        """
        response: Pending[R] | None = None
        while True:
            found = result.response
            if isinstance(found, Pending):
                response = response or Pending()
                found.on_complete(response.complete)
            failed = self._write(name, result)
            if failed is not None:
                if response is None or response.response is None:
                    raise ApiError(failed, _NOT_WRITTEN)
                return response.response
            if result.then is None:
                break
            result = result.then(self.now_ms)
        if response is None:
            return found
        if found is not None and not isinstance(found, Pending):
            response.complete(found)
        return response if response.response is None else response.response

    def take_image(self, image: MetadataImage, delta: MetadataDelta | None = None) -> MetadataDelta:
        """Take new cluster metadata. `delta`: the differences, if known."""
        delta, results = self.shard.take_image(image, self.now_ms, delta)
        for result in results:
            self._write("image", result)
        self.settle()
        return delta

    def end_transaction(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Write the marker that ends a producer's transaction (KIP-447). Raises `AppendError`."""
        self.log.append_marker(producer_id, producer_epoch, commit=commit, timestamp_ms=self.now_ms)
        self.shard.written()
        self.shard.end_transaction(producer_id, commit=commit)
        self._notify("marker", 1)
        self.settle()

    def clean_up(self) -> None:
        """Expire offsets and groups now, in addition to the shard's own timer."""
        self._write_operation("cleanup", self.shard.clean_up)
        self.settle()

    def advance(self, to_ms: int) -> int:
        """Move the clock, firing each timer at its time. Returns how many fired."""
        is_over = self._turn()
        fired = self.settle(is_over)
        while not self.is_late and self.shard.timers.is_due(to_ms):
            if fired and is_over():
                self.is_late = True
                break
            self.now_ms = max(self.now_ms, self.shard.timers.next_at_ms() or 0)
            fired += self.settle(is_over)
        self.now_ms = max(self.now_ms, to_ms)
        return fired

    def step(self, by_ms: int) -> None:
        """Set the clock forward or back. Timers move with it, as no time has passed."""
        self.now_ms += by_ms
        self.shard.timers.step(by_ms)

    def run_tasks(self, most: int | None = None) -> int:
        """Run the shard's pending tasks, at most `most`. Returns how many ran."""
        done = 0
        while (most is None or done < most) and (task := self._next_task()) is not None:
            self._working.append(task)
            if task.work is None:
                self._finish(task)
            elif not self._run_work(self._long_part(task), partial(self._finish, task)):
                continue
            done += 1
        return done

    def _next_task(self) -> Task | None:
        """Return the first task that may begin now."""
        tasks, working = self.shard.tasks, self._working
        if not working:
            return tasks[0] if tasks else None
        if not all(task.concurrent for task in working):
            return None
        running = set(map(id, working))
        return next((task for task in tasks if task.concurrent and id(task) not in running), None)

    def _long_part(self, task: Task) -> Generator[None, None, None]:
        """Run the long part of a task. A task that fails is dropped, as by Kafka's executor."""
        assert task.work is not None
        try:
            yield from task.work()
        except Exception:
            self._take(task)
            raise

    def _finish(self, task: Task) -> None:
        """Run the second part of a task."""
        if self._take(task):
            self._write(task.name, task.operation(self.now_ms))

    def _take(self, task: Task) -> bool:
        """Remove a running task; returns False if it was removed already, as after `unload`."""
        self._working = [one for one in self._working if one is not task]
        for place, one in enumerate(self.shard.tasks):
            if one is task:
                del self.shard.tasks[place]
                return True
        return False

    def settle(self, is_over: Callable[[], bool] | None = None) -> int:
        """Run tasks and timers that are due, without moving the clock.

        Returns how many timers fired. `is_over`: returns whether other work has to run first.
        """
        fired = 0
        while True:
            if self.run_tasks_at_once and self.shard.tasks:
                self.run_tasks()
            timer = None if self.is_late else self.shard.timers.next_due(self.now_ms)
            if timer is None:
                return fired
            fired += 1
            is_over = is_over or self._turn()
            self._fire(timer)
            self.is_late = is_over() and self.shard.timers.is_due(self.now_ms)

    def _fire(self, timer: Timer) -> None:
        failed = self._write_operation(f"Timeout(key={timer.key})", timer.operation)
        if failed is not None and timer.retry_ms is not None:
            at_ms = self.now_ms + timer.retry_ms
            self.shard.timers.schedule(timer.key, at_ms, timer.operation, retry_ms=timer.retry_ms)

    def _write_operation(self, name: str, operation: Callable[[int], Result[Any]]) -> ErrorCode | None:
        """Write the records of an operation. Returns the error if it or the write fails."""
        try:
            result = operation(self.now_ms)
        except ApiError as error:
            self._notify(name, 0, error.code)
            return error.code
        return self._write(name, result)

    def _write(self, name: str, result: Result[Any]) -> ErrorCode | None:
        """Write the records of a result. Returns the error for clients if that fails.

        Batches that were written before the failure stay.
        """
        if result.records:
            try:
                if result.atomic:
                    self._append(result.records, result)
                else:
                    for part in self.log.parts(result.records):
                        self._append(part, result)
            except AppendError as error:
                code = MAPPED_ERRORS.get(error.code, error.code)
                self._notify(name, 0, error.code)
                self.shard.not_written(result.records)
                if result.on_failed is not None:
                    result.on_failed(code)
                return code
        if self._on_event is not None:
            self._notify(name, len(result.records))
        if result.on_appended is not None:
            result.on_appended()
        return None

    def _append(self, records: Sequence[CoordinatorRecord], result: Result[Any]) -> None:
        """Write and replay one batch. Raises `AppendError`."""
        first = self.log.append(
            records, timestamp_ms=self.now_ms, producer_id=result.producer_id, producer_epoch=result.producer_epoch
        )
        self.shard.written()
        if result.replay:
            replay = self.shard.replay
            for offset, record in enumerate(records, first):
                replay(record, offset=offset, producer_id=result.producer_id, strict=True)

    def _notify(self, name: str, records: int, error: ErrorCode | None = None) -> None:
        if self._on_event is not None:
            name = name.removesuffix("Request")
            self._on_event(WriteEvent(name=name, records=records, at_ms=self.now_ms, error=error))

"""`CoordinatorRuntime`: the coordinators of all partitions of an internal topic.

It loads a partition's log on the first request to its leader, unloads it when another broker
becomes leader, wakes each coordinator when a timer is due, and passes new metadata to all. A log
that takes long is loaded in turns. It does no I/O: the `Host` has partitions, logs and the clock,
and runs long work. `PartitionRuntime` runs one shard. (Kafka: coordinator-common.)
"""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from quorate.codecs import LogError
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.log import CoordinatorLog
from quorate.coordinator.partition_runtime import PartitionRuntime, Q, S, Shard
from quorate.coordinator.results import Pending, RequestContext
from quorate.coordinator.state.groups import ReplayError


class Partition(Protocol):
    """A partition of the coordinators' topic.

    `leader`: -1 without one. A recreated topic has new partition objects.
    """

    index: int
    leader: int
    leader_epoch: int


P = TypeVar("P", bound=Partition)
S_co = TypeVar("S_co", bound=Shard, covariant=True)
T = TypeVar("T")


class _Handle(Protocol):
    def cancel(self) -> None: ...


class Host(Protocol[P, S_co]):
    """What the hosting process provides."""

    def partitions(self) -> Sequence[P]:
        """Return the partitions of the topic by index; none while the topic does not exist."""

    def new_shard(self, partition: P) -> S_co:
        """Return a new, empty shard."""

    def log(self, partition: P) -> CoordinatorLog:
        """Return a partition's log."""

    def loads_early(self, partition: P) -> bool:
        """Return whether the leader loads the log before the first request."""

    def unreadable(self, partition: P, error: Exception) -> None:
        """Report that a log cannot be read.

        The partition has no coordinator until its next leader epoch.
        """

    def now_ms(self) -> int:
        """Return the time."""

    def stepped_ms(self) -> int:
        """Return the sum of steps by which the clock was set, negative for back."""

    def call_at(self, at_ms: int, action: Callable[[], object]) -> _Handle:
        """Call `action` at a time."""

    def turn(self) -> Callable[[], bool]:
        """Begin a turn of firing timers, which blocks other work.

        The returned function returns whether to pause for other work.
        """

    def run_work(
        self,
        work: Generator[None, None, None],
        done: Callable[[Any], object],
        failed: Callable[[BaseException], object],
    ) -> bool:
        """Run long work, interleaved with other work. Returns whether it is finished already."""

    def task_failed(self, error: BaseException) -> None:
        """Report a coordinator's task that failed and is dropped."""


@dataclass(slots=True, eq=False)
class Coordinator(Generic[S]):
    """The coordinator of one partition in one leader epoch.

    `stepped_ms`: `Host.stepped_ms` when its timers were last adjusted. `timer`: the next wake-up,
    at `timer_at_ms`, which is infinite without one. `steps`: the rest of the log, while it is being
    loaded. `image`: metadata that changed meanwhile.
    """

    partition: Partition
    runtime: PartitionRuntime[S]
    leader_epoch: int
    stepped_ms: int
    timer: _Handle | None = None
    timer_at_ms: float = math.inf
    steps: Iterator[None] | None = None
    image: MetadataImage | None = None

    @property
    def shard(self) -> S:
        """The shard."""
        return self.runtime.shard

    @property
    def is_loading(self) -> bool:
        """Whether it cannot handle requests yet; clients get COORDINATOR_LOAD_IN_PROGRESS."""
        return self.steps is not None


class CoordinatorRuntime(Generic[P, S]):
    """All coordinators of a topic."""

    def __init__(self, host: Host[P, S]) -> None:
        self._host = host
        self._running: dict[int, Coordinator[S]] = {}
        self._active: set[int] = set()  # had a coordinator, and get one again after losing their leader
        self._unreadable: dict[int, tuple[P, int]] = {}

    def __iter__(self) -> Iterator[Coordinator[S]]:
        """Yield the coordinators that are loaded."""
        return iter([one for one in self._running.values() if not one.is_loading])

    def loading(self) -> Iterator[Coordinator[S]]:
        """Yield the coordinators that are being loaded."""
        return (one for one in self._running.values() if one.is_loading)

    def shards(self) -> Iterator[S]:
        """Yield all shards, also those that are being loaded."""
        return (one.shard for one in self._running.values())

    # ---- coordinators of partitions

    def at(self, partition: P) -> Coordinator[S] | None:
        """Return the coordinator of a partition; begins to load its log if needed.

        It may be loading. Returns `None` without a leader, or if the log cannot be read: a partial
        state would look complete.
        """
        running = self._running.get(partition.index)
        if running is not None:
            if running.partition is partition and running.leader_epoch == partition.leader_epoch:
                return running
            self._unload(partition.index)
        return self._load(partition)

    def loaded_at(self, partition: P) -> Coordinator[S] | None:
        """Return the coordinator of a partition as `at` does, after loading the rest of its log."""
        running = self.at(partition)
        while running is not None and self._load_more(running, partition):
            pass
        return self._running.get(partition.index)

    def _load(self, partition: P) -> Coordinator[S] | None:
        found, leader_epoch = self._unreadable.get(partition.index, (None, -1))
        if partition.leader < 0 or (found is partition and leader_epoch == partition.leader_epoch):
            return None
        host = self._host
        runtime = PartitionRuntime(
            host.new_shard(partition),
            host.log(partition),
            now_ms=host.now_ms(),
            run_work=lambda work, then: self._run_work(partition.index, work, then),
            turn=host.turn,
        )
        running = Coordinator(partition, runtime, partition.leader_epoch, host.stepped_ms(), steps=runtime.replay_log())
        self._running[partition.index] = running
        self._active.add(partition.index)
        host.run_work(self._loading(running, partition), lambda _: None, host.task_failed)
        return self._running.get(partition.index)

    def _loading(self, running: Coordinator[S], partition: P) -> Generator[None, None, None]:
        while self._load_more(running, partition):
            yield

    def _load_more(self, running: Coordinator[S], partition: P) -> bool:
        """Load the next part of a log. Returns whether there is more.

        There is nothing to do if it was unloaded, or loaded by `loaded_at`, between two turns.
        """
        if running.steps is None or self._running.get(partition.index) is not running:
            return False
        try:
            for _ in running.steps:
                return True
            self._loaded(running)
        except Exception as error:
            self._running.pop(partition.index, None)
            self._unreadable[partition.index] = partition, running.leader_epoch  # retried in the next leader epoch
            if not isinstance(error, LogError | ReplayError | OSError):
                raise
            self._host.unreadable(partition, error)
        return False

    def _loaded(self, running: Coordinator[S]) -> None:
        """Start a coordinator that has loaded its log, with the metadata of now."""
        running.steps = None
        running.stepped_ms = self._host.stepped_ms()
        running.runtime.loaded(self._host.now_ms())
        if running.image is not None:
            running.runtime.take_image(running.image)
            running.image = None
        self._set_timer(running)

    def leaders_changed(self) -> None:
        """Stop coordinators whose partition has another leader, and start the new ones.

        New ones start without waiting for a request, as sessions and open transactions can time
        out.
        """
        partitions = self._host.partitions()
        for index, running in list(self._running.items()):
            if index >= len(partitions) or running.partition is not partitions[index]:
                self._unload(index)  # the topic was deleted
                self._active.discard(index)
        for partition in partitions:
            if partition.index in self._active or self._host.loads_early(partition):
                self.at(partition)

    def _unload(self, index: int) -> None:
        running = self._running.pop(index)
        if running.timer is not None:
            running.timer.cancel()
        running.runtime.unload()

    def restart(self) -> None:
        """Stop all coordinators and load their logs again, after a rolling restart."""
        self.close()
        self.leaders_changed()

    def close(self) -> None:
        """Stop all coordinators."""
        for index in list(self._running):
            self._unload(index)

    # ---- requests

    def request(
        self: "CoordinatorRuntime[P, Q]", running: Coordinator[Q], request: Message, context: RequestContext
    ) -> Message | Pending[Any]:
        """Handle a request after firing the timers that are due; the coordinator must be loaded."""
        runtime = running.runtime
        timers, now_ms = runtime.shard.timers, context.now_ms
        if running.stepped_ms != self._host.stepped_ms():
            self._step(running)
        if timers.none_before_ms <= now_ms and not runtime.is_late:
            runtime.advance(now_ms)
        elif now_ms > runtime.now_ms:
            runtime.now_ms = now_ms
        response = runtime.handle(request, context)
        if timers.none_before_ms < running.timer_at_ms:
            self._set_timer(running)
        return response

    def run(self, running: Coordinator[S], operation: Callable[[PartitionRuntime[S]], T]) -> T:
        """Run an operation of the host after firing the timers that are due.

        The coordinator must be loaded. Raises what the operation raises.
        """
        self._advance(running)
        try:
            return operation(running.runtime)
        finally:
            self._set_timer(running)

    def image_changed(self, image: MetadataImage) -> None:
        """Pass new cluster metadata to all coordinators; those that are loading take it then."""
        for running in self.loading():
            running.image = image
        before: MetadataImage | None = None
        delta: MetadataDelta | None = None  # shared, as it takes 20 ms for 17,000 topics
        for running in self:
            self._advance(running)
            if running.shard.image is not before:
                before, delta = running.shard.image, None
            delta = running.runtime.take_image(image, delta)
            self._set_timer(running)

    # ---- time

    def _run_work(self, index: int, work: Generator[None, None, None], then: Callable[[], None]) -> bool:
        """Run a coordinator's long work, then the callback.

        If that takes several turns, due timers fire before and after the callback.
        """
        at_once = True

        def later() -> Coordinator[S] | None:
            return None if at_once else self._running.get(index)

        def settle(running: Coordinator[S] | None) -> None:
            if running is not None:
                running.runtime.settle()
                self._set_timer(running)

        def done(_: object) -> None:
            running = later()
            if running is not None:
                self._advance(running)
            then()
            settle(running)

        def failed(error: BaseException) -> None:
            self._host.task_failed(error)
            settle(later())  # run its other tasks

        over = self._host.run_work(work, done, failed)
        at_once = False
        return over

    def _set_timer(self, running: Coordinator[S]) -> None:
        """Schedule a wake-up for the coordinator's next timer. An early wake-up does no harm."""
        timers = running.runtime.shard.timers
        if running.timer_at_ms <= timers.none_before_ms:
            return
        at_ms = timers.next_at_ms()
        if at_ms is None or running.timer_at_ms <= at_ms:
            return
        if running.timer is not None:
            running.timer.cancel()
        running.timer_at_ms = at_ms
        running.timer = self._host.call_at(at_ms, lambda: self._due(running))

    def _due(self, running: Coordinator[S]) -> None:
        running.timer, running.timer_at_ms = None, math.inf
        running.runtime.is_late = False
        self._advance(running)
        self._set_timer(running)

    def _advance(self, running: Coordinator[S]) -> None:
        """Fire the timers that are due."""
        if running.stepped_ms != self._host.stepped_ms():
            self._step(running)
        running.runtime.advance(max(self._host.now_ms(), running.runtime.now_ms))

    def _step(self, running: Coordinator[S]) -> None:
        """Shift timers after the clock was set, so that sessions keep their length.

        Kafka's timers use a monotonic clock.
        """
        by_ms = self._host.stepped_ms() - running.stepped_ms
        running.stepped_ms += by_ms
        running.runtime.step(by_ms)
        running.timer_at_ms += by_ms

"""`CoordinatorRuntime`: the coordinators of all partitions of a topic, such as `__consumer_offsets`, wherever these are led.

It loads a partition's log when its leader is first asked for, unloads it when another broker leads,
wakes each coordinator when a timer of its shard is due, and gives all of them new metadata. It does
no I/O: partitions, their logs, the clock and turns for long work are the `Host`'s. What happens
around one shard is in `PartitionRuntime`. (Kafka: coordinator-common.)
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from quorate.codecs import LogError
from quorate.codecs.message import Message
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.log import CoordinatorLog
from quorate.coordinator.partition_runtime import PartitionRuntime, S, Shard
from quorate.coordinator.results import Pending, RequestContext
from quorate.coordinator.state.groups import ReplayError

__all__ = ["Coordinator", "CoordinatorRuntime", "Host", "Partition"]


class Partition(Protocol):
    """A partition of the coordinators' topic.

    `leader`: -1 without one. A topic that is deleted and made again has other partitions.
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
    """What a process gives its coordinators."""

    def partitions(self) -> Sequence[P]:
        """Those of the topic, by index; none while it does not exist."""

    def new_shard(self, partition: P) -> S_co:
        """A shard that knows nothing yet."""

    def log(self, partition: P) -> CoordinatorLog:
        """A partition's log."""

    def loads_early(self, partition: P) -> bool:
        """Whether the leader loads the log before anybody asks it for something."""

    def unreadable(self, partition: P, error: Exception) -> None:
        """A log cannot be read, so the partition has no coordinator until another broker leads it."""

    def now_ms(self) -> int:
        """The time."""

    def stepped_ms(self) -> int:
        """How far the clock has been set forward or back without time having passed."""

    def call_at(self, at_ms: int, action: Callable[[], object]) -> _Handle:
        """Do something at a time."""

    def turn(self) -> Callable[[], bool]:
        """Timers fire, and nobody else is served meanwhile: what this returns says whether that has been long enough."""

    def run_work(
        self,
        work: Generator[None, None, None],
        done: Callable[[Any], object],
        failed: Callable[[BaseException], object],
    ) -> bool:
        """Do long work with turns for others in between; whether it is over already."""

    def task_failed(self, error: BaseException) -> None:
        """A task of a coordinator failed, and is dropped."""


@dataclass(slots=True, eq=False)
class Coordinator(Generic[S]):
    """The coordinator of one partition in one leader epoch.

    `stepped_ms`: how far the clock had been set when its timers were last looked at.
    """

    partition: Partition
    runtime: PartitionRuntime[S]
    leader_epoch: int
    stepped_ms: int
    timer: _Handle | None = None
    timer_at_ms: int | None = None

    @property
    def shard(self) -> S:
        """What it knows."""
        return self.runtime.shard


class CoordinatorRuntime(Generic[P, S]):
    """All coordinators of a topic."""

    def __init__(self, host: Host[P, S]) -> None:
        self._host = host
        self._running: dict[int, Coordinator[S]] = {}
        self._active: set[int] = set()  # partitions that had a coordinator: one without a leader gets another
        self._unreadable: dict[int, tuple[P, int]] = {}

    def __iter__(self) -> Iterator[Coordinator[S]]:
        return iter(list(self._running.values()))

    # ---- who coordinates

    def at(self, partition: P) -> Coordinator[S] | None:
        """The coordinator of a partition, which loads its log if it is new; `None` without a leader, and if the log cannot be read: half of it would pass for all."""
        running = self._running.get(partition.index)
        if running is not None:
            if running.partition is partition and running.leader_epoch == partition.leader_epoch:
                return running
            self._unload(partition.index)
        return self._load(partition)

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
        running = Coordinator(partition, runtime, partition.leader_epoch, host.stepped_ms())
        try:
            runtime.load()
        except (LogError, ReplayError) as error:
            self._unreadable[partition.index] = partition, partition.leader_epoch  # its next leader tries again
            host.unreadable(partition, error)
            return None
        self._running[partition.index] = running
        self._active.add(partition.index)
        self._set_timer(running)
        return running

    def leaders_changed(self) -> None:
        """Coordinators whose partition is led elsewhere now stop, those elsewhere begin: sessions and open transactions go on without being asked for."""
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
        """Stop all, and load their logs again: brokers were restarted, one after the other."""
        self.close()
        self.leaders_changed()

    def close(self) -> None:
        """Stop all."""
        for index in list(self._running):
            self._unload(index)

    # ---- requests

    def request(self, running: Coordinator[S], request: Message, context: RequestContext) -> Message | Pending[Any]:
        """Have a coordinator handle a request; what is due comes first."""
        runtime = running.runtime
        now_ms = context.now_ms
        if running.stepped_ms != self._host.stepped_ms():
            self._step(running)
        least_ms = runtime.shard.timers.none_before_ms()
        if least_ms is not None and least_ms <= now_ms and not runtime.is_late:
            runtime.advance(now_ms)
        elif now_ms > runtime.now_ms:
            runtime.now_ms = now_ms
        response = runtime.request(request, context)
        self._set_timer(running)
        return response if response.response is None else response.response

    def run(self, running: Coordinator[S], operation: Callable[[PartitionRuntime[S]], T]) -> T:
        """Do something with a coordinator's runtime; what is due comes first.

        Raises what the operation raises.
        """
        self._advance(running)
        try:
            return operation(running.runtime)
        finally:
            self._set_timer(running)

    def image_changed(self, image: MetadataImage) -> None:
        """The cluster's metadata has changed."""
        before: MetadataImage | None = None
        delta: MetadataDelta | None = None  # most had the same image before; with 17,000 topics it takes 20 ms
        for running in self:
            self._advance(running)
            if running.shard.image is not before:
                before, delta = running.shard.image, None
            delta = running.runtime.take_image(image, delta)
            self._set_timer(running)

    # ---- time

    def _run_work(self, index: int, work: Generator[None, None, None], then: Callable[[], None]) -> bool:
        """Do a coordinator's long work; what is due follows if that took longer than this turn."""
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
            settle(later())  # its other tasks are still to be done

        over = self._host.run_work(work, done, failed)
        at_once = False
        return over

    def _set_timer(self, running: Coordinator[S]) -> None:
        """Wake the coordinator when its next timer is due.

        A timer that is due later than that only makes it look in vain.
        """
        timers = running.runtime.shard.timers
        known_ms, least_ms = running.timer_at_ms, timers.none_before_ms()
        if least_ms is None or (known_ms is not None and known_ms <= least_ms):
            return
        at_ms = timers.next_at_ms()
        if at_ms is None or (known_ms is not None and known_ms <= at_ms):
            return
        if running.timer is not None:
            running.timer.cancel()
        running.timer_at_ms = at_ms
        running.timer = self._host.call_at(at_ms, lambda: self._due(running))

    def _due(self, running: Coordinator[S]) -> None:
        running.timer = running.timer_at_ms = None
        running.runtime.is_late = False
        self._advance(running)
        self._set_timer(running)

    def _advance(self, running: Coordinator[S]) -> None:
        """Do what is due."""
        if running.stepped_ms != self._host.stepped_ms():
            self._step(running)
        running.runtime.advance(max(self._host.now_ms(), running.runtime.now_ms))

    def _step(self, running: Coordinator[S]) -> None:
        """The clock was set: sessions last as long as before, as Kafka's do, whose timers have a clock of their own."""
        by_ms = self._host.stepped_ms() - running.stepped_ms
        running.stepped_ms += by_ms
        running.runtime.step(by_ms)
        if running.timer_at_ms is not None:
            running.timer_at_ms += by_ms

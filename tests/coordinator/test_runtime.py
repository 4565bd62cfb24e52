"""`CoordinatorRuntime` with a host whose clock and long work are run by hand."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from quorate.cluster.clock import ManualClock
from quorate.codecs import CoordinatorRecord
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.log import MemoryLog
from quorate.coordinator.results import Result, Task
from quorate.coordinator.runtime import Coordinator, CoordinatorRuntime
from quorate.coordinator.timers import Timers
from tests.cluster.storage.test_restart import commit

SESSION_MS = 10_000


class Sessions:
    """A shard with one member, whose session begins when the log is loaded."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.tasks: deque[Task] = deque()
        self.image = MetadataImage()
        self.replayed: list[Any] = []
        self.ended_at_ms: list[int] = []

    def replay(self, record: Any, **_: Any) -> None:
        self.replayed.append(record)

    def loaded(self, now_ms: int) -> Result[None]:
        self.timers.schedule("session", now_ms + SESSION_MS, self._end)
        return Result()

    def _end(self, now_ms: int) -> Result[None]:
        self.ended_at_ms.append(now_ms)
        return Result()

    def unloaded(self) -> None: ...

    def written(self) -> None: ...

    def not_written(self, records: Sequence[CoordinatorRecord]) -> None: ...

    def end_transaction(self, producer_id: int, *, commit: bool) -> None: ...

    def take_image(
        self, image: MetadataImage, now_ms: int, delta: MetadataDelta | None = None
    ) -> tuple[MetadataDelta, list[Result[None]]]:
        raise NotImplementedError

    def clean_up(self, now_ms: int) -> Result[None]:
        return Result()


@dataclass
class Partition:
    index: int = 0
    leader: int = 1
    leader_epoch: int = 1


@dataclass
class OneTopic:
    """A topic with one partition, whose log has three records."""

    clock: ManualClock = field(default_factory=ManualClock)
    partition: Partition = field(default_factory=Partition)
    work: list[Generator[None, None, None]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def partitions(self) -> list[Partition]:
        return [self.partition]

    def new_shard(self, partition: Partition) -> Sessions:
        return Sessions()

    def log(self, partition: Partition) -> MemoryLog:
        log = MemoryLog()
        for number in range(3):
            log.append([commit(number)], timestamp_ms=0)
        return log

    def loads_early(self, partition: Partition) -> bool:
        return False

    def unreadable(self, partition: Partition, error: Exception) -> None:
        self.errors.append(error)

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def stepped_ms(self) -> int:
        return self.clock.stepped_ms

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Any:
        return self.clock.call_at(at_ms, action)

    def turn(self) -> Callable[[], bool]:
        return lambda: False

    def run_work(self, work: Generator[None, None, None], done: Any, failed: Any) -> bool:
        next(work)
        self.work.append(work)
        return False

    def task_failed(self, error: BaseException) -> None:
        self.errors.append(error)


@pytest.fixture
def host() -> OneTopic:
    return OneTopic()


@pytest.fixture
def runtime(host: OneTopic) -> CoordinatorRuntime[Partition, Sessions]:
    return CoordinatorRuntime(host)


@pytest.fixture
def loading(host: OneTopic, runtime: CoordinatorRuntime[Partition, Sessions]) -> Coordinator[Sessions]:
    """Return a coordinator that has loaded one of its three records."""
    found = runtime.at(host.partition)
    assert found is not None
    assert found.is_loading
    assert len(found.shard.replayed) == 1
    return found


def load_the_rest(host: OneTopic) -> None:
    (work,) = host.work
    assert list(work)
    assert not host.errors


def test_sessions_begin_at_the_end_of_a_load(host: OneTopic, loading: Coordinator[Sessions]) -> None:
    """Members cannot send heartbeats before."""
    host.clock.advance(60_000)
    load_the_rest(host)
    until_ms = host.now_ms() + SESSION_MS
    host.clock.advance(SESSION_MS - 1)
    assert not loading.shard.ended_at_ms
    host.clock.advance(1)
    assert loading.shard.ended_at_ms == [until_ms]


@pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_during_a_load_changes_no_session(
    host: OneTopic, runtime: CoordinatorRuntime[Partition, Sessions], loading: Coordinator[Sessions], by_ms: int
) -> None:
    host.clock.step(by_ms)
    load_the_rest(host)
    until_ms = host.now_ms() + SESSION_MS
    runtime.run(loading, lambda _: None)  # takes steps of the clock into account
    host.clock.advance(SESSION_MS)
    assert loading.shard.ended_at_ms == [until_ms]


def test_shards_that_are_being_loaded_are_among_all_shards(
    runtime: CoordinatorRuntime[Partition, Sessions], loading: Coordinator[Sessions]
) -> None:
    """A config that changes during a load has to reach them."""
    assert [*runtime.shards()] == [loading.shard]
    assert [*runtime] == []


def test_no_work_is_left_when_a_load_completes_in_the_turn_of_a_marker(
    host: OneTopic, runtime: CoordinatorRuntime[Partition, Sessions], loading: Coordinator[Sessions]
) -> None:
    assert runtime.loaded_at(host.partition) is loading
    assert not loading.is_loading
    assert len(loading.shard.replayed) == 3
    (work,) = host.work
    assert list(work) == []
    assert len(loading.shard.replayed) == 3

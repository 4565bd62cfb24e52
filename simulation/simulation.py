"""`Simulation`: what a scenario gets: clusters, choices from the seed, chaos and invariants."""

import asyncio
import gc
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from quorate.cluster.embedded import EmbeddedCluster
from quorate.cluster.interface import TEST_PROPERTIES
from quorate.codecs import CONSUMER_OFFSETS
from quorate.simulation.chaos import Chaos, ChaosRunner, PlannedFault
from quorate.simulation.crashes import CrashingProcess, ProcessClock
from quorate.simulation.errors import InvariantBroken, SimulationError
from quorate.simulation.interpreter import START_NS, Interpreter
from quorate.simulation.invariants import check_groups, check_memory, check_records
from quorate.simulation.loop import SimulatedLoop
from quorate.simulation.token import Token
from quorate.simulation.trace import Trace, TraceEvent

T = TypeVar("T")


class Simulation:
    """One schedule of a scenario.

    `random`: for the scenario's own choices; `seed`: what it comes from. `loop`: the simulated
    loop. `allowed_log_errors`: exceptions that clients may log at level ERROR, in addition to
    `OSError` and classes that derive from a `KafkaError`.
    """

    def __init__(self, loop: SimulatedLoop, interpreter: Interpreter, trace: Trace, token: Token, chaos: Chaos) -> None:
        self.loop = loop
        self.seed = token.seed
        self.random = Random(f"scenario {token.seed}")
        self.allowed_log_errors: tuple[type[BaseException], ...] = ()
        self._interpreter = interpreter
        self._trace = trace
        self._token = token
        self._chaos = chaos
        self._clusters: list[EmbeddedCluster] = []
        self._chaoses: list[ChaosRunner] = []
        self._acknowledged: Counter[Any] = Counter()
        self._consumed: Counter[Any] = Counter()
        self._committed: dict[tuple[str, str, int], int] = {}
        self._memory: list[int] = []
        self._owned: dict[tuple[Any, Any], Any] = {}
        self._logged: list[str] = []
        self._broken: InvariantBroken | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._process: CrashingProcess | None = None

    # ---- time and notes

    @property
    def now_ms(self) -> float:
        """Virtual milliseconds since the start."""
        return self.loop.now_ns / 1_000_000

    def note(self, text: object) -> None:
        """Add a line to the trace."""
        self._trace.note("note", str(text))

    # ---- the cluster

    async def cluster(
        self,
        brokers: int = 3,
        *,
        topics: Mapping[str, int] | None = None,
        replicas: int | None = None,
        chaos: bool = True,
        data: bool = False,
        properties: Mapping[str, object] | None = None,
        **options: Any,
    ) -> EmbeddedCluster:
        """Start a cluster, and its chaos unless `chaos` is false.

        `topics`: name → number of partitions. `replicas`: of each (default: as many as brokers).
        `data`: whether it has a data directory, so that it can crash; one cluster may have one.
        `properties` are added to `TEST_PROPERTIES`; `options` are those of `EmbeddedCluster`.
        """
        if data and self._folder is not None:
            raise SimulationError("only one cluster of a simulation can have a data directory")
        skew_ns = [0]

        def step(by_ms: int) -> None:
            skew_ns[0] += by_ms * 1_000_000

        read_ns = self.loop.read_ns
        if data:
            self._folder = TemporaryDirectory(prefix="quorate-simulation-")
            options["data"] = self._folder.name

        def new(ports: list[int] | None = None) -> EmbeddedCluster:
            return EmbeddedCluster(
                brokers,
                clock=ProcessClock(lambda: START_NS + read_ns() + skew_ns[0], read_ns),
                seed=self.seed,
                properties={**TEST_PROPERTIES, **(properties or {})},
                **(options if ports is None else {**options, "ports": ports}),
            )

        cluster = new()
        process = None
        if data:
            process = self._process = CrashingProcess(cluster, new)
            self._interpreter.write = process.write
        await cluster.start()
        self._clusters.append(cluster)
        core = cluster.core
        core.internal_topic(CONSUMER_OFFSETS)
        for topic, partitions in (topics or {}).items():
            if topic not in core.topics:
                core.create_topic(topic, partitions=partitions, replicas=brokers if replicas is None else replicas)
        if chaos:
            number = len(self._chaoses)
            runner = ChaosRunner(
                self._chaos,
                cluster,
                self.loop,
                Random(f"chaos {self.seed} {number}"),
                None if self._token.faults is None else frozenset(self._token.faults),
                step,
                lambda text: self._trace.note("fault", text),
                process,
                first=number * 100_000,
            )
            self._chaoses.append(runner)
            runner.start()
        return cluster

    async def calm(self) -> None:
        """End the chaos, and undo the faults that last: brokers start, connections resume."""
        for chaos in self._chaoses:
            await chaos.stop()

    @property
    def faults(self) -> list[PlannedFault]:
        """The faults that happened so far."""
        return [fault for chaos in self._chaoses for fault in chaos.happened]

    # ---- invariants

    def acknowledged(self, record: Any) -> None:
        """Report that a broker has acknowledged a record. It must then be consumed."""
        self._acknowledged[record] += 1

    def consumed(self, record: Any) -> None:
        """Report that the application has processed a record."""
        self._consumed[record] += 1

    def committed(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Report that a broker has acknowledged a commit.

        `offsets`: by topic and partition. The log must then have these or later offsets.
        """
        for (topic, partition), offset in offsets.items():
            where = group, topic, partition
            self._committed[where] = max(offset, self._committed.get(where, -1))

    def memory(self) -> int:
        """Measure the containers that the schedule has allocated, in bytes.

        Call it at equal moments, such as after each of ten equal rounds: the memory must not grow
        from one to the next. Logs of the cluster do not count, as their records are no containers.
        """
        gc.collect()
        kept = (self._trace.events, self._trace.steps, self._memory)
        found = sum(
            sys.getsizeof(one)
            for one in gc.get_objects()
            if type(one) is not TraceEvent and not any(one is other for other in kept)
        )
        self._memory.append(found)
        return found

    @property
    def acknowledged_records(self) -> list[Any]:
        """The acknowledged records so far, in their order."""
        return list(self._acknowledged)

    @property
    def unconsumed(self) -> int:
        """How many acknowledged records were not consumed yet."""
        return sum(record not in self._consumed for record in self._acknowledged)

    def owns(self, member: Any, generation: Any, partitions: Iterable[Any]) -> None:
        """Report that a member uses partitions in a generation or epoch.

        Raises `InvariantBroken` if another member does so in the same.
        """
        for partition in sorted(partitions):
            other = self._owned.setdefault((generation, partition), member)
            if other != member:
                broken = InvariantBroken(
                    "a partition has one owner",
                    f"{partition} is used by {other} and {member} in generation {generation}",
                )
                self._broken = self._broken or broken  # a client may log what its listener raises
                raise broken

    async def within(self, seconds: float, work: Awaitable[T], what: str = "close()") -> T:
        """Wait for work that must end in some virtual time, such as `consumer.stop()`.

        Raises `InvariantBroken` if it does not.
        """
        task = asyncio.ensure_future(work)
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            stack = "".join(f"\n    {frame.f_code.co_qualname} line {frame.f_lineno}" for frame in _stack(task))
            task.cancel()
            raise InvariantBroken("closing ends in bounded time", f"{what} runs for more than {seconds} s:{stack}")
        return task.result()

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant is broken. Runs at the end of each schedule."""
        if self._broken is not None:
            raise self._broken
        check_records(self._acknowledged, self._consumed)
        check_memory(self._memory)
        for cluster in self._clusters:
            check_groups(cluster.core, self._committed)
            if cluster.failures:
                raise InvariantBroken("brokers have no internal errors", cluster.failures[0])
        if self._process is not None and self._process.failures:
            raise InvariantBroken("brokers have no internal errors", self._process.failures[0])
        if self._logged:
            raise InvariantBroken("clients raise documented exceptions only", self._logged[0])
        if self.loop.problems:
            problem = self.loop.problems[0]
            error = problem.get("exception")
            text = str(problem.get("message")) + (f" ({type(error).__name__}: {error})" if error else "")
            raise InvariantBroken("no exception is lost", text) from error

    async def end(self) -> None:
        """Stop the clusters."""
        for chaos in self._chaoses:
            chaos.running = False
        for cluster in self._clusters:
            await cluster.stop()

    def remove_files(self) -> None:
        """Remove the data directory, if any."""
        if self._folder is not None:
            self._folder.cleanup()

    def logged(self, record: logging.LogRecord) -> None:
        """Receive a record that a client logs at level ERROR."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, (OSError, asyncio.CancelledError, *self.allowed_log_errors)):
            return
        if any(kind.__name__ == "KafkaError" for kind in type(error).__mro__):
            return
        self._logged.append(f"{record.name} logs {record.getMessage()!r}: {type(error).__name__}: {error}")


def _stack(task: "asyncio.Future[Any]") -> list[Any]:
    found: list[Any] = task.get_stack(limit=8) if isinstance(task, asyncio.Task) else []
    return found

"""`simulate`: run a scenario under many schedules, and shrink one that fails."""

import asyncio
import gc
import inspect
import logging
import math
import re
import traceback
import warnings
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from random import Random
from typing import Any

from quorate.simulation.chaos import Chaos, PlannedFault
from quorate.simulation.clients import reset_clients
from quorate.simulation.errors import InvariantBroken, NotDeterministic, ScheduleFailed, SimulationError
from quorate.simulation.interpreter import Interpreter, controlled
from quorate.simulation.loop import SimulatedLoop
from quorate.simulation.page import page
from quorate.simulation.simulation import Simulation
from quorate.simulation.token import Token
from quorate.simulation.trace import Trace

Scenario = Callable[[Simulation], Awaitable[object]]
"""An `async def` function with a `Simulation`."""

_SHRINKING_RUNS = 150
_STEPS_NS = (2_000, 10_000, 50_000)


@dataclass(frozen=True, slots=True)
class ScheduleOutcome:
    """What one schedule did.

    `error`: why it failed; `hash`: of the trace up to the end of the scenario; `faults`: those that
    happened.
    """

    token: Token
    error: BaseException | None
    trace: Trace
    hash: str
    faults: tuple[PlannedFault, ...]
    steps: int
    virtual_s: float


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What all schedules did together. `traces`: the hash of each trace, by seed."""

    schedules: int
    faults: int
    steps: int
    virtual_s: float
    traces: dict[int, str]


def simulate(
    scenario: Scenario,
    *,
    seeds: int | Iterable[int] = 200,
    chaos: Chaos | None = None,
    replay: str | None = None,
    shrink: bool = True,
    limit_s: float = 3_600.0,
    max_steps: int = 5_000_000,
    trace_dir: str | PathLike[str] | None = None,
    clients: Sequence[str] = (),
) -> SimulationResult:
    """Run a scenario under a schedule for each seed, in virtual time.

    `seeds`: how many, from 1, or which. `chaos`: what goes wrong (default: `Chaos()`). `replay`:
    the token of a schedule to run instead. `shrink`: search for fewer faults that fail in the same
    way.
    `limit_s`: the virtual time, and `max_steps` the steps, within which the scenario has to end.
    `trace_dir`: where the trace of a failure is written, as text and as a page; with `replay` also
    of a success. `clients`: packages of clients whose sets of strings shall not depend on
    PYTHONHASHSEED, in addition to aiokafka.

    Raises `ScheduleFailed` for the first schedule that fails, with its token, and
    `SimulationError` for parameters that are not valid, and if there is no seed.
    """
    plan = _checked(chaos, limit_s, clients)
    _check_run(seeds, replay, max_steps, trace_dir)
    token = None if replay is None else Token.parse(replay)
    runner = _Runner(scenario, plan, limit_s, max_steps)
    folder = None if trace_dir is None else Path(trace_dir)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise SimulationError(f"trace_dir={str(folder)!r}: is a file; give the path of a folder")
    with controlled(clients):
        if token is not None:
            outcome = runner.run(token, keeps=True)
            if folder is not None:
                _write(folder, outcome)
            if outcome.error is not None:
                raise _failure(outcome, len(outcome.faults)) from outcome.error
            return _total([outcome])
        outcomes = []
        for seed in range(1, seeds + 1) if isinstance(seeds, int) else seeds:
            if not isinstance(seed, int):
                raise SimulationError(f"seed {seed!r} is no whole number; seeds={seeds!r}")
            outcome = runner.run(Token(seed))
            if outcome.error is not None:
                found = len(outcome.faults)
                if shrink:
                    outcome = runner.shrunk(outcome)
                outcome = runner.run(outcome.token, keeps=True)
                if outcome.error is None:
                    raise NotDeterministic(
                        f"seed {seed} failed, but not when it was repeated",
                        "find what differs with check_determinism(scenario, seed=...)",
                    )
                if folder is not None:
                    _write(folder, outcome)
                raise _failure(outcome, found) from outcome.error
            outcomes.append(outcome)
    if not outcomes:
        raise SimulationError(f"seeds={seeds!r}: no schedule was run; give how many, or a list of seeds")
    return _total(outcomes)


def _check_run(seeds: object, replay: object, max_steps: object, trace_dir: object) -> None:
    if not (isinstance(max_steps, int) and max_steps > 0):
        raise SimulationError(f"max_steps={max_steps!r}: give a whole number above 0")
    if not isinstance(seeds, Iterable | int):
        raise SimulationError(f"seeds={seeds!r}: give how many, or a list of seeds")
    if not isinstance(replay, str | None):
        raise SimulationError(f"replay={replay!r}: give the token of a schedule, a text")
    if not isinstance(trace_dir, str | PathLike | None):
        raise SimulationError(f"trace_dir={trace_dir!r}: give the path of a folder")


def _checked(chaos: Chaos | None, limit_s: object, clients: object) -> Chaos:
    if not isinstance(chaos, Chaos | None):
        raise SimulationError(f"chaos={chaos!r}: use Chaos(...), Chaos.none(), or None")
    if not (isinstance(limit_s, int | float) and 0 < limit_s * 1e9 < math.inf):
        raise SimulationError(f"limit_s={limit_s!r}: give seconds of virtual time, above 0")
    if isinstance(clients, str):
        raise SimulationError(f"clients={clients!r} is a text; give a list of packages: {[clients]}")
    if not isinstance(clients, Sequence):
        raise SimulationError(f"clients={clients!r}: give a list of packages")
    return chaos or Chaos()


def check_determinism(
    scenario: Scenario,
    *,
    seed: int = 1,
    chaos: Chaos | None = None,
    limit_s: float = 3_600.0,
    clients: Sequence[str] = (),
) -> str:
    """Run a seed twice, and return the hash of its trace.

    Raises `NotDeterministic`, which names the first step that differs, if the runs do.
    """
    runner = _Runner(scenario, _checked(chaos, limit_s, clients), limit_s, 5_000_000)
    with controlled(clients):
        first, second = (runner.run(Token(seed), keeps=True) for _ in range(2))
    if first.hash == second.hash:
        return first.hash
    for number, (one, other) in enumerate(zip(first.trace.steps, second.trace.steps, strict=False), 1):
        if one != other:
            raise NotDeterministic(
                f"seed {seed}: step {number:,} differs: {_step(one)} in one run, {_step(other)} in the other",
                "look for an order by id() or hash(), datetime.now, and state "
                "that is kept from one run to the next, before that step",
            )
    for a, b in zip(first.trace.events, second.trace.events, strict=False):
        if a != b:
            raise NotDeterministic(f"seed {seed}: step {a.step:,} {a.kind}s other bytes on connection {a.connection}")
    raise NotDeterministic(f"seed {seed}: one run ends earlier than the other")


def _step(step: tuple[int, str]) -> str:
    return f"{step[1]} at {step[0] / 1e9:.6f} s"


class _Errors(logging.Handler):
    """Passes errors that clients log to the schedule that runs."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(logging.ERROR)
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        self._simulation.logged(record)


class _Runner:
    """Runs schedules of one scenario."""

    def __init__(self, scenario: Scenario, chaos: Chaos, limit_s: float, max_steps: int) -> None:
        self._scenario = scenario
        self._chaos = chaos
        self._limit_s = limit_s
        self._max_steps = max_steps

    def run(self, token: Token, *, keeps: bool = False) -> ScheduleOutcome:
        """Run one schedule."""
        reset_clients()
        drawn = Random(f"plan {token.seed}")
        chaos = self._chaos.of_seed(drawn)
        step_ns = drawn.choice(_STEPS_NS)
        loop = SimulatedLoop(  # type: ignore[abstract]  # asyncio's loops need not have all methods
            token.seed, step_ns=step_ns, reorder=chaos.reorder, limit_s=self._limit_s, max_steps=self._max_steps
        )
        loop.network.latency_ms, loop.network.split = chaos.latency_ms, chaos.split
        if token.quiet:
            loop.network.latency_ms, loop.network.split = (chaos.latency_ms[0], chaos.latency_ms[0]), 0.0
        trace = Trace(loop, keeps=keeps)
        interpreter = Interpreter(loop.read_ns, token.seed)
        simulation = Simulation(loop, interpreter, trace, token, chaos)
        handler = _Errors(simulation)
        root = logging.getLogger()
        root.addHandler(handler)
        error: BaseException | None = None
        try:
            with interpreter.running():
                try:
                    loop.run_until_complete(_play(self._scenario, simulation))
                except (Exception, asyncio.CancelledError) as raised:  # noqa: BLE001  # is the outcome
                    error = raised
                finally:
                    trace.end()
                    steps, virtual_s = loop.steps, loop.now_ns / 1e9
                    digest = trace.hash
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ResourceWarning)  # what a scenario leaves is closed here
                        _end(loop, simulation)
                        _release(error)
                        gc.collect(0)
        finally:
            root.removeHandler(handler)
            loop.close()
            simulation.remove_files()
        token = replace(token, trace=digest[:8])
        return ScheduleOutcome(token, error, trace, digest, tuple(simulation.faults), steps, virtual_s)

    def shrunk(self, outcome: ScheduleOutcome) -> ScheduleOutcome:
        """Return a schedule with fewer faults that fails in the same way."""
        left = _SHRINKING_RUNS
        best = outcome

        def fails(faults: tuple[int, ...], quiet: bool) -> ScheduleOutcome | None:
            nonlocal left
            left -= 1
            tried = self.run(replace(outcome.token, faults=faults, quiet=quiet))
            return tried if tried.error is not None and _kind(tried.error) == _kind(outcome.error) else None

        kept = tuple(fault.number for fault in outcome.faults)
        if found := fails((), quiet=True) or fails((), quiet=False):
            return found
        quiet = False
        if found := fails(kept, quiet=True):
            best, quiet = found, True
        parts = 2
        while len(kept) > 1 and left > 0:
            size = -(-len(kept) // parts)
            for start in range(0, len(kept), size):
                fewer = kept[:start] + kept[start + size :]
                if found := fails(fewer, quiet):
                    best, kept, parts = found, fewer, max(2, parts - 1)
                    break
                if left <= 0:
                    break
            else:
                if size == 1:
                    break
                parts = min(len(kept), 2 * parts)
        return best


def _kind(error: BaseException | None) -> tuple[Any, ...]:
    if isinstance(error, InvariantBroken):
        return InvariantBroken, error.invariant
    if isinstance(error, SimulationError):
        return SimulationError, str(error)[:20]
    return (type(error),)


async def _play(scenario: Scenario, simulation: Simulation) -> None:
    """Play a scenario, then check the invariants."""
    playing = scenario(simulation)
    if not inspect.isawaitable(playing):
        raise SimulationError(f"the scenario is no `async def` function: it returned {playing!r}")
    await playing
    await simulation.end()
    simulation.check()


def _end(loop: SimulatedLoop, simulation: Simulation) -> None:
    """Cancel what still runs, so that nothing of a schedule is left."""

    async def cancel() -> None:
        own = asyncio.current_task()
        for _ in range(10):
            tasks = [task for task in asyncio.all_tasks(loop) if task is not own]
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=5)
        await loop.shutdown_asyncgens()

    async def disconnect() -> None:
        await simulation.end()
        loop.network.disconnect()
        await asyncio.sleep(1)

    loop.on_step = None
    loop.limit_ns = loop.now_ns + 3_600_000_000_000
    loop.max_steps = loop.steps + 1_000_000
    loop.set_exception_handler(lambda loop, context: None)
    for work in (cancel, disconnect):
        with suppress(Exception, asyncio.CancelledError):  # the schedule's own error is reported
            loop.run_until_complete(work())


def _release(error: BaseException | None) -> None:
    """Clear the frames of an exception, which would keep the clients of its schedule."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            waiting += [one.__cause__, one.__context__]


def _failure(outcome: ScheduleOutcome, before: int) -> ScheduleFailed:
    """Return the exception for a failed schedule."""
    error = outcome.error
    faults = tuple(map(str, outcome.faults))
    lines = [
        f"seed {outcome.token.seed}, after {outcome.virtual_s:,.1f} s of virtual time: {type(error).__name__}: {error}",
        f"repeat it with simulate(scenario, replay={str(outcome.token)!r})",
        f"{len(faults)} of {before} faults:" if faults else f"0 of {before} faults",
        *(f"    {fault}" for fault in faults),
    ]
    return ScheduleFailed("\n".join(lines), str(outcome.token), faults, outcome.trace.text())


def _write(folder: Path, outcome: ScheduleOutcome) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w-]", "_", str(outcome.token))
    (folder / f"{name}.txt").write_text(outcome.trace.text() + "\n", "utf-8")
    (folder / f"{name}.html").write_text(page(outcome.trace, str(outcome.token), outcome.error), "utf-8")


def _total(outcomes: Sequence[ScheduleOutcome]) -> SimulationResult:
    return SimulationResult(
        schedules=len(outcomes),
        faults=sum(len(one.faults) for one in outcomes),
        steps=sum(one.steps for one in outcomes),
        virtual_s=sum(one.virtual_s for one in outcomes),
        traces={one.token.seed: one.hash for one in outcomes},
    )

"""Clocks, random numbers and threads of the interpreter, under the control of a simulation.

While a simulation runs, `time.time`, `time.monotonic`, `random`, `os.urandom` (and so `uuid` and
`secrets`) and `os.pwrite` are the simulation's, for its own thread only, and it seeds instances of
`random.Random` that have no seed. Other threads get the real ones. Functions that a module has
imported by name are replaced, too. Everything is restored afterwards.

Not covered: `datetime.now`, and defaults of parameters.
"""

import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from random import Random
from typing import Any

from quorate.simulation.clients import patched_clients
from quorate.simulation.errors import SimulationError
from quorate.simulation.stable_sets import STABLE

START_NS = 1_700_000_000_000_000_000
"""The wall clock at the start of each schedule."""

_CLIENTS = ("aiokafka", "quorate.cluster", "quorate.consumers", "quorate.coordinator", "quorate.assignors")
"""Packages whose modules get stable sets."""

_LATE = (
    "quorate.assignors.java_order.grouped",
    "quorate.assignors.java_order.orders",
    "quorate.assignors.server.range",
    "quorate.assignors.server.simple",
    "quorate.assignors.server.uniform",
    "quorate.assignors.streams.sticky",
    "quorate.codecs.columnar.record_facts",
    "quorate.coordinator.consumer.run_assignor",
)
"""Modules that clusters import on first use. A simulation controls those imported before it."""

_RANDOM = (
    "betavariate",
    "choice",
    "choices",
    "expovariate",
    "gauss",
    "getrandbits",
    "normalvariate",
    "randbytes",
    "randint",
    "random",
    "randrange",
    "sample",
    "shuffle",
    "triangular",
    "uniform",
)

_lock = threading.Lock()
_running: dict[int, "Interpreter"] = {}


class Interpreter:
    """What a schedule sees. `read_ns`: the virtual time. `seed`: of random numbers.

    `skew_ns`: how far the wall clock is set forward. `write`: called in place of `os.pwrite`, with
    that function first.
    """

    def __init__(self, read_ns: Callable[[], int], seed: int | str) -> None:
        self.read_ns = read_ns
        self.random = Random(f"process {seed}")
        self.skew_ns = 0
        self.write: Callable[..., int] | None = None

    def wall_ns(self) -> int:
        """Return the wall clock."""
        return START_NS + self.read_ns() + self.skew_ns

    @contextmanager
    def running(self) -> Iterator[None]:
        """Use this interpreter in the current thread."""
        thread = threading.get_ident()
        _running[thread] = self
        try:
            yield
        finally:
            del _running[thread]


@contextmanager
def controlled(clients: Sequence[str]) -> Iterator[None]:
    """Give simulations control of the interpreter, and the garbage collector a fixed schedule.

    `clients`: further packages whose modules get stable sets. One simulation runs at a time.
    Raises `SimulationError` within a scenario.
    """
    if threading.get_ident() in _running:
        raise SimulationError("a scenario cannot run another simulation")
    for name in _LATE:
        import_module(name)
    with _lock:
        replaced = _replacements()
        undo: list[tuple[dict[str, Any], str, Any]] = []
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", None)
            if names is None or names.get("__name__") == __name__:
                continue
            for name, value in list(names.items()):
                try:
                    new = replaced.get(id(value))
                except TypeError:
                    continue
                if new is not None:
                    undo.append((names, name, value))
                    names[name] = new
            own = str(names.get("__name__"))
            if any(own == package or own.startswith(f"{package}.") for package in (*_CLIENTS, *clients)):
                for name, kind in STABLE.items():
                    if name not in names:
                        undo.append((names, name, None))
                        names[name] = kind
        start = threading.Thread.start
        threading.Thread.start = _refuse_thread(start)  # type: ignore[method-assign,assignment]
        seed = Random.seed
        Random.seed = _seeded(seed)  # type: ignore[method-assign]
        collects, freezes = gc.isenabled(), not _is_frozen()
        gc.collect()
        if freezes:
            gc.freeze()  # a collection after each schedule then visits only its objects
        gc.disable()
        try:
            with patched_clients():
                yield
        finally:
            if collects:
                gc.enable()
            if freezes:
                gc.unfreeze()
            threading.Thread.start = start  # type: ignore[method-assign]
            Random.seed = seed  # type: ignore[method-assign]
            for names, name, value in reversed(undo):
                if value is None:
                    names.pop(name, None)
                else:
                    names[name] = value


def _is_frozen() -> bool:
    """Return whether the process has frozen objects, which would be thawed with ours."""
    return gc.get_freeze_count() > 0


def _replacements() -> dict[int, Any]:
    """Return the id of each function → the function that replaces it."""
    clocks: dict[str, Callable[[Interpreter], Any]] = {
        "time": lambda one: one.wall_ns() / 1e9,
        "time_ns": lambda one: one.wall_ns(),
        "monotonic": lambda one: one.read_ns() / 1e9,
        "monotonic_ns": lambda one: one.read_ns(),
        "perf_counter": lambda one: one.read_ns() / 1e9,
        "perf_counter_ns": lambda one: one.read_ns(),
        "thread_time": lambda one: one.read_ns() / 1e9,
        "process_time": lambda one: one.read_ns() / 1e9,
        "sleep": _refuse_sleep,
    }
    found = {id(getattr(time, name)): _clock(getattr(time, name), function) for name, function in clocks.items()}
    found |= {id(getattr(random, name)): _drawn(getattr(random, name), name) for name in _RANDOM}
    found[id(os.urandom)] = _drawn(os.urandom, "randbytes")
    if hasattr(os, "pwrite"):  # not on Windows
        found[id(os.pwrite)] = _written(os.pwrite)
    return found


def _clock(real: Callable[..., Any], simulated: Callable[[Interpreter], Any]) -> Callable[..., Any]:
    def read(*args: Any) -> Any:
        one = _running.get(threading.get_ident())
        return real(*args) if one is None else simulated(one)

    return read


def _drawn(real: Callable[..., Any], name: str) -> Callable[..., Any]:
    def draw(*args: Any, **named: Any) -> Any:
        one = _running.get(threading.get_ident())
        return (real if one is None else getattr(one.random, name))(*args, **named)

    return draw


def _seeded(real: Callable[..., None]) -> Callable[..., None]:
    def seed(instance: Random, a: Any = None, *args: Any, **named: Any) -> None:
        one = _running.get(threading.get_ident())
        if a is None and one is not None:
            a = one.random.getrandbits(64)
        real(instance, a, *args, **named)

    return seed


def _written(real: Callable[..., int]) -> Callable[..., int]:
    def write(*args: Any) -> int:
        one = _running.get(threading.get_ident())
        return real(*args) if one is None or one.write is None else one.write(real, *args)

    return write


def _refuse_sleep(_: Interpreter) -> None:
    raise SimulationError("time.sleep blocks the loop, in which virtual time does not pass", "await asyncio.sleep")


def _refuse_thread(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def refuse(thread: threading.Thread) -> None:
        if threading.get_ident() in _running:
            raise SimulationError(
                f"a simulation starts no threads, but thread {thread.name} was started: their order is not repeatable",
                "use asyncio.to_thread or run_in_executor, which run in the loop",
            )
        start(thread)

    return refuse

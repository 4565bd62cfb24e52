"""`SimulatedLoop`: an asyncio loop in virtual time, whose choices come from a seed.

Callbacks run first in, first out, as asyncio guarantees. What a real loop leaves open is chosen at
random: the order of network events that are ready at the same time, and how long each step takes.
With `reorder`, ready callbacks also overtake each other.

Each step takes some virtual time. Without that, code that waits until a rounded time would repeat
its check forever at the same instant.

It does not know what happens in the callbacks; the network is `quorate.simulation.network`.
"""

import asyncio
import contextvars
import heapq
import math
import sys
import weakref
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable
from itertools import count
from random import Random
from typing import Any

from quorate.simulation.errors import SimulationError
from quorate.simulation.network import SimulatedNetwork

_NS = 1_000_000_000
_LAST_NS = sys.float_info.max


class _Future(asyncio.Future[Any]):
    """Hashes by a number rather than by the address, so that sets have the same order in each run.

    It gets the number when it is hashed first, as most futures never are.
    """

    number = 0

    def __hash__(self) -> int:
        if not self.number:
            loop: Any = self.get_loop()
            self.number = next(loop.numbers)
        return self.number


class _Task(asyncio.Task[Any]):
    """Hashes by a number, as `_Future`."""

    def __init__(self, coroutine: Any, loop: "SimulatedLoop", name: str | None, **options: Any) -> None:
        self.number = next(loop.numbers)
        super().__init__(coroutine, loop=loop, name=name or f"task {self.number}", **options)

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.AbstractEventLoop):
    """`seed`: of all choices. `step_ns`: how long a step takes.

    `reorder`: the probability that a ready callback is overtaken. `on_step`: called with the
    description of each step. `limit_s`: the virtual time after which the simulation is an error;
    `max_steps`: likewise.
    """

    def __init__(
        self,
        seed: int | str,
        *,
        step_ns: int = 10_000,
        reorder: float = 0.0,
        limit_s: float = 3_600.0,
        max_steps: int = 5_000_000,
    ) -> None:
        self.now_ns = 0
        self.steps = 0
        self.step_ns = step_ns
        self.reorder = reorder
        self.limit_ns = int(limit_s * _NS)
        self.max_steps = max_steps
        self.numbers = count(1)
        self.on_step: Callable[[str], object] | None = None
        self.reads = 0  # of the clock since the last step
        self.problems: list[dict[str, Any]] = []
        self.network = SimulatedNetwork(self, Random(f"network {seed}"))
        self._random = Random(f"order {seed}")
        self._ready: deque[events.Handle] = deque()
        self._timers: list[tuple[int, int, events.Handle, bool]] = []
        self._order = count()
        self._generators: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()
        self._factory: Any = None
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._closed = self._running = self._stopping = self._debug = False

    # ---- time

    def time(self) -> float:
        """Return virtual seconds since the start."""
        return self.read_ns() / _NS

    def read_ns(self) -> int:
        """Return virtual nanoseconds since the start, for the clocks of the process."""
        self.reads += 1
        if self.reads > 1_000_000:
            self.reads = 0
            raise SimulationError(
                "a callback read the clock a million times: virtual time does not pass within a callback",
                "wait with asyncio.sleep",
            )
        return self.now_ns

    # ---- scheduling

    def call_soon(  # type: ignore[override]  # the types of arguments are not checked
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        """Call a function in a later step."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = events.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]  # the types of arguments are not checked
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        """Call a function in a later step. Raises `SimulationError` in another thread."""
        if self._running and events._get_running_loop() is not self:
            raise SimulationError(
                "another thread called into the simulation: the order of threads cannot be repeated",
                "run it in the loop; run_in_executor and asyncio.to_thread do",
            )
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]  # the types of arguments are not checked
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        """Call a function after `delay` virtual seconds."""
        return self.call_at(self.now_ns / _NS + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # the types of arguments are not checked
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> events.TimerHandle:
        """Call a function at a virtual time."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = events.TimerHandle(when, callback, args, self, context)
        if when < math.inf:  # the others never fire
            at_ns = -int(-min(when * _NS, _LAST_NS) // 1)
            heapq.heappush(self._timers, (at_ns, next(self._order), handle, False))
        return handle

    def at_ns(self, when_ns: int, callback: Any, *args: Any) -> events.Handle:
        """Call a function for an event from outside, such as of the network, at a virtual time."""
        handle = events.Handle(callback, args, self, _NO_CONTEXT.copy())
        heapq.heappush(self._timers, (when_ns, next(self._order), handle, True))
        return handle

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when it is due."""

    def _collect_due(self) -> None:
        """Move what is due to the ready callbacks: events of the network, then timers."""
        timers, now_ns = self._timers, self.now_ns
        outside: list[events.Handle] = []
        due: list[events.Handle] = []
        while timers and timers[0][0] <= now_ns:
            _, _, handle, external = heapq.heappop(timers)
            if not handle.cancelled():
                (outside if external else due).append(handle)
        if len(outside) > 1:
            self._random.shuffle(outside)
        self._ready.extend(outside)
        self._ready.extend(due)

    def _step(self) -> None:
        ready, timers = self._ready, self._timers
        if timers and timers[0][0] <= self.now_ns:
            self._collect_due()
        if not ready:
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            if not timers:
                raise SimulationError("deadlock: all tasks wait, and no timer or message is pending")
            self.now_ns = max(self.now_ns, timers[0][0])
            if self.now_ns > self.limit_ns:
                raise SimulationError(
                    f"did not end within {self.limit_ns / _NS:,.0f} s of virtual time: all tasks wait, "
                    f"the next timer is due at {self.now_ns // _NS:,} s"
                )
            self._collect_due()
        if self.reorder and len(ready) > 1 and self._random.random() < self.reorder:
            ready.rotate(-self._random.randrange(len(ready)))
        handle = ready.popleft()
        if handle.cancelled():
            return
        self.steps += 1
        if self.steps > self.max_steps:
            raise SimulationError(f"did not end within {self.max_steps:,} steps")
        if self.on_step is not None:
            self.on_step(_described(handle))
        self.reads = 0
        handle._run()
        self.now_ns += self.step_ns
        # Since Python 3.13, the exception that a task raised keeps this frame. With the handle it
        # would keep the task, too, and an exception that is lost would not be reported.
        del handle

    # ---- running

    def run_until_complete(self, future: Any) -> Any:
        """Run until a future is done, and return its result."""
        if self._running or events._get_running_loop() is not None:
            raise RuntimeError("a simulation cannot run inside a running event loop; call simulate() from a function")
        waited: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generators.add, finalizer=self._finalize)
        events._set_running_loop(self)
        self._running = True
        try:
            while not waited.done():
                self._step()
        except BaseException:
            waited.cancel()
            raise
        finally:
            self._running = False
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
        return waited.result()

    def run_forever(self) -> None:
        """Not supported: a simulation ends with its scenario."""
        raise SimulationError("a simulated loop runs until its scenario ends")

    def stop(self) -> None:
        """Not supported, as `run_forever`."""
        raise SimulationError("a simulated loop runs until its scenario ends")

    def is_running(self) -> bool:
        """Return whether the loop runs."""
        return self._running

    def is_closed(self) -> bool:
        """Return whether the loop is closed."""
        return self._closed

    def close(self) -> None:
        """Drop everything that is pending."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self.network.clear()

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.create_task(generator.aclose())

    async def shutdown_asyncgens(self) -> None:
        """Close the asynchronous generators that are still open."""
        generators = sorted(self._generators, key=lambda one: str(getattr(one, "__qualname__", "")))
        self._generators.clear()
        await asyncio.gather(*(one.aclose() for one in generators), return_exceptions=True)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there are no threads."""

    # ---- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future whose hash depends on no address."""
        return _Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, **options: Any) -> asyncio.Task[Any]:
        """Return a task whose hash depends on no address."""
        if self._factory is not None:
            task: asyncio.Task[Any] = self._factory(self, coro, **options)
            return task
        if options.get("context", ...) is None:
            del options["context"]
        return _Task(coro, self, name, **options)

    def set_task_factory(self, factory: Any) -> None:
        """Set the task factory."""
        self._factory = factory

    def get_task_factory(self) -> Any:
        """Return the task factory."""
        return self._factory

    def run_in_executor(  # type: ignore[override]  # the types of arguments are not checked
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """Call a function in a later step, in this thread, as threads cannot be repeated."""
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001  # is the future's
                future.set_exception(error)

        self.at_ns(self.now_ns + self._random.randrange(1, 5_000_000), run)
        return future

    def set_default_executor(self, executor: Any) -> None:
        """Do nothing: there are no threads."""

    # ---- the network

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        """Return an address for every name."""
        return self.network.addresses(host, port)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Return an address as it is."""
        return str(sockaddr[0]), str(sockaddr[1])

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, ssl: Any = None, **options: Any
    ) -> Any:
        """Connect to a server in the simulation. Raises `OSError`, or `SimulationError` for TLS."""
        _refuse_tls(ssl)
        if options.get("sock") is not None:
            raise SimulationError("a simulation has no sockets", "connect by host and port")
        return await self.network.connect(protocol_factory, str(host), int(port))

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, ssl: Any = None, **options: Any
    ) -> Any:
        """Listen in the simulation. Raises `OSError` if the port is in use."""
        _refuse_tls(ssl)
        if isinstance(host, (list, tuple)):
            host = host[0]
        return self.network.listen(protocol_factory, host or "127.0.0.1", int(port or 0))

    def remove_reader(self, fd: Any) -> bool:
        """Return `False`: there are no readers of file descriptors."""
        return False

    def remove_writer(self, fd: Any) -> bool:
        """Return `False`: there are no writers of file descriptors."""
        return False

    # ---- errors

    def set_exception_handler(self, handler: Any) -> None:
        """Set the handler of exceptions that no task receives."""
        self._handler = handler

    def get_exception_handler(self) -> Any:
        """Return the handler of exceptions that no task receives."""
        return self._handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep the problem; an invariant reports it."""
        self.problems.append(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Handle an exception that no task receives."""
        if self._handler is None:
            self.default_exception_handler(context)
        else:
            self._handler(self, context)

    def get_debug(self) -> bool:
        """Return whether asyncio's debug mode is on."""
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        """Set asyncio's debug mode."""
        self._debug = enabled


_NO_CONTEXT = contextvars.Context()


def _refuse_tls(ssl: Any) -> None:
    if ssl:
        raise SimulationError("TLS draws random numbers that no seed determines", "use PLAINTEXT or SASL_PLAINTEXT")


def _described(handle: events.Handle) -> str:
    """Return what a step calls: a function, and the task that it belongs to."""
    callback: Any = getattr(handle, "_callback", None)
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        coroutine: Any = task.get_coro()
        return f"{task.get_name()} {getattr(coroutine, '__qualname__', coroutine)}"
    while hasattr(callback, "func"):
        callback = callback.func
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))

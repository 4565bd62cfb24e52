"""Large requests in small turns, between which other connections are served.

Code that changes a cluster's state runs in its loop. A handler with much work is a generator that
yields where other requests may run. Pure computations on a request (decoding, compressing batches,
encoding the response) run in one thread. Small requests need neither, and take one turn.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from time import perf_counter, thread_time
from typing import Any, TypeVar

from quorate.codecs.lazy_dataclass import dataclass

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

_TURN_S = 0.01
"""How long one request may delay others. There is one such turn in each iteration of the loop,
however many requests are waiting.
"""
_SHORT_TURN_S = 0.002
"""The same while other large requests are waiting."""
_TIMERS_S = 0.05
"""How long due timers of a coordinator may delay requests, in CPU time, so that a busy machine does
not split small work.
"""
_CHUNK_SIZE = 200


@dataclass(frozen=True, slots=True)
class ThreadCall:
    """A call that a `Work` yields to run in the thread; its result or exception is sent back."""

    function: Callable[[], Any]


Work = Generator[ThreadCall | None, Any, T]
"""The work of a handler. It yields `None` between steps of at most a few milliseconds each."""


@dataclass(slots=True, eq=False)
class _Running:
    work: Work[Any]
    done: Callable[[Any], object]
    failed: Callable[[BaseException], object]
    sent: Any = None
    error: BaseException | None = None
    call: ThreadCall | None = None


def at_once(work: Generator[Any, Any, T]) -> T:
    """Run work to its end without other turns; it must not yield a `ThreadCall`."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        result: T = end.value
        return result


def map_in_turns(items: Iterable[A], function: Callable[[A], B]) -> Work[tuple[B, ...]]:
    """Return the function's results for all items, computed in turns."""
    found = []
    for item in items:
        found.append(function(item))
        yield None
    return tuple(found)


def turn_of_timers() -> Callable[[], bool]:
    """Begin a turn in which timers fire; the result returns whether it is over."""
    until = thread_time() + _TIMERS_S
    return lambda: thread_time() > until


def chunks(items: Iterable[A]) -> Iterator[list[A]]:
    """Split items into lists that are each handled in one step."""
    iterator = iter(items)
    while some := list(islice(iterator, _CHUNK_SIZE)):
        yield some


def collect_rarely() -> None:
    """Make full garbage collections rare, in a process that only runs a cluster.

    A full collection visits all objects, and takes 0.4 s with 70,000 partitions, after requests
    that create or describe them. Young objects are collected as usual, and objects outside of
    cycles need no collector.
    """
    gc.set_threshold(5_000, 10, 1_000)


def split(items: Iterable[A], condition: Callable[[A], object]) -> Work[tuple[tuple[A, ...], tuple[A, ...]]]:
    """Return the items that meet a condition, and the others, computed in turns."""
    found: tuple[list[A], list[A]] = [], []
    for item in items:
        found[not condition(item)].append(item)
        yield None
    return tuple(found[0]), tuple(found[1])


class Turns:
    """Runs the large requests of a cluster, in its loop.

    Without a running loop, and while `closing`, work runs to its end at once.

    `report`: called with exceptions of `failed` callbacks.
    """

    def __init__(self, report: Callable[[BaseException], object]) -> None:
        self._report = report
        self._waiting: deque[_Running] = deque()
        self._in_thread: dict[_Running, None] = {}
        self._handle: asyncio.Handle | None = None
        self._pool: ThreadPoolExecutor | None = None
        self.closing = False

    def run(self, work: Work[T], done: Callable[[T], object], failed: Callable[[BaseException], object]) -> bool:
        """Run the work, then call `done` with its result, or `failed` with an exception of either.

        Returns whether it completed at once.
        """
        running = _Running(work, done, failed)
        if self._turn(running):
            return True
        if not self._has_loop():
            self._finish(running)
            return True
        self._continue_later(running)
        return False

    def later(self, work: Work[T], done: Callable[[T], object], failed: Callable[[BaseException], object]) -> None:
        """Run the work in a later turn, such as for one of many waiting clients."""
        running = _Running(work, done, failed)
        if self._has_loop():
            self._continue_later(running)
        else:
            self._finish(running)

    def in_thread(
        self, function: Callable[[], T], done: Callable[[T], object], failed: Callable[[BaseException], object]
    ) -> None:
        """Run a function in the thread."""
        self.run(_thread_call(function), done, failed)

    def close(self) -> None:
        """Complete all pending work at once."""
        self.closing = True
        if self._handle is not None:
            self._handle.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        for running in (*self._in_thread, *self._waiting):
            try:
                self._finish(running)
            except Exception as error:  # noqa: BLE001  # reported; other work is completed
                self._report(error)
        self._in_thread.clear()
        self._waiting.clear()
        self._handle = self._pool = None
        self.closing = False

    def abandon(self) -> None:
        """Drop all pending work, as when the process ends."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._waiting.clear()
        self._in_thread.clear()

    def _has_loop(self) -> bool:
        if self.closing:
            return False
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def _turn(self, running: _Running) -> bool:
        """Run one turn of some work; return whether it has ended.

        It has not while it waits for the thread.
        """
        until = perf_counter() + (_SHORT_TURN_S if self._waiting else _TURN_S)
        work, sent, error = running.work, running.sent, running.error
        running.sent = running.error = None
        try:
            while True:
                found = work.send(sent) if error is None else work.throw(error)
                sent = error = None
                if found is not None:
                    running.call = found
                    return False
                if perf_counter() > until:
                    return False
        except StopIteration as end:
            try:
                running.done(end.value)
            except Exception as raised:  # noqa: BLE001  # as below
                running.failed(raised)
        except Exception as raised:  # noqa: BLE001  # handled by the callback
            running.failed(raised)
        return True

    def _continue_later(self, running: _Running) -> None:
        """Continue some work in a later turn, or after its call in the thread."""
        if running.call is None:
            self._waiting.append(running)
            self._schedule()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "quorate-large-requests")
        loop = asyncio.get_running_loop()
        self._in_thread[running] = None
        computed = loop.run_in_executor(self._pool, running.call.function)
        computed.add_done_callback(partial(self._computed, running))

    def _computed(self, running: _Running, computed: "asyncio.Future[Any]") -> None:
        if running not in self._in_thread:  # completed by `close`
            return
        del self._in_thread[running]
        running.call = None
        running.error = computed.exception()
        running.sent = None if running.error is not None else computed.result()
        self._waiting.append(running)
        self._schedule()

    def _schedule(self) -> None:
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._handle = None
        running = self._waiting.popleft()
        try:
            if not self._turn(running):
                self._continue_later(running)
        except Exception as error:  # noqa: BLE001  # reported
            self._report(error)
        finally:
            if self._waiting:
                self._schedule()

    def _finish(self, running: _Running) -> None:
        while True:
            if running.call is not None:
                call, running.call = running.call, None
                try:
                    running.sent = call.function()
                except Exception as error:  # noqa: BLE001  # raised in the work
                    running.error = error
            if self._turn(running):
                return


def _thread_call(function: Callable[[], T]) -> Work[T]:
    found: T = yield ThreadCall(function)
    return found

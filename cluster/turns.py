"""Large requests in small turns, so that other connections are served meanwhile.

What changes a cluster's state runs in its loop: a handler that may have much to do is a generator,
and yields wherever others may have their turn. What is only computed from a request (decoding it,
compressing its batches, encoding its response) runs in one thread. Small requests need neither and
take one turn, as ever.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import perf_counter, thread_time
from typing import Any, TypeVar

__all__ = ["Aside", "Turns", "Work", "at_once", "collect_rarely", "each", "parts", "split", "turn_of_timers"]

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

_TURN_S = 0.01
"""How long one request may hold up all others. There is one such turn in each round of the loop,
however many requests there are.
"""
_SHORT_TURN_S = 0.002
"""The same while other large requests wait: many may come in one round."""
_TIMERS_S = 0.05
"""How long timers of a coordinator that are due at once may hold up all others, in CPU time: on a
busy machine, what is small is done at once, too.
"""
_ITEMS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Aside:
    """What a `Work` yields to have something computed in the thread: it is resumed with the result, or with the exception."""

    function: Callable[[], Any]


Work = Generator[Aside | None, Any, T]
"""What a handler with much to do returns. It yields `None` between parts of at most a few
milliseconds each.
"""


@dataclass(slots=True, eq=False)
class _Running:
    work: Work[Any]
    done: Callable[[Any], object]
    failed: Callable[[BaseException], object]
    sent: Any = None
    error: BaseException | None = None
    aside: Aside | None = None


def at_once(work: Work[T]) -> T:
    """The result of work that needs no thread, without turns for others in between."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        result: T = end.value
        return result


def each(items: Iterable[A], function: Callable[[A], B]) -> Work[tuple[B, ...]]:
    """What the function makes of each item, with turns for others in between."""
    found = []
    for item in items:
        found.append(function(item))
        yield None
    return tuple(found)


def turn_of_timers() -> Callable[[], bool]:
    """Timers begin to fire: what this returns says whether they have for as long as they should."""
    until = thread_time() + _TIMERS_S
    return lambda: thread_time() > until


def parts(items: Iterable[A]) -> Iterator[list[A]]:
    """The items in lists, each of which is handled without turns for others in between."""
    iterator = iter(items)
    while some := list(islice(iterator, _ITEMS_AT_ONCE)):
        yield some


def collect_rarely() -> None:
    """Keep Python's garbage collector from holding up every client, in a process that is the cluster's own.

    A full collection looks at each object there is: 0.4 s with 70,000 partitions, after some
    requests that create or describe them. Young objects are collected as ever, and what is not in
    cycles needs no collector.
    """
    gc.set_threshold(5_000, 10, 1_000)


def split(items: Iterable[A], condition: Callable[[A], object]) -> Work[tuple[tuple[A, ...], tuple[A, ...]]]:
    """The items that meet a condition, and the others, with turns for others in between."""
    found: tuple[list[A], list[A]] = [], []
    for item in items:
        found[not condition(item)].append(item)
        yield None
    return tuple(found[0]), tuple(found[1])


class Turns:
    """The large requests of a cluster.

    To be used in its loop; without one, and while it is `closing`, everything is done at once.

    `report`: gets the exception of a `failed` callback, which stops nothing but its own work.
    """

    def __init__(self, report: Callable[[BaseException], object]) -> None:
        self._report = report
        self._waiting: deque[_Running] = deque()
        self._aside: set[_Running] = set()
        self._handle: asyncio.Handle | None = None
        self._pool: ThreadPoolExecutor | None = None
        self.closing = False

    def run(self, work: Work[T], done: Callable[[T], object], failed: Callable[[BaseException], object]) -> bool:
        """Do the work, then call `done` with its result; `failed` with the exception of either.

        Returns whether that was at once.
        """
        running = _Running(work, done, failed)
        if self._turn(running):
            return True
        if not self._has_loop():
            self._finish(running)
            return True
        self._go_on(running)
        return False

    def later(self, work: Work[T], done: Callable[[T], object], failed: Callable[[BaseException], object]) -> None:
        """Do the work when it is its turn, such as for one of many clients that wait for the same."""
        running = _Running(work, done, failed)
        if self._has_loop():
            self._go_on(running)
        else:
            self._finish(running)

    def aside(
        self, function: Callable[[], T], done: Callable[[T], object], failed: Callable[[BaseException], object]
    ) -> None:
        """Compute something in the thread."""
        self.run(_only(function), done, failed)

    def close(self) -> None:
        """Finish what was begun, at once."""
        self.closing = True
        if self._handle is not None:
            self._handle.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        for running in (*self._aside, *self._waiting):
            try:
                self._finish(running)
            except Exception as error:  # noqa: BLE001  # it is reported, and the others are finished
                self._report(error)
        self._aside.clear()
        self._waiting.clear()
        self._handle = self._pool = None
        self.closing = False

    def _has_loop(self) -> bool:
        if self.closing:
            return False
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def _turn(self, running: _Running) -> bool:
        """One turn of some work; whether it is over.

        It is not, either, where it waits for the thread.
        """
        until = perf_counter() + (_SHORT_TURN_S if self._waiting else _TURN_S)
        work, sent, error = running.work, running.sent, running.error
        running.sent = running.error = None
        try:
            while True:
                found = work.send(sent) if error is None else work.throw(error)
                sent = error = None
                if found is not None:
                    running.aside = found
                    return False
                if perf_counter() > until:
                    return False
        except StopIteration as end:
            try:
                running.done(end.value)
            except Exception as raised:  # noqa: BLE001  # as below
                running.failed(raised)
        except Exception as raised:  # noqa: BLE001  # whoever asked for the work knows what to do about it
            running.failed(raised)
        return True

    def _go_on(self, running: _Running) -> None:
        """Have it continued when it is its turn, or when the thread has what it waits for."""
        if running.aside is None:
            self._waiting.append(running)
            self._schedule()
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "quorate-large-requests")
        loop = asyncio.get_running_loop()
        self._aside.add(running)
        computed = loop.run_in_executor(self._pool, running.aside.function)
        computed.add_done_callback(partial(self._computed, running))

    def _computed(self, running: _Running, computed: "asyncio.Future[Any]") -> None:
        if running not in self._aside:  # finished by `close`
            return
        self._aside.discard(running)
        running.aside = None
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
                self._go_on(running)
        except Exception as error:  # noqa: BLE001  # it is reported
            self._report(error)
        finally:
            if self._waiting:
                self._schedule()

    def _finish(self, running: _Running) -> None:
        while True:
            if running.aside is not None:
                aside, running.aside = running.aside, None
                try:
                    running.sent = aside.function()
                except Exception as error:  # noqa: BLE001  # the work hears of it
                    running.error = error
            if self._turn(running):
                return


def _only(function: Callable[[], T]) -> Work[T]:
    found: T = yield Aside(function)
    return found

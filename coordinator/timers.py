"""Timers as data: what is to happen when, by key.

Nothing here waits; whoever owns the clock asks what is due.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.coordinator.results import Result

__all__ = ["RETRY_BACKOFF_MS", "Timer", "Timers"]

RETRY_BACKOFF_MS = 500
"""A timer whose records could not be written fires again after this, unless it was set otherwise."""


@dataclass(slots=True, kw_only=True)  # not frozen: each heartbeat sets one anew
class Timer:
    """At `at_ms`, `operation` is called with the time in ms; what it returns is written and replayed like the result of a request.

    `retry_ms`: if it fails or cannot be written, it is tried again so much later; `None` if not.
    `order`: how many timers were set before it, and itself. `queued`: the order that its entry in
    the queue has, which may be of an earlier time.
    """

    key: str
    at_ms: int
    operation: "Callable[[int], Result[Any]]"
    retry_ms: int | None
    order: int
    queued: int


class Timers:
    """Timers by key: a key has one at most.

    Timers that are due at once fire in the order in which they were set.

    A timer that is put off, as by each heartbeat, keeps its entry in the queue; when that comes
    first, it is put where the timer stands by then.
    """

    def __init__(self) -> None:
        self._timers: dict[str, Timer] = {}
        self._queue: list[tuple[int, int, str]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: str) -> bool:
        return key in self._timers

    def schedule(
        self,
        key: str,
        at_ms: int,
        operation: "Callable[[int], Result[Any]]",
        *,
        retry_ms: int | None = RETRY_BACKOFF_MS,
    ) -> None:
        """Set a timer; one with the same key is replaced."""
        self._order = order = self._order + 1
        timer = self._timers.get(key)
        if timer is not None and at_ms >= timer.at_ms:
            timer.at_ms, timer.operation, timer.retry_ms, timer.order = at_ms, operation, retry_ms, order
            return
        self._timers[key] = Timer(
            key=key, at_ms=at_ms, operation=operation, retry_ms=retry_ms, order=order, queued=order
        )
        heapq.heappush(self._queue, (at_ms, order, key))
        if len(self._queue) > 64 + 4 * len(self._timers):  # of timers that were taken back again and again
            self._fill_queue()

    def schedule_if_absent(self, key: str, at_ms: int, operation: "Callable[[int], Result[Any]]") -> None:
        """Set a timer unless there is one with this key."""
        if key not in self._timers:
            self.schedule(key, at_ms, operation)

    def cancel(self, key: str) -> None:
        """Take a timer back, if there is one."""
        self._timers.pop(key, None)

    def step(self, by_ms: int) -> None:
        """The clock was set: all timers move along, and fire in the same order."""
        for timer in self._timers.values():
            timer.at_ms += by_ms
        self._fill_queue()

    def pending(self) -> list[Timer]:
        """All timers, in the order in which they will fire."""
        return sorted(self._timers.values(), key=lambda timer: (timer.at_ms, timer.order))

    def next_due(self, now_ms: int) -> Timer | None:
        """Take out the first timer that is due; `None` if none is."""
        timer = self._first(now_ms)
        if timer is not None:
            heapq.heappop(self._queue)
            del self._timers[timer.key]
        return timer

    def next_at_ms(self) -> int | None:
        """When the next timer is due; `None` without timers."""
        timer = self._first(None)
        return None if timer is None else timer.at_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether a timer is due."""
        return self._first(now_ms) is not None

    def none_before_ms(self) -> int | None:
        """No timer is due before this; `None` without timers.

        What `next_at_ms` would have to look for is passed over.
        """
        return self._queue[0][0] if self._queue else None

    def _first(self, now_ms: int | None) -> Timer | None:
        """The timer that is due first, or, with a time, the first that is due by then: the one that the queue begins with afterwards."""
        while self._queue and (now_ms is None or self._queue[0][0] <= now_ms):
            _, order, key = self._queue[0]
            timer = self._timers.get(key)
            if timer is None or timer.queued != order:
                heapq.heappop(self._queue)  # it was taken back, or brought forward
            elif timer.order != order:
                timer.queued = timer.order
                heapq.heapreplace(self._queue, (timer.at_ms, timer.order, key))
            else:
                return timer
        return None

    def _fill_queue(self) -> None:
        for timer in self._timers.values():
            timer.queued = timer.order
        self._queue = [(timer.at_ms, timer.order, key) for key, timer in self._timers.items()]
        heapq.heapify(self._queue)

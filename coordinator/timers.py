"""Timers as data: what is to happen when, by key. Nothing here waits; whoever owns the clock asks what is due."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorate.coordinator.results import Result

__all__ = ["RETRY_BACKOFF_MS", "Timer", "Timers"]

RETRY_BACKOFF_MS = 500
"""A timer whose records could not be written fires again after this, unless it was set otherwise."""


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each heartbeat, and that takes half as long
class Timer:
    """At `at_ms`, `operation` is called with the time in ms; what it returns is written and replayed like the result of a request.

    `retry_ms`: if it fails or cannot be written, it is tried again so much later; `None` if not. `order`: how many timers were set before it, and itself.
    """

    key: str
    at_ms: int
    operation: "Callable[[int], Result[None]]"
    retry_ms: int | None
    order: int


class Timers:
    """Timers by key: a key has one at most. Timers that are due at once fire in the order in which they were set."""

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
        operation: "Callable[[int], Result[None]]",
        *,
        retry_ms: int | None = RETRY_BACKOFF_MS,
    ) -> None:
        """Set a timer; one with the same key is replaced."""
        self._order += 1
        self._timers[key] = Timer(key=key, at_ms=at_ms, operation=operation, retry_ms=retry_ms, order=self._order)
        heapq.heappush(self._queue, (at_ms, self._order, key))
        if len(self._queue) > 64 + 4 * len(self._timers):  # heartbeats replace their timers again and again
            self._queue = [(timer.at_ms, timer.order, key) for key, timer in self._timers.items()]
            heapq.heapify(self._queue)

    def schedule_if_absent(self, key: str, at_ms: int, operation: "Callable[[int], Result[None]]") -> None:
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
        self._queue = [(timer.at_ms, timer.order, key) for key, timer in self._timers.items()]
        heapq.heapify(self._queue)

    def pending(self) -> list[Timer]:
        """All timers, in the order in which they will fire."""
        return sorted(self._timers.values(), key=lambda timer: (timer.at_ms, timer.order))

    def next_due(self, now_ms: int) -> Timer | None:
        """Take out the first timer that is due; `None` if none is."""
        while self._queue and self._queue[0][0] <= now_ms:
            _, order, key = heapq.heappop(self._queue)
            timer = self._timers.get(key)
            if timer is not None and timer.order == order:
                self.cancel(key)
                return timer
        return None

    def next_at_ms(self) -> int | None:
        """When the next timer is due; `None` without timers."""
        while self._queue:
            at_ms, order, key = self._queue[0]
            timer = self._timers.get(key)
            if timer is not None and timer.order == order:
                return at_ms
            heapq.heappop(self._queue)
        return None

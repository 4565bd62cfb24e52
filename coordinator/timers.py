"""Timers by key, as data. Nothing here waits: the owner of the clock polls for due timers."""

import heapq
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quorate.codecs.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from quorate.coordinator.results import Result

RETRY_BACKOFF_MS = 500
"""Delay before a timer whose records could not be written fires again, unless set otherwise."""


@dataclass(slots=True, kw_only=True)  # not frozen: each heartbeat reschedules one
class Timer:
    """Calls `operation` with the time in ms at `at_ms`.

    The result is written and replayed like that of a request.
    `retry_ms`: delay before it is tried again after a failure; `None` for no retry. `order`: how
    many timers were set up to and including this one. `queued`: `order` of its entry in the queue,
    whose time may be earlier; 0 after it was cancelled, replaced or fired.
    """

    key: str
    at_ms: int
    operation: "Callable[[int], Result[Any]]"
    retry_ms: int | None
    order: int
    queued: int


class Timers:
    """Timers, at most one per key.

    Timers that are due at the same time fire in the order in which they were set.
    A timer that is postponed, as by each heartbeat, keeps its queue entry. The entry is moved when
    it reaches the head of the queue.

    `none_before_ms`: a time before which no timer is due, infinite without timers. `next_at_ms`
    returns the exact time.
    """

    def __init__(self) -> None:
        self._timers: dict[str, Timer] = {}
        self._queue: list[tuple[int, int, str]] = []
        self._order = 0
        self.none_before_ms: float = math.inf  # read for each request: the first time in the queue

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
    ) -> Timer:
        """Set a timer, replacing one with the same key, and return it."""
        self._order = order = self._order + 1
        timer = self._timers.get(key)
        if timer is not None and at_ms >= timer.at_ms:
            timer.at_ms, timer.operation, timer.retry_ms, timer.order = at_ms, operation, retry_ms, order
            return timer
        self.cancel(key)
        self._timers[key] = timer = Timer(
            key=key, at_ms=at_ms, operation=operation, retry_ms=retry_ms, order=order, queued=order
        )
        heapq.heappush(self._queue, (at_ms, order, key))
        if len(self._queue) > 64 + 4 * len(self._timers):  # entries of timers that were cancelled or replaced
            self._fill_queue()
        self._queue_changed()
        return timer

    def postpone(self, key: str, at_ms: int) -> bool:
        """Let a timer fire later, with the operation that it has.

        Returns `False`, with nothing done, if it does not exist or fires later than `at_ms`.
        """
        timer = self._timers.get(key)
        return timer is not None and self.postpone_timer(timer, at_ms)

    def postpone_timer(self, timer: Timer, at_ms: int) -> bool:
        """Do the same for a timer that `schedule` returned, without a look-up."""
        if at_ms < timer.at_ms or not timer.queued:
            return False
        self._order = timer.order = self._order + 1
        timer.at_ms = at_ms
        return True

    def schedule_if_absent(
        self,
        key: str,
        at_ms: int,
        operation: "Callable[[int], Result[Any]]",
        *,
        retry_ms: int | None = RETRY_BACKOFF_MS,
    ) -> None:
        """Set a timer unless one with this key exists."""
        if key not in self._timers:
            self.schedule(key, at_ms, operation, retry_ms=retry_ms)

    def cancel(self, key: str) -> None:
        """Cancel a timer, if it exists."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.queued = 0

    def step(self, by_ms: int) -> None:
        """Shift all timers after the clock was set; they fire in the same order."""
        for timer in self._timers.values():
            timer.at_ms += by_ms
        self._fill_queue()
        self._queue_changed()

    def pending(self) -> list[Timer]:
        """Return all timers, in the order in which they will fire."""
        return sorted(self._timers.values(), key=lambda timer: (timer.at_ms, timer.order))

    def next_due(self, now_ms: int) -> Timer | None:
        """Remove and return the first timer that is due; `None` if none is."""
        if self.none_before_ms > now_ms:  # the usual case
            return None
        timer = self._first(now_ms)
        if timer is not None:
            heapq.heappop(self._queue)
            self._queue_changed()
            self.cancel(timer.key)
        return timer

    def next_at_ms(self) -> int | None:
        """Return when the next timer is due; `None` without timers."""
        timer = self._first(None)
        return None if timer is None else timer.at_ms

    def is_due(self, now_ms: int) -> bool:
        """Return whether a timer is due."""
        return self._first(now_ms) is not None

    def _first(self, now_ms: int | None) -> Timer | None:
        """Move the first timer's entry to the head of the queue; return the timer.

        With `now_ms`, only a timer that is due by then.
        """
        while self._queue and (now_ms is None or self._queue[0][0] <= now_ms):
            _, order, key = self._queue[0]
            timer = self._timers.get(key)
            if timer is None or timer.queued != order:
                heapq.heappop(self._queue)  # cancelled, or moved to an earlier time
            elif timer.order != order:
                timer.queued = timer.order
                heapq.heapreplace(self._queue, (timer.at_ms, timer.order, key))
            else:
                return timer
            self._queue_changed()
        return None

    def _queue_changed(self) -> None:
        self.none_before_ms = self._queue[0][0] if self._queue else math.inf

    def _fill_queue(self) -> None:
        for timer in self._timers.values():
            timer.queued = timer.order
        self._queue = [(timer.at_ms, timer.order, key) for key, timer in self._timers.items()]
        heapq.heapify(self._queue)

"""Clocks: the time in ms, and what is to be done at a time. A cluster runs on the real one, or on one that a test moves."""

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol

__all__ = ["Clock", "Handle", "ManualClock", "RealClock"]


class Handle(Protocol):
    """Something that is to be done."""

    def cancel(self) -> None:
        """It is not to be done any more."""


class Clock(Protocol):
    """What a cluster asks for the time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` at a time, or as soon as possible after it."""


class RealClock:
    """The machine's clock, in the loop that runs when it is asked to call something."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` at a time, from the running loop."""
        loop = asyncio.get_running_loop()
        return loop.call_later(max(0.0, (at_ms - self.now_ms()) / 1000), action)


class _Planned:
    """An entry of a `ManualClock`."""

    __slots__ = ("action", "cancelled")

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        """It is not to be done any more."""
        self.cancelled = True


class ManualClock:
    """A clock that stands still until `advance` moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._order = count()
        self._planned: list[tuple[int, int, _Planned]] = []

    def now_ms(self) -> int:
        """Milliseconds since 1970, as far as this clock knows."""
        return self._now_ms

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` when the clock is moved to that time or past it."""
        planned = _Planned(action)
        heapq.heappush(self._planned, (at_ms, next(self._order), planned))
        return planned

    def advance(self, by_ms: int) -> None:
        """Move the clock, doing on the way what is due, each at its time. To be called in the thread of the cluster's loop."""
        until_ms = self._now_ms + by_ms
        while self._planned and self._planned[0][0] <= until_ms:
            at_ms, _, planned = heapq.heappop(self._planned)
            self._now_ms = max(self._now_ms, at_ms)
            if not planned.cancelled:
                planned.action()
        self._now_ms = until_ms

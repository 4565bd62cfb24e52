"""Clocks: the time in ms, and what is to be done at a time.

A cluster runs on the real one, or on one that a test moves.

Records carry the time of day, which may be set while a cluster runs (by NTP, by hand, after a
laptop slept); how long something takes does not change by that. Kafka has two clocks for it
(`Time.milliseconds`, `Time.hiResClockMs`). Here it is one, which says how far it was set: whoever
keeps times at which something is due moves them along.
"""

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
    """What a cluster asks for the time.

    `stepped_ms`: how far the time of day was set since the cluster began, forward or back; as of
    the last `now_ms`.
    """

    stepped_ms: int

    def now_ms(self) -> int:
        """Milliseconds since 1970."""

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` at a time, or as soon as possible after it."""


_STEP_NS = 500_000_000
"""What differs less from the time that passed is NTP at work, which nobody's timer notices, or this
process not having its turn between looking at two clocks.
"""


class RealClock:
    """The machine's clock, in the loop that runs when it is asked to call something.

    `wall_ns`, `passed_ns`: the time of day, and one that nobody can set.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, passed_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.stepped_ms = 0
        self._wall_ns = wall_ns
        self._passed_ns = passed_ns
        self._apart_ns = wall_ns() - passed_ns()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        wall_ns = self._wall_ns()
        apart_ns = wall_ns - self._passed_ns()
        moved_ns = apart_ns - self._apart_ns
        self._apart_ns = apart_ns
        if not -_STEP_NS < moved_ns < _STEP_NS:
            self.stepped_ms += moved_ns // 1_000_000
        return wall_ns // 1_000_000

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` at a time, from the running loop: after what is left until then, even if the clock is set meanwhile."""
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
    """A clock that stands still until `advance` moves it, or `step` sets it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.stepped_ms = 0
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
        """Move the clock, doing on the way what is due, each at its time.

        To be called in the thread of the cluster's loop.
        """
        until_ms = self._now_ms + by_ms
        while self._planned and self._planned[0][0] <= until_ms:
            at_ms, _, planned = heapq.heappop(self._planned)
            self._now_ms = max(self._now_ms, at_ms)
            if not planned.cancelled:
                planned.action()
        self._now_ms = until_ms

    def step(self, by_ms: int) -> None:
        """Set the clock, as NTP does: no time passes, nothing becomes due by it."""
        self._now_ms += by_ms
        self.stepped_ms += by_ms
        self._planned = [(at_ms + by_ms, order, planned) for at_ms, order, planned in self._planned]

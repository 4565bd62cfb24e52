"""Clocks: the time in ms, and calls at a given time.

A cluster runs on the real clock, or on one that a test advances.

Records carry wall-clock time, which may be set while a cluster runs (by NTP, manually, after a
laptop slept). Durations must not change by that. Kafka has two clocks (`Time.milliseconds`,
`Time.hiResClockMs`). Here there is one, which reports how far it was set, so that owners of
deadlines can move them.
"""

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol


class Handle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


class Clock(Protocol):
    """The clock of a cluster.

    `stepped_ms`: how far the wall clock was set since the cluster started, forward or back, as of
    the last `now_ms`.
    """

    stepped_ms: int

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` at a time, or as soon as possible after it."""


_STEP_NS = 500_000_000
"""Smaller differences between the two clocks are NTP's adjustments, or a process that was not
scheduled between the two readings.
"""


class RealClock:
    """The machine's clock. Calls run in the loop that is running when they are scheduled.

    `wall_ns`: the wall clock. `passed_ns`: the monotonic clock.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, passed_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.stepped_ms = 0
        self._wall_ns = wall_ns
        self._passed_ns = passed_ns
        self._apart_ns = wall_ns() - passed_ns()

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        wall_ns = self._wall_ns()
        apart_ns = wall_ns - self._passed_ns()
        moved_ns = apart_ns - self._apart_ns
        self._apart_ns = apart_ns
        if abs(moved_ns) >= _STEP_NS:
            self.stepped_ms += moved_ns // 1_000_000
        return wall_ns // 1_000_000

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` at a time from the running loop; clock steps do not affect the delay."""
        loop = asyncio.get_running_loop()
        return loop.call_later(max(0.0, (at_ms - self.now_ms()) / 1000), action)


class _Planned:
    """A scheduled call of a `ManualClock`."""

    __slots__ = ("action", "cancelled")

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the call."""
        self.cancelled = True


class ManualClock:
    """A clock that moves only by `advance` and `step`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.stepped_ms = 0
        self._now_ms = now_ms
        self._order = count()
        self._planned: list[tuple[int, int, _Planned]] = []

    def now_ms(self) -> int:
        """Return milliseconds since 1970 on this clock."""
        return self._now_ms

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` when the clock reaches a time."""
        planned = _Planned(action)
        heapq.heappush(self._planned, (at_ms, next(self._order), planned))
        return planned

    def advance(self, by_ms: int) -> None:
        """Advance the clock, and run the calls that become due, each at its time.

        Must be called in the thread of the cluster's loop.
        """
        until_ms = self._now_ms + by_ms
        while self._planned and self._planned[0][0] <= until_ms:
            at_ms, _, planned = heapq.heappop(self._planned)
            self._now_ms = max(self._now_ms, at_ms)
            if not planned.cancelled:
                planned.action()
        self._now_ms = until_ms

    def step(self, by_ms: int) -> None:
        """Set the clock, as NTP does: no time passes, and no call becomes due."""
        self._now_ms += by_ms
        self.stepped_ms += by_ms
        self._planned = [(at_ms + by_ms, order, planned) for at_ms, order, planned in self._planned]

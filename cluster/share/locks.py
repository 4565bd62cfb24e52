"""`AcquisitionLock`: for how long a member may keep records that it acquired."""

from collections.abc import Callable

from quorate.cluster.clock import Clock, Handle


class AcquisitionLock:
    """An acquisition lock. It calls `on_expired` after `delay_ms`, unless it is cancelled before.

    `has_expired`: whether it timed out.
    """

    __slots__ = ("_clock", "_expires_ms", "_handle", "_on_expired", "has_expired")

    def __init__(self, clock: Clock, delay_ms: int, on_expired: Callable[[], object]) -> None:
        self.has_expired = False
        self._clock = clock
        self._on_expired = on_expired
        self._expires_ms = self._elapsed_ms() + delay_ms
        self._handle: Handle | None = clock.call_at(clock.now_ms() + delay_ms, self._expire)

    @property
    def left_ms(self) -> int:
        """The time until it expires, also if the wall clock was set meanwhile."""
        return self._expires_ms - self._elapsed_ms()

    def cancel(self) -> None:
        """End the lock before it expires."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _elapsed_ms(self) -> int:
        now_ms = self._clock.now_ms()
        return now_ms - self._clock.stepped_ms

    def _expire(self) -> None:
        self.has_expired = True
        if self._handle is not None:
            self._handle = None
            self._on_expired()

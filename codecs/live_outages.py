"""What a reader of a running cluster does while leaders of partitions cannot be reached."""

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafka import KafkaConsumer


def forget_requests(consumer: "KafkaConsumer", brokers: Collection[object]) -> bool:
    """Drop the pending fetch requests that kafka-python (3.0.12) noted for brokers and never sent.

    It would wait for their responses forever. Returns whether this version keeps such notes.
    """
    noted = getattr(getattr(consumer, "_fetcher", None), "_nodes_with_pending_fetch_requests", None)
    if not isinstance(noted, set):
        return False
    noted.difference_update(brokers)
    return True


_GRACE_MS: Final = 1_000
"""Moving leaders and reconnecting takes less than this, and is not reported."""


class OutageNotices:
    """Notify once when leaders become unreachable, and once when all are reachable again."""

    def __init__(self, where: str, partitions: int, notify: Callable[[str], None]) -> None:
        self._where = where
        self._partitions = partitions
        self._notify = notify
        self._since: float | None = None
        self._notified = False

    def update(self, unreachable: int) -> None:
        """Record how many partitions have no reachable leader now."""
        now = time.monotonic()
        if not unreachable:
            if self._notified and self._since is not None:
                self._notify(f"{self._where}: connected again after {now - self._since:,.0f} s")
            self._since, self._notified = None, False
        elif self._since is None:
            self._since = now
        elif not self._notified and (now - self._since) * 1000 >= _GRACE_MS:
            self._notified = True
            lost = f"connection lost to the leaders of {unreachable} of {self._partitions} partitions"
            self._notify(f"{self._where}: {lost}; reading continues when they are back")

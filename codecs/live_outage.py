"""When to say that a running cluster is out of reach, and that it is back: once each. Knows neither sockets nor clients."""

import time
from collections.abc import Callable

__all__ = ["OutageNotices"]

GRACE_MS = 1_000
"""Leaders move and connections are made anew in less, and nobody has to know."""


class OutageNotices:
    """Told again and again how many partitions have no leader in reach, gives one notice for an outage and one for its end."""

    def __init__(self, where: str, partitions: int, notify: Callable[[str], None]) -> None:
        self._where = where
        self._partitions = partitions
        self._notify = notify
        self._since: float | None = None
        self._told = False

    def look(self, unreachable: int) -> None:
        """Take notice of how it is now."""
        now = time.monotonic()
        if not unreachable:
            if self._told and self._since is not None:
                self._notify(f"{self._where}: connected again after {now - self._since:,.0f} s")
            self._since, self._told = None, False
        elif self._since is None:
            self._since = now
        elif not self._told and (now - self._since) * 1000 >= GRACE_MS:
            self._told = True
            lost = f"connection lost to the leaders of {unreachable} of {self._partitions} partitions"
            self._notify(f"{self._where}: {lost}; reading goes on when they are back")

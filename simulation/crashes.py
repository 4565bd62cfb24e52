"""Crashes of the process that runs a simulated cluster, within a write to its data directory.

A crash leaves a part of the write in its file. No response that the process has not sent before is
sent, none of its timers fires, and nothing else is written. Later the cluster starts again, on the
same ports, from what is in the directory.
"""

import errno
from collections.abc import Callable
from typing import Any

from quorate.cluster.clock import Handle, RealClock
from quorate.cluster.core import ClusterCore
from quorate.cluster.embedded import EmbeddedCluster


class ProcessClock(RealClock):
    """The clock of one process: after `end`, its calls do nothing."""

    ended = False

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` at a time, unless the process has ended."""
        return super().call_at(at_ms, lambda: None if self.ended else action())

    def end(self) -> None:
        """Let no further call happen."""
        self.ended = True


class CrashingProcess:
    """The process of a cluster. `again` makes a cluster from the same data directory.

    `on_crash`: called when it has crashed. `failures`: tracebacks of internal errors in processes
    that have crashed; those of the crash itself are left out.
    """

    def __init__(self, cluster: EmbeddedCluster, again: Callable[[list[int]], EmbeddedCluster]) -> None:
        self.on_crash: Callable[[], object] = lambda: None
        self.failures: list[str] = []
        self.running = True
        self._cluster = cluster
        self._again = again
        self._writes = 0
        self._part = 0.0

    def crash_within(self, writes: int, part: float) -> bool:
        """Crash within that write from now, after a part of its bytes. Returns whether it will."""
        if not self.running or self._writes:
            return False
        self._writes, self._part = writes, part
        return True

    def spare(self) -> None:
        """Do not crash after all."""
        self._writes = 0

    def write(self, real: Callable[..., int], descriptor: int, data: bytes, offset: int) -> int:
        """Write to a file. Raises `OSError` from the crash on."""
        if self.running and self._writes:
            self._writes -= 1
            if not self._writes:
                real(descriptor, data[: int(len(data) * self._part)], offset)
                self._crash()
        if not self.running:
            raise OSError(errno.EIO, "the process has crashed")
        return real(descriptor, data, offset)

    def _crash(self) -> None:
        self.running = False
        core = self._cluster.core
        self.failures += core.failures
        clock: Any = core.clock
        clock.end()
        for broker in core.brokers.values():
            broker.stop()
        # What the handler of this write still does has no effect.
        core.maintenance.stop()
        core.turns.abandon()
        assert core.data is not None
        core.data.release()
        self.on_crash()

    async def start(self) -> ClusterCore:
        """Start the cluster again."""
        ports = [broker.listen_port for broker in self._cluster.core.brokers.values()]
        self.running = True
        cluster = self._again(ports)
        await cluster.start()
        self._cluster.core = cluster.core
        return cluster.core

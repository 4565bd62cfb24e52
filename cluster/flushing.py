"""`Flusher`: `fsync` in a thread of its own, so that a slow disk holds up those who wait for it, and nobody else.

What an acknowledgement means stays the same: whoever wrote is answered when it is on the disk, and consumers see it then. Flushes go in rounds: what comes while the
disk is at it is brought there with the next round, all of it at once, so that a hundred producers do not wait for a hundred flushes.

Ends of transactions are flushed in the loop (`PartitionLog.append_marker`, `__transaction_state`): a marker must not be on the disk before the decision is.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorate.coordinator.log_segments import sync_folder
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.log import PartitionLog

__all__ = ["Flusher", "Unflushed"]


@dataclass(slots=True)
class Unflushed:
    """What is to be brought to the disk of a log that ends at `until`: open files, which whoever has this closes, and folders with new files."""

    until: int
    files: list[int] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def flush(self) -> OSError | None:
        """Bring it there, which takes its time, and close the files; what went wrong, if something did."""
        try:
            for file in self.files:
                os.fsync(file)
            for folder in self.folders:
                with suppress(FileNotFoundError):  # the topic was deleted meanwhile
                    sync_folder(folder)
        except OSError as error:
            return error
        finally:
            for file in self.files:
                os.close(file)
        return None


@dataclass(slots=True)
class _Waiting:
    """An answer that is sent when a round is over."""

    round: int
    complete: Callable[[], object]
    fail: Callable[[], object]
    failed: bool = False


class Flusher:
    """The flushes of a cluster. To be used in its loop; without one, `ask` declines, and whoever asked does it at once."""

    def __init__(self) -> None:
        self._due: dict[int, PartitionLog] = {}
        self._rounds = 0  # that are over
        self._running = False
        self._is_under_way = False
        self._waiting: list[_Waiting] = []
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether something is on its way to the disk."""
        return self._running

    def ask(self, log: "PartitionLog") -> bool:
        """Have a log flushed soon; whether that will be done."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._closed:
            return False
        self._due[id(log)] = log
        if not self._running:
            self._running = True
            loop.call_soon(self._begin, loop)  # with what else is written in this turn
        return True

    def is_due(self, log: "PartitionLog") -> bool:
        """Whether a log is to be flushed by the next round."""
        return id(log) in self._due

    def held(self, answer: Any, failed: Callable[[], Any]) -> Any:
        """An answer, or, where something is on its way to the disk when it is there, one that comes when that has arrived; `failed()` if it did not arrive."""
        if isinstance(answer, Pending) and not answer.done:
            later: Pending[Any] = Pending()
            answer.on_complete(lambda found: self._hold(later, found, failed))
            return later
        if not self._running:
            return answer
        later = Pending()
        self._hold(later, answer.response if isinstance(answer, Pending) else answer, failed)
        return later

    def _hold(self, later: Pending[Any], found: Any, failed: Callable[[], Any]) -> None:
        if not self._running:
            later.complete(found)
            return
        # What is due goes with the next round, if one is under way; else with the one that begins now.
        rounds = self._rounds + (2 if self._due and self._is_under_way else 1)
        self._waiting.append(_Waiting(rounds, lambda: later.complete(found), lambda: later.complete(failed())))

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._closed:
            return
        logs, self._due = list(self._due.values()), {}
        self._is_under_way = True
        work: list[tuple[PartitionLog, Unflushed | OSError]] = []
        for log in logs:
            try:
                work.append((log, log.unflushed()))
            except OSError as error:
                work.append((log, error))
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "quorate-flush")

        def flush() -> list[OSError | None]:
            return [one if isinstance(one, OSError) else one.flush() for _, one in work]

        def finish(done: "asyncio.Future[list[OSError | None]]") -> None:
            self._end(loop, work, done.result())

        loop.run_in_executor(self._pool, flush).add_done_callback(finish)

    def _end(
        self,
        loop: asyncio.AbstractEventLoop,
        work: "list[tuple[PartitionLog, Unflushed | OSError]]",
        errors: list[OSError | None],
    ) -> None:
        self._rounds += 1
        self._running = self._is_under_way = False
        for (log, taken), error in zip(work, errors, strict=True):
            if error is not None:
                log.flush_failed(error)
            elif isinstance(taken, Unflushed):
                log.flushed(taken.until, more=self.is_due(log))
        if self._due:
            self._running = True
            self._begin(loop)
        failed = any(errors)
        over = [one for one in self._waiting if one.round <= self._rounds]
        self._waiting = [one for one in self._waiting if one.round > self._rounds]
        for one in self._waiting:
            one.failed |= failed
        for one in over:
            (one.fail if one.failed or failed else one.complete)()

    def close(self) -> None:
        """Wait for the disk, and take nothing more; what is not there yet is flushed by whoever closes the logs."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown(wait=True)

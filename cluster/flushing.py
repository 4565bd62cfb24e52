"""`Flusher`: `fsync` in a thread of its own, so that a slow disk holds up those who wait for it, and nobody else.

What an acknowledgement means stays the same: whoever wrote is answered when it is on the disk, and consumers see it then. Flushes go in rounds: what comes while the
disk is at it is brought there with the next round, all of it at once, so that a hundred producers do not wait for a hundred flushes.

Where one thing must not be on the disk before another is, it is written when that has arrived (`Flusher.after`): the markers of a transaction after the decision that it ends.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from quorate.cluster.storage.atomic import write_atomically
from quorate.coordinator.log_segments import sync_folder
from quorate.coordinator.results import Pending

T = TypeVar("T")

__all__ = ["Flushable", "Flusher", "Unflushed"]


@dataclass(slots=True)
class Unflushed:
    """What is to be brought to the disk of a log that ends at `until`: open files, which whoever has this closes, folders with new files, and files to be replaced.

    `done`: it was tried; `error`: and failed.
    """

    until: int = 0
    files: list[int] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    replaced: dict[Path, bytes] = field(default_factory=dict)
    done: bool = False
    error: OSError | None = None

    def flush(self) -> OSError | None:
        """Bring it there, which takes its time, and close the files; what went wrong, if something did."""
        try:
            for file in self.files:
                os.fsync(file)
            for path, data in self.replaced.items():
                write_atomically(path, data, durable=True)
            for folder in self.folders:
                with suppress(FileNotFoundError):  # the topic was deleted meanwhile
                    sync_folder(folder)
        except OSError as error:
            self.error = error
        self.let_go()
        self.done = True
        return self.error

    def let_go(self) -> None:
        """Close the files; what `fsync` has brought to the disk is there even if that fails, as it may on NFS, and nobody is to wait for ever for it."""
        for file in self.files:
            with suppress(OSError):
                os.close(file)
        self.files.clear()


class Flushable(Protocol):
    """What the flusher brings to the disk, as `PartitionLog` is."""

    def unflushed(self) -> Unflushed:
        """What is not there. Raises `OSError`."""

    def flushed(self, until: int, *, more: bool) -> None:
        """It is there, and `more` will be."""

    def flush_failed(self, error: OSError) -> None:
        """It is not."""


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
        self._due: dict[int, Flushable] = {}
        self.failures = 0  # rounds that failed
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

    def ask(self, log: Flushable) -> bool:
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

    def is_due(self, log: Flushable) -> bool:
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

    def after(self, action: Callable[[bool], object]) -> None:
        """Do something once what is on its way to the disk has arrived, at once if nothing is; `action(False)` if it did not arrive."""
        if self._running:
            self._wait(lambda: action(True), lambda: action(False))
        else:
            action(True)

    def bring(self, work: Unflushed, then: Callable[[], object]) -> bool:
        """Bring something to the disk besides what is due, then go on; whether that will be done."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._closed:
            return False
        self._in_thread(loop, work.flush, lambda _: None if self._closed else then())
        return True

    def _hold(self, later: Pending[Any], found: Any, failed: Callable[[], Any]) -> None:
        if not self._running:
            later.complete(found)
            return
        self._wait(lambda: later.complete(found), lambda: later.complete(failed()))

    def _wait(self, complete: Callable[[], object], fail: Callable[[], object]) -> None:
        # What is due goes with the next round, if one is under way; else with the one that begins now.
        rounds = self._rounds + (2 if self._due and self._is_under_way else 1)
        self._waiting.append(_Waiting(rounds, complete, fail))

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._closed:
            return
        logs, self._due = list(self._due.values()), {}
        self._is_under_way = True
        work: list[tuple[Flushable, Unflushed | OSError]] = []
        for log in logs:
            try:
                work.append((log, log.unflushed()))
            except OSError as error:
                work.append((log, error))

        def flush() -> list[OSError | None]:
            return [one if isinstance(one, OSError) else one.flush() for _, one in work]

        self._in_thread(loop, flush, lambda errors: self._end(loop, work, errors))

    def _in_thread(self, loop: asyncio.AbstractEventLoop, flush: Callable[[], T], then: Callable[[T], object]) -> None:
        """One after the other: what was asked for first is on the disk first."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "quorate-flush")

        def finish(done: asyncio.Future[T]) -> None:
            then(done.result())

        loop.run_in_executor(self._pool, flush).add_done_callback(finish)

    def _end(
        self,
        loop: asyncio.AbstractEventLoop,
        work: list[tuple[Flushable, Unflushed | OSError]],
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
        self.failures += failed
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

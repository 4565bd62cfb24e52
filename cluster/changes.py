"""`Changes`: changes of a cluster's metadata, one at a time, as in KRaft's controller queue.

A change may take several turns (`quorate.cluster.turns`). Connections are served between its steps,
and no other change begins before it ends. A change that must run at once, such as a call in the
process, first completes those in progress.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from quorate.cluster.turns import Work
from quorate.codecs.lazy_dataclass import dataclass

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Change:
    work: Work[Any]
    done: bool = False
    result: Any = None
    error: Exception | None = None


class Changes:
    """The queue of changes. Their work must not yield a `ThreadCall`."""

    def __init__(self) -> None:
        self._queue: deque[_Change] = deque()
        self._in_step = False

    @property
    def pending(self) -> int:
        """The number of changes that have not ended."""
        return len(self._queue)

    def run(self, work: Work[T]) -> Work[T]:
        """Run a change after all earlier ones; return its result, or raise its error.

        A waiting change runs the next step of the first one in the queue, so no change depends on
        whether its client is still connected.
        """
        change = _Change(work)
        self._queue.append(change)
        while not change.done:
            # A step may send a response, and the client's next request may arrive within that step.
            if not self._in_step:
                self._step()
            if not change.done:
                yield None
        if change.error is not None:
            raise change.error
        result: T = change.result
        return result

    def finish(self) -> None:
        """Complete all pending changes. Does nothing within a change."""
        while self._queue and not self._in_step:
            self._step()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Run the context as one step after all pending changes; within a change, as part of it."""
        self.finish()
        with self.between():
            yield

    @contextmanager
    def between(self) -> Iterator[None]:
        """Run the context as one step between two steps of a change that allows this."""
        was, self._in_step = self._in_step, True
        try:
            yield
        finally:
            self._in_step = was

    def _step(self) -> None:
        change = self._queue[0]
        self._in_step = True
        try:
            yielded = next(change.work)
            assert yielded is None, "a change cannot use the thread"
        except StopIteration as end:
            change.result = end.value
        except Exception as error:  # noqa: BLE001  # `run` raises it where the change was requested
            change.error = error
        else:
            return
        finally:
            self._in_step = False
        change.done = True
        self._queue.popleft()

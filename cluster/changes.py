"""`Changes`: changes of a cluster's metadata, one at a time, as in the queue of KRaft's controller.

A change may take many turns (`quorate.cluster.turns`): connections are served between its parts,
and no other change begins before it has ended. A change that is made at once, such as by a call in
the process, completes those in progress first.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from quorate.cluster.turns import Work

__all__ = ["Changes"]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Change:
    work: Work[Any]
    done: bool = False
    result: Any = None
    error: Exception | None = None


class Changes:
    """The queue of changes. Their work needs no thread: it never yields an `Aside`."""

    def __init__(self) -> None:
        self._queue: deque[_Change] = deque()
        self._in_step = False

    @property
    def pending(self) -> int:
        """How many changes have not ended."""
        return len(self._queue)

    def run(self, work: Work[T]) -> Work[T]:
        """Do the work of a change after all others before it; returns its result, or raises its error.

        A change that waits does the next part of the one that it waits for: no change depends on
        whether its client is still connected.
        """
        change = _Change(work)
        self._queue.append(change)
        while not change.done:
            # A step may send a response; the client's next request then comes in the middle of it.
            if not self._in_step:
                self._step()
            if not change.done:
                yield None
        if change.error is not None:
            raise change.error
        result: T = change.result
        return result

    def finish(self) -> None:
        """End all changes that have begun. Within a change it does nothing."""
        while self._queue and not self._in_step:
            self._step()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Make this context one step after all changes in progress; within a change, a part of it."""
        self.finish()
        with self.between():
            yield

    @contextmanager
    def between(self) -> Iterator[None]:
        """Make this context one step between two parts of a change, which has to expect it."""
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
            assert yielded is None, "the work of a change needs no thread"
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

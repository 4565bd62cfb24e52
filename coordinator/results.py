"""What a handler returns: records to write, and a response that is complete or pending."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quorate.codecs import CoordinatorRecord
from quorate.codecs.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from quorate.codecs.api.broker.create_topics import CreatableTopic

__all__ = ["Pending", "RequestContext", "Result", "Task"]

R = TypeVar("R")
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)  # not frozen: created per request, in half the time
class RequestContext:
    """Metadata of a request.

    `client_host`: in the format of records, such as "/1.2.3.4". `principal`: for authorizers.
    `prepared`: what was computed from a large request in advance, such as a `PreparedCommit`.
    `internal_topics`: by name, set by the handler of StreamsGroupHeartbeat for its broker.
    """

    api_version: int
    now_ms: int
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    principal: str = "User:ANONYMOUS"
    prepared: object = None
    internal_topics: "Mapping[str, CreatableTopic] | None" = None


class Pending(Generic[R]):
    """A pending response, such as that of a JoinGroup that waits for other members.

    It completes once, and calls each listener once.
    """

    __slots__ = ("_listeners", "response")

    def __init__(self) -> None:
        self.response: R | None = None
        self._listeners: tuple[Callable[[R], None], ...] = ()

    @property
    def done(self) -> bool:
        """Whether the response is complete."""
        return self.response is not None

    def complete(self, response: R) -> None:
        """Complete the response. Later calls are ignored, as the first response was sent."""
        if self.response is not None:
            return
        self.response = response
        listeners, self._listeners = self._listeners, ()
        for listener in listeners:
            listener(response)

    def on_complete(self, listener: Callable[[R], None]) -> None:
        """Call `listener` with the response, now or when it completes."""
        if self.response is not None:
            listener(self.response)
        else:
            self._listeners += (listener,)


@dataclass(slots=True, kw_only=True)
class Result(Generic[R]):
    """The records and response of a handler or timer.

    `records` are written in this order: in one batch if `atomic`, otherwise in as many as the log
    needs. They are replayed unless `replay` is False because the state was changed already.

    `response`: sent when the records are written; `None` for timers. `then`: called with the time
    in ms when the records are written; returns the next result. The last result of the chain has
    the response. `on_appended`: called after the replay. `on_failed`: called with the error code if
    the records could not be written; may complete another response. `producer_id`,
    `producer_epoch`: of the transaction of the records, -1 outside transactions.
    """

    response: R | Pending[R] | None = None
    records: Sequence[CoordinatorRecord] = ()
    replay: bool = True
    atomic: bool = True
    producer_id: int = -1
    producer_epoch: int = -1
    on_appended: Callable[[], None] | None = None
    on_failed: Callable[[int], None] | None = None
    then: "Callable[[int], Result[R]] | None" = None

    def with_response(self, response: T | Pending[T] | None) -> "Result[T]":
        """Return the same result with another response."""
        same: Result[Any] = self
        return replace(same, response=response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Asynchronous work of a shard, such as resolving a group's regexes.

    `operation`: called with the time in ms. `work`: runs before it, in steps of some milliseconds.
    `concurrent`: it may run while other such tasks run; other tasks run one after another.
    """

    name: str
    operation: Callable[[int], Result[Any]]
    work: Callable[[], Generator[None, None, None]] | None = None
    concurrent: bool = False

"""What a handler gives back: records to write, and a response, now or later."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from quorate.codecs import CoordinatorRecord

__all__ = ["Pending", "RequestContext", "Result", "Task"]

R = TypeVar("R")
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each request, and that takes half as long
class RequestContext:
    """What a request comes with, beside its body.

    `client_host`: as records have it, such as "/1.2.3.4"; `principal`: who asks, for those who
    authorize.
    """

    api_version: int
    now_ms: int
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    principal: str = "User:ANONYMOUS"


class Pending(Generic[R]):
    """A response that is yet to come, such as that of a JoinGroup that waits for other members.

    Completed once; whoever listens hears it once.
    """

    __slots__ = ("_listeners", "response")

    def __init__(self) -> None:
        self.response: R | None = None
        self._listeners: list[Callable[[R], None]] = []

    @property
    def done(self) -> bool:
        """Whether the response is there."""
        return self.response is not None

    def complete(self, response: R) -> None:
        """Give the response. A second one is ignored, as the first was sent."""
        if self.response is not None:
            return
        self.response = response
        for listener in self._listeners:
            listener(response)
        self._listeners.clear()

    def on_complete(self, listener: Callable[[R], None]) -> None:
        """Call `listener` with the response: when it comes, or at once."""
        if self.response is not None:
            listener(self.response)
        else:
            self._listeners.append(listener)


@dataclass(slots=True, kw_only=True)
class Result(Generic[R]):
    """What a handler or timer writes and responds.

    `records` are written in this order: in one batch if `atomic`, otherwise in as many as the log
    needs. They are then replayed, unless `replay` is False because the state was changed already.

    `response`: of the request, to be sent when the records are written; `None` for timers. `then`:
    gives what follows when they are written: another batch, and the response, or what follows that;
    it gets the time in ms. `on_appended` is called after the replay; `on_failed` with the error
    code if the records could not be written, and may give another response. `producer_id`,
    `producer_epoch`: of the transaction that they are part of.
    """

    response: R | Pending[R] | None = None
    records: Sequence[CoordinatorRecord] = field(default_factory=list)
    replay: bool = True
    atomic: bool = True
    producer_id: int = -1
    producer_epoch: int = -1
    on_appended: Callable[[], None] | None = None
    on_failed: Callable[[int], None] | None = None
    then: "Callable[[int], Result[R]] | None" = None

    def with_response(self, response: T | Pending[T] | None) -> "Result[T]":
        """The same with a response."""
        same: Result[Any] = self
        return replace(same, response=response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Work that a shard leaves for later, such as matching a group's regexes against all topics.

    `operation`: takes the time in ms. `work`: what it needs first and may take long, in parts of
    some milliseconds each.
    """

    name: str
    operation: Callable[[int], Result[Any]]
    work: Callable[[], Generator[None, None, None]] | None = None

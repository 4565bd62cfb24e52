"""`Call`: a request that a rule decides about, and what is left of it without the parts that its client may not ask for."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from quorate.cluster.access import Access
from quorate.cluster.apis import Handler
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.cluster.broker import Broker
from quorate.cluster.context import Context
from quorate.cluster.error_responses import failed_response
from quorate.cluster.turns import Aside, Work, split
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending

__all__ = ["Answered", "Call"]

T = TypeVar("T")
Answered = Message | Pending[Any] | Work[Any] | None
"""What a handler returns (`quorate.cluster.apis`)."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that a rule decides about. `handler`: that of its API."""

    handler: Handler
    broker: Broker
    request: Any
    context: Context
    access: Access

    def answer(self, **changes: Any) -> Answered:
        """Have the request handled, with other values in some fields."""
        request = replace(self.request, **changes) if changes else self.request
        return self.handler(self.broker, request, self.context)

    def failed(self, code: ErrorCode, **changes: Any) -> Work[Any]:
        """A response that says only that the request failed, with other values in some fields."""
        request = replace(self.request, **changes) if changes else self.request
        respond = partial(failed_response, self.broker.cluster, request, self.context.api_version, code)
        if self.context.large:
            return (yield Aside(respond))
        return respond()

    def after(self, answered: Answered, change: Callable[[Any], Message | Work[Any]]) -> Answered:
        """What a handler returned, with a change of the response, whenever that is there."""
        if answered is None:
            return None
        if isinstance(answered, Pending):
            changed: Pending[Any] = Pending()
            answered.on_complete(lambda response: self._complete(changed, change(response)))
            return changed
        if isinstance(answered, Generator):
            return self._later(answered, change)
        return change(answered)

    def _later(self, work: Work[Any], change: Callable[[Any], Message | Work[Any]]) -> Work[Any]:
        return self.after((yield from work), change)

    def _complete(self, pending: Pending[Any], response: Message | Work[Any]) -> None:
        if not isinstance(response, Generator):
            pending.complete(response)
            return
        failed = partial(self.broker.failed, self.context.connection, type(self.request).__name__)
        self.broker.cluster.turns.run(response, pending.complete, failed)

    def without_topics(
        self,
        operation: Operation,
        *,
        code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        field: str = "topics",
        response: str = "topics",
        name_of: Callable[[Any], str | None] = lambda topic: topic.name,
        failed: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None,
        only_with: str | None = None,
    ) -> Work[Any]:
        """Have the request handled without the topics that the client may not do an operation with, each of which has an error in the response instead.

        `field`, `response`: the arrays with the topics; `name_of`: a topic's name, or `None` for
        one that the handler is to refuse; `failed`: gives the entries of refused topics;
        `only_with`: the array that an entry has to have something in.
        """
        topics = getattr(self.request, field)
        left, refused = yield from self.split_topics(operation, topics, name_of)
        if not refused:
            return self.answer()
        if failed is None:
            whole = yield from self.failed(code, **{field: refused})
            entries = getattr(whole, response)
            if only_with is not None:
                entries, _ = yield from split(entries, lambda one: getattr(one, only_with))
            if not left:
                return replace(whole, **{response: entries})
        else:
            entries = failed(refused)

        def merge(answer: Any) -> Message:
            if getattr(answer, "error_code", 0):
                return answer  # type: ignore[no-any-return]  # the whole request failed
            merged: Message = replace(answer, **{response: getattr(answer, response) + entries})
            return merged

        return self.after(self.answer(**{field: left}), merge)

    def split_topics(
        self, operation: Operation, topics: Iterable[T], name_of: Callable[[T], str | None]
    ) -> Work[tuple[tuple[T, ...], tuple[T, ...]]]:
        """The topics that the client may do an operation with, or that have no name, and the others."""
        named = (name for one in topics if (name := name_of(one)) is not None)
        allowed = yield from self.access.allowed(operation, ResourceType.TOPIC, named)
        return (yield from split(topics, lambda one: (name := name_of(one)) is None or name in allowed))

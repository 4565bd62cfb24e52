"""`Call`: a request with the client's permissions, which rules check."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from quorate.cluster.access import Access
from quorate.cluster.apis import Handler
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.cluster.broker import Broker
from quorate.cluster.context import Context
from quorate.cluster.error_responses import failed_response
from quorate.cluster.turns import ThreadCall, Work, split
from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending

T = TypeVar("T")
HandlerResult = Message | Pending[Any] | Work[Any] | None
"""What a handler returns (`quorate.cluster.apis`)."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request with the client's permissions. `handler`: the handler of its API."""

    handler: Handler
    broker: Broker
    request: Any
    context: Context
    access: Access

    def handle(self, **changes: Any) -> HandlerResult:
        """Call the handler, with other values in some fields of the request."""
        request = replace(self.request, **changes) if changes else self.request
        return self.handler(self.broker, request, self.context)

    def failed(self, code: ErrorCode, message: str = "", /, **changes: Any) -> Work[Any]:
        """Return an error response. `changes`: other values for some fields of the request.

        `message`: the error message, instead of the usual one.
        """
        request = replace(self.request, **changes) if changes else self.request
        respond = partial(failed_response, self.broker.cluster, request, self.context.api_version, code, message)
        if self.context.large:
            return (yield ThreadCall(respond))
        return respond()

    def after(self, result: HandlerResult, change: Callable[[Any], Message | Work[Any]]) -> HandlerResult:
        """Return a handler's result with `change` applied to the response, which may come later."""
        if result is None:
            return None
        if isinstance(result, Pending):
            changed: Pending[Any] = Pending()
            result.on_complete(lambda response: self._complete(changed, change(response)))
            return changed
        if isinstance(result, Generator):
            return self._later(result, change)
        return change(result)

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
        field: str = "topics",
        response: str = "topics",
        name_of: Callable[[Any], str | None] = lambda topic: topic.name,
        failed: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None,
        only_with: str | None = None,
    ) -> Work[Any]:
        """Call the handler without denied topics, and add errors for those to the response.

        `field`, `response`: the arrays of topics in the request and in the response. `name_of`: a
        topic's name, or `None` for a topic that the handler rejects. `failed`: returns the entries
        of denied topics. `only_with`: omit entries in which this array is empty.
        """
        topics = getattr(self.request, field)
        left, refused = yield from self.split_topics(operation, topics, name_of)
        if not refused:
            return self.handle()
        if failed is None:
            whole = yield from self.failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, **{field: refused})
            entries = getattr(whole, response)
            if only_with is not None:
                entries, _ = yield from split(entries, lambda one: getattr(one, only_with))
            if not left:
                return replace(whole, **{response: entries})
        else:
            entries = failed(refused)

        def merge(handled: Any) -> Message:
            if getattr(handled, "error_code", 0):
                return handled  # type: ignore[no-any-return]  # the whole request failed
            merged: Message = replace(handled, **{response: getattr(handled, response) + entries})
            return merged

        return self.after(self.handle(**{field: left}), merge)

    def name_of_topic(self, topic_id: Uuid) -> str | None:
        """Return the name of the topic with an id; `None` if it does not exist."""
        found = self.broker.cluster.topics_by_id.get(topic_id)
        return None if found is None else found.name

    def split_topics(
        self, operation: Operation, topics: Iterable[T], name_of: Callable[[T], str | None]
    ) -> Work[tuple[tuple[T, ...], tuple[T, ...]]]:
        """Split topics into those that are allowed or have no name, and those that are denied."""
        named = (name for topic in topics if (name := name_of(topic)) is not None)
        allowed = yield from self.access.allowed(operation, ResourceType.TOPIC, named)
        return (yield from split(topics, lambda one: (name := name_of(one)) is None or name in allowed))

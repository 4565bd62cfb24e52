"""Faults, as values: what shall go wrong, for which requests, how often. Every request is remembered, so that a test can ask what happened.

cluster.faults.add(Error(ErrorCode.NOT_COORDINATOR, at="error_code"), api="Heartbeat", client_id="a", times=2)
"""

from collections import deque
from dataclasses import dataclass, field, fields, is_dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from quorate.cluster.errors import ClusterStateError
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.results import RequestContext
from quorate.coordinator.shard import HANDLERS

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.connection import Connection
    from quorate.cluster.core import ClusterCore
    from quorate.cluster.frames import Header

__all__ = ["Delay", "Disconnect", "Error", "Fault", "Faults", "Rule", "Seen", "Silence"]

_REMEMBERED = 100_000


class Fault(Protocol):
    """Something that goes wrong with a request."""

    def happen(self, broker: "Broker", connection: "Connection", header: "Header", request: Message) -> None:
        """Do it, in place of what would have happened."""


@dataclass(frozen=True, slots=True)
class Error:
    """The response has this error code wherever its API carries one. `applied`: the request takes effect all the same: applied, then failed."""

    code: ErrorCode
    applied: bool = False

    def happen(self, broker: "Broker", connection: "Connection", header: "Header", request: Message) -> None:
        """Answer with the error; what is asked for is carried out only where `applied` says so."""
        if self.applied:
            broker.handle(connection, header, request, change=lambda response: with_error(response, self.code))
            return
        assert header.api is not None
        connection.answer(header, header.version, failed_response(broker, header, request, self.code))


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is looked at only after `delay_ms`, as if it had come later."""

    delay_ms: int

    def happen(self, broker: "Broker", connection: "Connection", header: "Header", request: Message) -> None:
        """Wait, then go on."""

        def later() -> None:
            if connection.open:
                broker.handle(connection, header, request)
                connection.go_on()

        clock = broker.cluster.clock
        clock.call_at(clock.now_ms() + self.delay_ms, later)


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The connection is closed without an answer. `applied`: after the request has taken effect."""

    applied: bool = False

    def happen(self, broker: "Broker", connection: "Connection", header: "Header", request: Message) -> None:
        """Close."""
        if self.applied:
            broker.handle(connection, header, request, change=lambda response: _closing(connection))
        connection.close()


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer comes, and the connection stays open."""

    def happen(self, broker: "Broker", connection: "Connection", header: "Header", request: Message) -> None:
        """Do nothing: the connection stays busy."""


def _closing(connection: "Connection") -> Any:
    connection.open = False
    return None


@dataclass(slots=True)
class Rule:
    """Which requests a fault is for. `None`: any. `left`: for how many more; `probability`: of each of them."""

    fault: Fault
    api: str | None = None
    broker: int | None = None
    client_id: str | None = None
    topic: str | None = None
    left: int | None = None
    probability: float = 1.0
    random: Random = field(default_factory=Random)

    def concerns(self, broker: "Broker", header: "Header", request: Message) -> bool:
        """Whether it is for this request."""
        assert header.api is not None
        return (
            (self.left is None or self.left > 0)
            and (self.api is None or self.api == header.api.name)
            and (self.broker is None or self.broker == broker.id)
            and (self.client_id is None or self.client_id == header.client_id)
            and (self.topic is None or self.topic in topics_of(request))
            and (self.probability >= 1 or self.random.random() < self.probability)
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came."""

    at_ms: int
    broker: int
    client_id: str
    api: str
    version: int
    request: Message


class Faults:
    """The faults of a cluster, and the requests that it has seen, the last 100,000 of them, if `recording` is on."""

    def __init__(self, cluster: "ClusterCore") -> None:
        self.cluster = cluster
        self.rules: list[Rule] = []
        self.recording = False
        self.seen: deque[Seen] = deque(maxlen=_REMEMBERED)

    def add(
        self,
        fault: Fault,
        *,
        api: str | None = None,
        broker: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        times: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> Rule:
        """From now on `fault` happens to requests that fit: to the next `times` of them, or to all; rules are asked in the order in which they were added."""
        rule = Rule(fault, api, broker, client_id, topic, times, probability, Random(seed))
        self.rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Take a rule back, if it is still there."""
        if rule in self.rules:
            self.rules.remove(rule)

    def of(self, broker: "Broker", connection: "Connection", header: "Header", request: Message) -> Fault | None:
        """What goes wrong with a request, if anything."""
        if self.recording:
            assert header.api is not None
            now_ms = self.cluster.clock.now_ms()
            self.seen.append(Seen(now_ms, broker.id, header.client_id, header.api.name, header.version, request))
        for rule in self.rules:
            if rule.concerns(broker, header, request):
                if rule.left is not None:
                    rule.left -= 1
                return rule.fault
        return None


def topics_of(request: Message) -> set[str]:
    """The names of topics in a request."""
    found: set[str] = set()
    for part in _parts(request):
        for name in ("topic", "name", "topic_name"):
            value = getattr(part, name, None)
            if isinstance(value, str):
                found.add(value)
    return found


def _parts(message: Message) -> list[Message]:
    out = [message]
    for spec in message.spec.fields:
        value = getattr(message, spec.name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Message):
                out += _parts(one)
    return out


def with_error(response: Any, code: ErrorCode) -> Any:
    """A response with an error code in the place where its API has it: on top if there is one, else in each of the innermost parts."""
    names = {spec.name for spec in fields(response)} if is_dataclass(response) else set()
    for name in ("error_code", "partition_error_code"):
        if name in names:
            return replace(response, **{name: int(code)})
    changed = {}
    for spec in response.spec.fields:
        value = getattr(response, spec.name)
        if isinstance(value, tuple) and value and isinstance(value[0], Message):
            changed[spec.name] = tuple(with_error(one, code) for one in value)
    return replace(response, **changed) if changed else response


def failed_response(broker: "Broker", header: "Header", request: Message, code: ErrorCode) -> Message:
    """A response to `request` that says only that it failed. Raises `ClusterStateError` for an API whose response has no error of its own."""
    assert header.api is not None
    if type(request) in HANDLERS:
        context = RequestContext(api_version=header.version, now_ms=broker.cluster.clock.now_ms())
        return broker.cluster.groups.failed(request, context, code)
    response: Any = header.api.response.cls
    if any(spec.name == "error_code" for spec in header.api.response.fields):
        return response(error_code=int(code))  # type: ignore[no-any-return]
    raise ClusterStateError(f"{header.api.name} says errors in its parts only; use Error({code.name}, applied=True)")

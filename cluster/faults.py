"""Faults, as values: what shall go wrong, for which requests, how often.

Every request is remembered, so that a test can ask what happened.

kafka.faults.add(Error(ErrorCode.NOT_COORDINATOR), api="Heartbeat", client_id="a", times=2)
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol

from quorate.cluster.broker import Broker
from quorate.cluster.clock import Clock
from quorate.cluster.connection import Connection
from quorate.cluster.error_responses import failed_response, with_error
from quorate.cluster.frames import Header
from quorate.codecs.api.broker import ProduceRequest
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.v2 import LOG_OVERHEAD
from quorate.codecs.message import Message

__all__ = ["Corrupt", "Delay", "Disconnect", "Error", "Fault", "Faults", "Rule", "Seen", "Silence", "WaitFor"]

_REMEMBERED = 100_000


class Handler(Protocol):
    """What handles requests where there are no faults (`quorate.cluster.request_handler`)."""

    broker: Broker
    faults: "Faults"

    def handle(
        self,
        connection: Connection,
        header: Header,
        request: Message,
        change: Callable[[Any], Any] | None = None,
    ) -> None:
        """Handle a request, and send its response, with a change."""


class Fault(Protocol):
    """Something that goes wrong with a request."""

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Do it, in place of what would have happened."""


@dataclass(frozen=True, slots=True)
class Error:
    """The response has this error code wherever its API carries one.

    `applied`: the request takes effect all the same: applied, then failed.
    """

    code: ErrorCode
    applied: bool = False

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Answer with the error; what is asked for is carried out only where `applied` says so."""
        if self.applied:
            handler.handle(
                connection, header, request, change=lambda response: with_error(response, header.version, self.code)
            )
            return
        failed = failed_response(handler.broker.cluster, request, header.version, self.code)
        connection.answer(header, header.version, failed)


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is looked at only after `delay_ms`, as if it had come later."""

    delay_ms: int

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Wait, then handle the request."""
        clock = handler.broker.cluster.clock
        clock.call_at(clock.now_ms() + self.delay_ms, partial(_resume, handler, connection, header, request))


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The connection is closed without an answer. `applied`: after the request has taken effect."""

    applied: bool = False

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Close."""
        if self.applied:
            handler.handle(connection, header, request, change=lambda response: _closing(connection))
        connection.close()


@dataclass(frozen=True, slots=True)
class Corrupt:
    """Batches are damaged on their way, so that their CRC is wrong: those that a fetch gives, or those that a producer sent, which the broker then refuses."""

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Go on with the last byte of each batch changed; what has no batches goes on as it is."""
        if isinstance(request, ProduceRequest):
            handler.handle(connection, header, _damaged(request))
        else:
            handler.handle(connection, header, request, change=_damaged)


@dataclass(frozen=True, slots=True)
class WaitFor:
    """The request is looked at only after another one has come: of an API, and to a broker or from a client if these are given."""

    api: str
    broker: int | None = None
    client_id: str | None = None

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Wait, then handle the request."""
        faults = handler.faults
        rule = Rule(self, api=self.api, broker=self.broker, client_id=self.client_id)
        faults.when(rule, partial(_resume, handler, connection, header, request))
        connection.on_lost = lambda: faults.forget(rule)


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer comes, and the connection stays open."""

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Do nothing: the connection stays busy."""


def _resume(handler: Handler, connection: Connection, header: Header, request: Message) -> None:
    """Handle a request that was held back, unless its client is gone, and those behind it."""
    if connection.open:
        handler.handle(connection, header, request)
        connection.go_on()


def _damaged(message: Any) -> Any:
    """The same message with all batches in it damaged."""
    changed: dict[str, Any] = {}
    for spec in message.spec.fields:
        value = getattr(message, spec.name)
        if spec.name == "records" and value:
            changed[spec.name] = _each_damaged(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Message):
            changed[spec.name] = tuple(_damaged(one) for one in value)
    return replace(message, **changed) if changed else message


def _each_damaged(batches: bytes) -> bytes:
    """Batches with the last byte of each changed."""
    damaged = bytearray(batches)
    end = 0
    while end + LOG_OVERHEAD <= len(damaged):
        length = int.from_bytes(damaged[end + LOG_OVERHEAD - 4 : end + LOG_OVERHEAD], "big", signed=True)
        end = min(end + LOG_OVERHEAD + max(length, 0), len(damaged))
        damaged[end - 1] ^= 0xFF
    return bytes(damaged)


def _closing(connection: Connection) -> Any:
    connection.open = False
    return None


@dataclass(slots=True)
class Rule:
    """Which requests a fault is for.

    `None`: any. `left`: for how many more; `probability`: of each of them; `happened`: how often it
    has been.
    """

    fault: Fault
    api: str | None = None
    broker: int | None = None
    client_id: str | None = None
    topic: str | None = None
    left: int | None = None
    probability: float = 1.0
    random: Random = field(default_factory=Random)
    happened: int = 0

    def concerns(self, broker: int, header: Header, request: Message) -> bool:
        """Whether it is for this request."""
        assert header.api is not None
        return (
            (self.left is None or self.left > 0)
            and (self.api is None or self.api == header.api.name)
            and (self.broker is None or self.broker == broker)
            and (self.client_id is None or self.client_id == header.client_id)
            and (self.topic is None or self.topic in topics_of(request))
            and (self.probability >= 1 or self.random.random() < self.probability)
        )


class Seen(NamedTuple):
    """A request that came. `fault`: what went wrong with it, if anything."""

    at_ms: int
    broker: int
    client_id: str
    api: str
    version: int
    request: Message
    fault: Fault | None = None


class Faults:
    """The faults of a cluster, and the requests that it has seen, the last 100,000 of them, if `recording` is on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rules: list[Rule] = []
        self.recording = False
        self.seen: deque[Seen] = deque(maxlen=_REMEMBERED)
        self._waiting: list[tuple[Rule, Callable[[], None]]] = []

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

    @property
    def watching(self) -> bool:
        """Whether requests are to be looked at at all: there are rules, somebody waits for a request, or requests are remembered."""
        return bool(self.rules or self._waiting or self.recording)

    def of(self, broker: int, connection: Connection, header: Header, request: Message) -> Fault | None:
        """What goes wrong with a request, if anything."""
        for rule, action in tuple(self._waiting):
            if rule.concerns(broker, header, request):
                self._waiting.remove((rule, action))
                self._clock.call_at(self._clock.now_ms(), action)  # behind this one
        found = None
        if self.rules:
            found = next((rule for rule in self.rules if rule.concerns(broker, header, request)), None)
        if found is not None:
            found.happened += 1
            if found.left is not None:
                found.left -= 1
        fault = None if found is None else found.fault
        if self.recording:
            assert header.api is not None
            now_ms = self._clock.now_ms()
            self.seen.append(Seen(now_ms, broker, header.client_id, header.api.name, header.version, request, fault))
        return fault

    def when(self, rule: Rule, action: Callable[[], None]) -> None:
        """Do something once a request has come that a rule is for."""
        self._waiting.append((rule, action))

    def forget(self, rule: Rule) -> None:
        """Who waited for a request that the rule is for does not any more."""
        self._waiting = [one for one in self._waiting if one[0] is not rule]


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

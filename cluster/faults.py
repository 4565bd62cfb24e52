"""Fault injection: what goes wrong, for which requests, how often.

    kafka.faults.add(Error(ErrorCode.NOT_COORDINATOR), api="Heartbeat", client_id="a", times=2)

With `recording`, requests are kept for tests to inspect.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol

from quorate.cluster.broker import Broker
from quorate.cluster.clock import Clock
from quorate.cluster.connection import Connection
from quorate.cluster.error_responses import failed_response
from quorate.cluster.errors import ClusterError
from quorate.cluster.frames import Header
from quorate.codecs.api.broker import APIS, ProduceRequest
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.error_responses import with_error
from quorate.codecs.batches.v2 import LOG_OVERHEAD
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message

_REMEMBERED = 100_000
_API_NAMES = frozenset(api.name for api in APIS.values())


class Handler(Protocol):
    """Handles requests without faults (`quorate.cluster.request_handler`)."""

    broker: Broker
    faults: "Faults"

    def handle(
        self,
        connection: Connection,
        header: Header,
        request: Message,
        change: Callable[[Any], Any] | None = None,
    ) -> None:
        """Handle a request, and send its response after `change`."""


class Fault(Protocol):
    """Something that goes wrong with a request."""

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Apply the fault, in place of normal handling."""


@dataclass(frozen=True, slots=True)
class Error:
    """Respond with an error code wherever the API has one.

    `applied`: the request takes effect nevertheless.
    """

    code: ErrorCode
    applied: bool = False

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Respond with the error; handle the request only if `applied`."""
        if self.applied:
            handler.handle(
                connection, header, request, change=lambda response: with_error(response, header.version, self.code)
            )
            return
        failed = failed_response(handler.broker.cluster, request, header.version, self.code)
        connection.respond(header, header.version, failed)


@dataclass(frozen=True, slots=True)
class Delay:
    """Handle the request `delay_ms` later, as if it arrived then."""

    delay_ms: int

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Wait, then handle the request."""
        clock = handler.broker.cluster.clock
        clock.call_at(clock.now_ms() + self.delay_ms, partial(_resume, handler, connection, header, request))


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection without a response; `applied`: after the request took effect."""

    applied: bool = False

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Close the connection."""
        if self.applied:
            handler.handle(connection, header, request, change=lambda response: _closing(connection))
        connection.close()


@dataclass(frozen=True, slots=True)
class Corrupt:
    """Corrupt batches in transit, so that their CRC does not match.

    Applies to batches in fetch responses, and to produced batches, which the broker then rejects.
    """

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Change the last byte of each batch; requests without batches are unchanged."""
        if isinstance(request, ProduceRequest):
            handler.handle(connection, header, _damaged(request))
        else:
            handler.handle(connection, header, request, change=_damaged)


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Handle the request only after another request has arrived.

    `api`, `broker`, `client_id`: which request to wait for.
    """

    api: str
    broker: int | None = None
    client_id: str | None = None

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Wait, then handle the request."""
        faults = handler.faults
        rule = Rule(self, api=self.api, broker=self.broker, client_id=self.client_id)
        faults.call_when(rule, partial(_resume, handler, connection, header, request))
        connection.on_lost = lambda: faults.forget(rule)


@dataclass(frozen=True, slots=True)
class Silence:
    """Send no response, and keep the connection open."""

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Do nothing; the connection stays busy."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Handle the request, and respond with a throttle time, as for a client above its quota.

    The client must send nothing for this time (KIP-219). Kafka also stops to read from the
    connection; here, requests of a client that does not wait are handled, so that they show.
    """

    throttle_time_ms: int

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Handle the request; a response without a throttle time is unchanged."""
        handler.handle(connection, header, request, change=self._throttled)

    def _throttled(self, response: Any) -> Any:
        if hasattr(response, "throttle_time_ms"):
            return replace(response, throttle_time_ms=self.throttle_time_ms)
        return response


def _resume(handler: Handler, connection: Connection, header: Header, request: Message) -> None:
    """Handle a delayed request and the following ones, unless the client has disconnected."""
    if connection.open:
        handler.handle(connection, header, request)
        connection.resume()


def _damaged(message: Any) -> Any:
    """Return the message with all batches in it corrupted."""
    changed: dict[str, Any] = {}
    for spec in message.spec.fields:
        value = getattr(message, spec.name)
        if spec.name == "records" and value:
            changed[spec.name] = _each_damaged(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Message):
            changed[spec.name] = tuple(_damaged(one) for one in value)
    return replace(message, **changed) if changed else message


def _each_damaged(batches: bytes) -> bytes:
    """Return batches with the last byte of each changed."""
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
    """Selects the requests that a fault applies to.

    `None` matches any. `left`: how many more requests; `probability`: for each matching request;
    `happened`: how often the fault was applied.
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

    def matches(self, broker: int, header: Header, request: Message) -> bool:
        """Return whether the rule applies to a request."""
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
    """A recorded request. `fault`: the fault that was applied, if any."""

    at_ms: int
    broker: int
    client_id: str
    api: str
    version: int
    request: Message
    fault: Fault | None = None


class Faults:
    """The faults of a cluster. With `recording`, `seen` has the last 100,000 requests."""

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
        """Add a fault for matching requests: for the next `times` of them, or for all.

        Rules are evaluated in the order in which they were added; the first match applies.
        Raises `ClusterError` for what would never happen, such as an unknown `api`.
        """
        _check(fault, api, times, probability)
        rule = Rule(fault, api, broker, client_id, topic, times, probability, Random(seed))
        self.rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Remove a rule, if it exists."""
        if rule in self.rules:
            self.rules.remove(rule)

    @property
    def active(self) -> bool:
        """Whether requests must be inspected: for rules, waiting requests, or recording."""
        return bool(self.rules or self._waiting or self.recording)

    def fault_for(self, broker: int, connection: Connection, header: Header, request: Message) -> Fault | None:
        """Return the fault for a request, if any, and record the request."""
        for rule, action in tuple(self._waiting):
            if rule.matches(broker, header, request):
                self._waiting.remove((rule, action))
                self._clock.call_at(self._clock.now_ms(), action)  # after this request
        found = None
        if self.rules:
            found = next((rule for rule in self.rules if rule.matches(broker, header, request)), None)
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

    def call_when(self, rule: Rule, action: Callable[[], None]) -> None:
        """Call `action` after a request that matches the rule."""
        self._waiting.append((rule, action))

    def forget(self, rule: Rule) -> None:
        """Cancel the call for a rule."""
        self._waiting = [one for one in self._waiting if one[0] is not rule]


def _check(fault: Fault, api: str | None, times: object, probability: object) -> None:
    """Raise `ClusterError` for a fault that is none, and for a rule that never matches."""
    if isinstance(fault, type) or not callable(getattr(fault, "happen", None)):
        raise ClusterError(f"{fault!r} is no fault; use an instance, such as Error(ErrorCode.NOT_COORDINATOR)")
    if isinstance(fault, Error) and not isinstance(fault.code, ErrorCode):
        raise ClusterError(f"{fault!r}: the code is no ErrorCode, such as ErrorCode.NOT_COORDINATOR")
    for name in (api, fault.api if isinstance(fault, WaitFor) else None):
        if name is not None and name not in _API_NAMES:
            from difflib import get_close_matches  # not loaded by each start of a cluster

            near = get_close_matches(str(name), _API_NAMES, 1) or ["Heartbeat"]
            raise ClusterError(f"there is no API {name!r}; APIs have the names of Kafka, such as {near[0]!r}")
    for duration in ("delay_ms", "throttle_time_ms"):
        if not isinstance(getattr(fault, duration, 0), int | float):
            raise ClusterError(f"{fault!r}: {duration} is no number of milliseconds")
    if not (times is None or (isinstance(times, int) and times >= 1)):
        raise ClusterError(f"times={times!r}: give a number from 1, or None for all requests")
    if not (isinstance(probability, int | float) and 0 <= probability <= 1):
        raise ClusterError(f"probability={probability!r}: give a number from 0 to 1")


def topics_of(request: Message) -> set[str]:
    """Return the names of topics in a request."""
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

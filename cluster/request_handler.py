"""`RequestHandler`: decodes requests, applies faults, and calls the handlers of APIs."""

from collections.abc import Callable
from functools import partial
from types import GeneratorType
from typing import Any

from quorate.cluster.apis import Context
from quorate.cluster.authorization import authorized
from quorate.cluster.broker import Broker
from quorate.cluster.connection import Connection
from quorate.cluster.faults import Faults
from quorate.cluster.frames import API_VERSIONS_KEY, Header
from quorate.cluster.handlers import HANDLERS, advertised, unsupported
from quorate.cluster.turns import Work
from quorate.codecs.api.body import decode_api
from quorate.codecs.api.broker import ProduceRequest
from quorate.codecs.errors import DecodeError
from quorate.codecs.generate import Inexact, read_uvarint
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending

_LARGE_BYTES = 32 << 10
"""Larger requests are decoded in a thread: with elements of three bytes this takes 10 ms."""
_PRODUCE_KEY = 0
_LARGE_PRODUCE_BYTES = 256 << 10
"""The same for Produce, whose batches are not decoded here."""
_FEW = 20
"""Larger requests to Produce with fewer topics and partitions are decoded in the loop, too. The
thread takes 0.4 ms of CPU time for a request of 1 MB, as much as everything else in Python.
"""
_MANY = 500
"""Responses to Produce with more topics or partitions are encoded in the thread."""

BEFORE_LOGIN = frozenset({API_VERSIONS_KEY, 17, 36})
"""ApiVersions, SaslHandshake and SaslAuthenticate, which are allowed before authentication."""


class RequestHandler:
    """Handles the requests to a broker, and applies `faults`."""

    def __init__(self, broker: Broker, faults: Faults) -> None:
        self.broker = broker
        self.cluster = broker.cluster
        self.faults = faults

    def serve(self, connection: Connection, header: Header, frame: bytes) -> None:
        """Handle a request, and send its response."""
        request = header.request
        if request is None:
            self._serve_new(connection, header, frame)
        elif self.faults.active:
            self._decoded(connection, header, request)
        else:  # it repeats a request of this connection that was accepted
            self.handle(connection, header, request)

    def _serve_new(self, connection: Connection, header: Header, frame: bytes) -> None:
        """Check and decode a request, then handle it."""
        if header.api is None or header.version not in advertised(self.cluster).get(header.api_key, ()):
            if header.api_key == API_VERSIONS_KEY:
                connection.respond(header, 0, unsupported(self.cluster))
                return
            self.broker.note(
                f"closed a connection of {connection.host[1:]}: API key {header.api_key} version {header.version} "
                f"is not supported by Kafka {self.cluster.broker_configs.kafka_version}, or not implemented"
            )
            connection.close()
            return
        if self.cluster.security.users and connection.user is None and header.api_key not in BEFORE_LOGIN:
            self.broker.note(f"closed a connection of {connection.host[1:]}: {header.api.name} before authentication")
            connection.close()
            return
        if _is_soon_decoded(header, frame):
            try:
                header.request = _decode(header, frame)
            except Exception as error:  # noqa: BLE001  # also an internal error closes only this connection
                self._undecodable(connection, header, error)
                return
            self._decoded(connection, header, header.request)
        else:
            header.large = True
            self.cluster.turns.in_thread(
                partial(_decode, header, frame),
                lambda request: self._decoded_later(connection, header, request),
                lambda error: self._undecodable(connection, header, error),
            )

    def _undecodable(self, connection: Connection, header: Header, error: BaseException) -> None:
        if isinstance(error, DecodeError):
            self.broker.note(f"closed a connection of {connection.host[1:]}: {error}")
            connection.close()
            return
        assert header.api is not None
        self.broker.failed(connection, f"{header.api.name}Request", error)

    def _decoded(self, connection: Connection, header: Header, request: Message) -> None:
        faults = self.faults
        fault = faults.fault_for(self.broker.id, connection, header, request) if faults.active else None
        if fault is None:
            self.handle(connection, header, request)
        else:
            fault.happen(self, connection, header, request)

    def _decoded_later(self, connection: Connection, header: Header, request: Message) -> None:
        if isinstance(request, ProduceRequest):
            header.large = _has_many_partitions(request)
        if self.broker.serving:
            self._decoded(connection, header, request)
            connection.resume()

    def handle(
        self,
        connection: Connection,
        header: Header,
        request: Message,
        change: Callable[[Any], Any] | None = None,
    ) -> None:
        """Handle a request without faults, and send its response after `change`."""
        cluster = self.cluster
        context = Context(
            header.version, cluster.clock.now_ms(), header.client_id, connection.host, connection, header.large
        )
        authorizer = cluster.authorizer
        try:
            api = HANDLERS[type(request)]
            response = (
                api.handler(self.broker, request, context)
                if authorizer is None
                else authorized(api.handler, api.rule, self.broker, authorizer, request, context)
            )
        except Exception as error:  # noqa: BLE001  # reported; closes only this connection
            self.broker.failed(connection, type(request).__name__, error)
            return
        if isinstance(response, GeneratorType):  # `Generator` takes longer to test for
            self._run_in_turns(response, connection, header, request, change)
        elif change is None:
            connection.respond(header, header.version, response)  # type: ignore[arg-type]
        else:
            self._respond(response, connection, header, change)  # type: ignore[arg-type]

    def _run_in_turns(
        self,
        work: Work[Any],
        connection: Connection,
        header: Header,
        request: Message,
        change: Callable[[Any], Any] | None,
    ) -> None:
        """Handle a request in several turns."""
        began = False

        def done(response: Any) -> None:
            header.large |= began
            self._respond(response, connection, header, change)
            if began:
                connection.resume()

        failed = partial(self.broker.failed, connection, type(request).__name__)
        began = not self.cluster.turns.run(work, done, failed)

    def _respond(
        self,
        response: "Message | Pending[Any] | None",
        connection: Connection,
        header: Header,
        change: Callable[[Any], Any] | None,
    ) -> None:
        if change is not None:
            if isinstance(response, Pending):
                changed: Pending[Any] = Pending()
                response.on_complete(lambda found: changed.complete(change(found)))
                response = changed
            elif response is not None:
                response = change(response)
        connection.respond(header, header.version, response)


def _is_soon_decoded(header: Header, frame: bytes) -> bool:
    if header.api_key != _PRODUCE_KEY:
        return len(frame) <= _LARGE_BYTES
    return len(frame) <= _LARGE_PRODUCE_BYTES or _has_few_partitions(header.version, frame, header.body)


def _has_few_partitions(version: int, frame: bytes, position: int) -> bool:
    """Return whether a Produce request has few topics and partitions.

    It is `False` before version 9, with tagged fields, and if the request is truncated.
    """
    if version < 9:
        return False
    try:
        position = _after_bytes(frame, position) + 6  # the transactional id, acks and timeout
        topics, position = read_uvarint(frame, position)
        left = _FEW
        while topics > 1:
            topics -= 1
            position = position + 16 if version >= 13 else _after_bytes(frame, position)
            partitions, position = read_uvarint(frame, position)
            left -= max(partitions, 1)
            if left < 0:
                return False
            for _ in range(partitions - 1):
                position = _after_bytes(frame, position + 4)
                position, tagged = position + 1, frame[position]
                if tagged:
                    return False
            position, tagged = position + 1, frame[position]
            if tagged:
                return False
    except (IndexError, Inexact):
        return False
    return True


def _after_bytes(frame: bytes, position: int) -> int:
    """Return the position after a compact string or bytes, which may be null."""
    size, position = read_uvarint(frame, position)
    return position + max(size - 1, 0)


def _has_many_partitions(request: ProduceRequest) -> bool:
    """Return whether the response may take long to encode: it has no batches."""
    topics = request.topic_data
    return len(topics) > _MANY or sum(len(topic.partition_data) for topic in topics) > _MANY


def _decode(header: Header, frame: bytes) -> Message:
    """Decode the body of a request. Raises `DecodeError`."""
    assert header.api is not None
    return decode_api(header.api.messages[0], frame, header.version, position=header.body)

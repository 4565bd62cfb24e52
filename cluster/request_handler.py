"""`RequestHandler`: requests are decoded, faults happen to them, and the handlers of their APIs are called."""

from collections.abc import Callable, Generator
from functools import partial
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
from quorate.codecs.errors import DecodeError
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending

__all__ = ["RequestHandler"]

_LARGE_BYTES = 32 << 10
"""A larger request is decoded in a thread: with elements of three bytes it takes 10 ms."""
_PRODUCE_KEY = 0
_LARGE_PRODUCE_BYTES = 256 << 10
"""The same for Produce, which is mostly batches, that are not looked into, and is not to wait for a
thread.
"""

BEFORE_LOGIN = frozenset({API_VERSIONS_KEY, 17, 36})
"""ApiVersions, SaslHandshake and SaslAuthenticate: what a client may ask for before it has logged
in.
"""


class RequestHandler:
    """Handles the requests to a broker. `faults`: happen to some of them."""

    def __init__(self, broker: Broker, faults: Faults) -> None:
        self.broker = broker
        self.cluster = broker.cluster
        self.faults = faults

    def serve(self, connection: Connection, header: Header, frame: bytes) -> None:
        """Handle a request, and send its response."""
        if header.api is None or header.version not in advertised(self.cluster).get(header.api_key, ()):
            if header.api_key == API_VERSIONS_KEY:
                connection.answer(header, 0, unsupported(self.cluster))
                return
            self.broker.note(
                f"closed a connection of {connection.host[1:]}: API {header.api_key} version {header.version} is not one of Kafka {self.cluster.broker_configs.coordinator.kafka_version}, or not answered"
            )
            connection.close()
            return
        if self.cluster.security.users and connection.user is None and header.api_key not in BEFORE_LOGIN:
            self.broker.note(f"closed a connection of {connection.host[1:]}: {header.api.name} before it had logged in")
            connection.close()
            return
        if header.request is not None:
            self._decoded(connection, header, header.request)
        elif len(frame) <= (_LARGE_PRODUCE_BYTES if header.api_key == _PRODUCE_KEY else _LARGE_BYTES):
            try:
                header.request = _decode(header, frame)
            except Exception as error:  # noqa: BLE001  # a fault of ours, too, ends one connection
                self._undecodable(connection, header, error)
                return
            self._decoded(connection, header, header.request)
        else:
            header.large = True
            self.cluster.turns.aside(
                partial(_decode, header, frame),
                lambda request: self._decoded(connection, header, request, later=True),
                lambda error: self._undecodable(connection, header, error),
            )

    def _undecodable(self, connection: Connection, header: Header, error: BaseException) -> None:
        if isinstance(error, DecodeError):
            self.broker.note(f"closed a connection of {connection.host[1:]}: {error}")
            connection.close()
            return
        assert header.api is not None
        self.broker.failed(connection, f"{header.api.name}Request", error)

    def _decoded(self, connection: Connection, header: Header, request: Message, *, later: bool = False) -> None:
        if not self.broker.serving:
            return
        faults = self.faults
        fault = faults.of(self.broker.id, connection, header, request) if faults.watching else None
        if fault is not None:
            fault.happen(self, connection, header, request)
        else:
            self.handle(connection, header, request)
        if later:
            connection.go_on()

    def handle(
        self,
        connection: Connection,
        header: Header,
        request: Message,
        change: Callable[[Any], Any] | None = None,
    ) -> None:
        """Answer a request as if there were no faults. `change`: of the response."""
        context = Context(
            api_version=header.version,
            now_ms=self.cluster.clock.now_ms(),
            client_id=header.client_id,
            client_host=connection.host,
            connection=connection,
            large=header.large,
        )
        authorizer = self.cluster.authorizer
        try:
            api = HANDLERS[type(request)]
            response = (
                api.handler(self.broker, request, context)
                if authorizer is None
                else authorized(api.handler, api.rule, self.broker, authorizer, request, context)
            )
        except Exception as error:  # noqa: BLE001  # a fault of ours ends one connection, not the broker, and is not hidden
            self.broker.failed(connection, type(request).__name__, error)
            return
        if isinstance(response, Generator):
            self._in_turns(response, connection, header, request, change)
        else:
            self._handled(response, connection, header, change)

    def _in_turns(
        self,
        work: Work[Any],
        connection: Connection,
        header: Header,
        request: Message,
        change: Callable[[Any], Any] | None,
    ) -> None:
        """Have a request handled in as many turns as it takes."""
        began = False

        def done(response: Any) -> None:
            header.large |= began
            self._handled(response, connection, header, change)
            if began:
                connection.go_on()

        failed = partial(self.broker.failed, connection, type(request).__name__)
        began = not self.cluster.turns.run(work, done, failed)

    def _handled(
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
        connection.answer(header, header.version, response)


def _decode(header: Header, frame: bytes) -> Message:
    """The body of a request. Raises `DecodeError`."""
    assert header.api is not None
    return decode_api(header.api.request.cls, frame, header.version, position=header.body)

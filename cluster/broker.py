"""`Broker`: a server on a port of its own, with a rack; it reads requests, has them answered, and knows nothing of what they mean."""

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import ANSWERS, Context
from quorate.cluster.apis.versions import advertised, unsupported
from quorate.cluster.authorization import authorized
from quorate.cluster.clock import Handle
from quorate.cluster.connection import Connection
from quorate.cluster.errors import ClusterError
from quorate.cluster.fetch_sessions import FetchSessions
from quorate.cluster.frames import API_VERSIONS_KEY, Header
from quorate.cluster.telemetry import Telemetry
from quorate.cluster.turns import Work
from quorate.codecs.api.body import decode_api
from quorate.codecs.errors import DecodeError
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.core import ClusterCore

__all__ = ["LOOPBACK", "Broker", "endpoint"]

LOOPBACK = "127.0.0.1"
"""Where brokers listen unless they are told otherwise: nobody but this machine reaches them."""

_QUIET_TURNS = 4
"""An idle connection is closed when it is found quiet so many times, at equal intervals: up to a quarter later than `connections.max.idle.ms` says."""

_LARGE_BYTES = 32 << 10
"""A larger request is decoded in a thread: with elements of three bytes it takes 10 ms."""
_PRODUCE_KEY = 0
_LARGE_PRODUCE_BYTES = 256 << 10
"""The same for Produce, which is mostly batches, that are not looked into, and is not to wait for a thread."""

BEFORE_LOGIN = frozenset({API_VERSIONS_KEY, 17, 36})
"""ApiVersions, SaslHandshake and SaslAuthenticate: what a client may ask for before it has logged in."""


class Broker:
    """A broker of a cluster.

    `serving`: it listens; `frozen`: and answers nothing all the same; `cut_off`: clients do not reach it; `port`: 0 before it first listened; `listen_host`: where it listens;
    `host`: what clients are told.
    """

    def __init__(self, cluster: "ClusterCore", number: int, rack: str | None) -> None:
        self.cluster = cluster
        self.id = number
        self.rack = rack
        self.listen_host = LOOPBACK
        self.host = LOOPBACK
        self.port = 0
        self.serving = False
        self.frozen = False
        self.cut_off = False
        self._session: Handle | None = None
        self.connections: set[Connection] = set()
        self._waiting: deque[Connection] = deque()
        self._idle: Handle | None = None
        self.fetch_sessions = FetchSessions(cluster.settings.number("max.incremental.fetch.session.cache.slots"))
        self.telemetry = Telemetry()
        self._server: asyncio.Server | None = None
        self._closing: asyncio.Server | None = None  # its last connections are being accepted

    @property
    def alive(self) -> bool:
        """Whether it may lead, and clients are told of it: it has registered, and is not fenced."""
        return self.id in self.cluster.alive

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return endpoint(self.host, self.port)

    def note(self, text: str, trace: str = "") -> None:
        """Report what went wrong that no response can say."""
        self.cluster.note(f"broker {self.id}: {text}", trace)

    def failed(self, connection: Connection, what: str, error: BaseException) -> None:
        """Report a fault of quorate's own, which ends this connection: its client would wait in vain."""
        self.cluster.failed(what, error, f"broker {self.id}: ")
        connection.close()

    # ---- life

    async def start(self) -> None:
        """Listen, on the same port as before if there was one. Raises `ClusterError` if the port is taken."""
        loop = asyncio.get_running_loop()
        while self._closing is not None:
            await asyncio.sleep(0)
        try:
            self._server = await loop.create_server(
                lambda: Connection(self), self.listen_host, self.port, backlog=1024, ssl=self.cluster.security.tls
            )
        except OSError as error:
            raise ClusterError(
                f"broker {self.id} cannot listen on {endpoint(self.listen_host, self.port)}: {_why(error)}"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        self.serving = True
        self._look_for_idle()
        self.note(f"listens on {self.address}" + (f" in rack {self.rack}" if self.rack else ""))

    def stop(self, *, at_once: bool = True) -> None:
        """Stop listening and close all connections, `at_once` without what is still to be sent. The caller has the controller fence it."""
        self.serving = self.frozen = False
        self._end_session()
        if self._idle is not None:
            self._idle.cancel()
        if self._server is not None:
            self._closing, self._server = self._server, None
            loop = self._closing.get_loop()
            with suppress(NotImplementedError):  # Windows' own loop, which has nothing on the way between the two
                for listening in self._closing.sockets:
                    loop.remove_reader(listening.fileno())
            # asyncio never closes a connection that it has accepted, but made no transport for before the server is closed.
            loop.call_soon(self._close_server)
        self.drop_clients(at_once=at_once)

    def _close_server(self) -> None:
        if self._closing is not None:
            self._closing.close()
            self._closing = None

    def drop_clients(self, *, at_once: bool = True) -> None:
        """Close all connections."""
        for connection in (*self._waiting, *self.connections):
            connection.close(at_once=at_once)
        self._waiting.clear()
        self.fetch_sessions.clear()

    # ---- connections

    def admit(self, connection: Connection) -> bool:
        """Whether a new connection is served now. One too many of its host is closed (`max.connections.per.ip`), one too many altogether waits (`max.connections`)."""
        settings = self.cluster.settings
        meter = self.cluster.meter
        if meter is not None:
            meter.accepted[self.id] += 1
        most = settings.number("max.connections.per.ip", self.id)
        if len(self.connections) >= most and sum(one.host == connection.host for one in self.connections) >= most:
            self.note(f"closed a connection of {connection.host[1:]}: it has {most} already (max.connections.per.ip)")
            if meter is not None:
                meter.refused[self.id] += 1
            connection.close()
            return False
        if len(self.connections) >= settings.number("max.connections", self.id):
            connection.hold(True)
            self._waiting.append(connection)
            return False
        return True

    def left(self, connection: Connection) -> None:
        """A connection is closed; one that waited for its place is served."""
        if connection.telemetry_id is not None:
            self.telemetry.forget(connection.telemetry_id)
        if connection in self.connections:
            self.connections.discard(connection)
        elif connection in self._waiting:
            self._waiting.remove(connection)
        while self._waiting and len(self.connections) < self.cluster.settings.number("max.connections", self.id):
            following = self._waiting.popleft()
            self.connections.add(following)
            following.hold(False)

    def _look_for_idle(self) -> None:
        limit_ms = self.cluster.settings.number("connections.max.idle.ms")
        if limit_ms < 0:
            return
        for connection in list(self.connections):
            if connection.count_quiet() > _QUIET_TURNS:
                self.note(
                    f"closed a connection of {connection.host[1:]}: idle for {limit_ms} ms (connections.max.idle.ms)"
                )
                connection.close(at_once=True)  # who reads nothing would keep what is still to be sent
        clock = self.cluster.clock
        self._idle = clock.call_at(clock.now_ms() + max(1, limit_ms // _QUIET_TURNS), self._look_for_idle)

    # ---- freezing, and cutting the network

    def freeze(self, frozen: bool) -> None:
        """Answer nothing, or go on. After `broker.session.timeout.ms` others lead in its place."""
        self.frozen = frozen
        self._heard_of(not frozen)

    def cut(self, off: bool) -> None:
        """Have clients not reach it any more, or again."""
        self.cut_off = off
        self._go_on()

    def lose_controller(self, lost: bool) -> None:
        """Have the controller not hear of it any more, or again; clients still reach it."""
        self._heard_of(not lost)

    @property
    def silent(self) -> bool:
        """Whether requests wait without being looked at."""
        return self.frozen or self.cut_off

    def _heard_of(self, heard: bool) -> None:
        self._end_session()
        if heard:
            if self.serving:
                self.cluster.broker_control.unfence(self.id)
            self._go_on()
            return
        clock = self.cluster.clock
        timeout_ms = self.cluster.settings.number("broker.session.timeout.ms")
        self._session = clock.call_at(clock.now_ms() + timeout_ms, self._fence)

    def _go_on(self) -> None:
        for connection in list(self.connections):
            connection.go_on()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.cancel()
            self._session = None

    def _fence(self) -> None:
        cluster, session = self.cluster, self._session

        def leave() -> bool:
            if self._session is not session:  # the controller has heard of it meanwhile
                return False
            self._session = None
            return True

        work = cluster.controller.changes.run(cluster.broker_control.fencing(self.id, leave))
        cluster.turns.run(work, lambda _: None, partial(cluster.failed, f"fencing broker {self.id}"))

    # ---- requests

    def serve(self, connection: Connection, header: Header, frame: bytes) -> None:
        """Have a request answered, and its answer sent."""
        if header.api is None or header.version not in advertised(self.cluster).get(header.api_key, ()):
            if header.api_key == API_VERSIONS_KEY:
                connection.answer(header, 0, unsupported(self.cluster))
                return
            self.note(
                f"closed a connection of {connection.host[1:]}: API {header.api_key} version {header.version} is not one of Kafka {self.cluster.settings.coordinator.kafka_version}, or not answered"
            )
            connection.close()
            return
        if self.cluster.security.users and connection.user is None and header.api_key not in BEFORE_LOGIN:
            self.note(f"closed a connection of {connection.host[1:]}: {header.api.name} before it had logged in")
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
            self.note(f"closed a connection of {connection.host[1:]}: {error}")
            connection.close()
            return
        assert header.api is not None
        self.failed(connection, f"{header.api.name}Request", error)

    def _decoded(self, connection: Connection, header: Header, request: Message, *, later: bool = False) -> None:
        if not self.serving:
            return
        faults = self.cluster.faults
        fault = faults.of(self, connection, header, request) if faults.watching else None
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
            response = (
                ANSWERS[type(request)].function(self, request, context)
                if authorizer is None
                else authorized(self, authorizer, request, context)
            )
        except Exception as error:  # noqa: BLE001  # a fault of ours ends one connection, not the broker, and is not hidden
            self.failed(connection, type(request).__name__, error)
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

        failed = partial(self.failed, connection, type(request).__name__)
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


def endpoint(host: str, port: int) -> str:
    """HOST:PORT, an address of IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "that port is taken; choose another"
    if error.errno == errno.EACCES:
        return "ports up to 1023 are for root; choose another"
    return "that is no address of this machine"  # EADDRNOTAVAIL, or a name that nobody knows

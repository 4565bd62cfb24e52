"""`Broker`: a server on a port of its own, with a rack: its connections, and how it starts, stops and freezes.

What requests mean is not known here.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from quorate.cluster.clock import Handle
from quorate.cluster.connection import Connection
from quorate.cluster.errors import ClusterError
from quorate.cluster.fetch_sessions import FetchSessions
from quorate.cluster.frames import Header
from quorate.cluster.shared import SharedCluster
from quorate.cluster.telemetry import Telemetry

__all__ = ["LOOPBACK", "Broker", "endpoint"]

LOOPBACK = "127.0.0.1"
"""Where brokers listen unless they are told otherwise: nobody but this machine reaches them."""

_QUIET_TURNS = 4
"""An idle connection is closed when it is found quiet so many times, at equal intervals: up to a
quarter later than `connections.max.idle.ms` says.
"""


class FrameHandler(Protocol):
    """Handles the requests of a broker."""

    def serve(self, connection: Connection, header: Header, frame: bytes) -> None:
        """Handle a request, and send its response."""


class Broker:
    """A broker of a cluster.

    `serving`: it listens; `frozen`: and answers nothing all the same; `cut_off`: clients do not
    reach it; `port`: 0 before it first listened; `listen_host`: where it listens; `host`: what
    clients are told; `handler`: makes what handles its requests.
    """

    def __init__(
        self, cluster: SharedCluster, number: int, rack: str | None, handler: "Callable[[Broker], FrameHandler]"
    ) -> None:
        self.cluster = cluster
        self._handler = handler(self)
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
        self.fetch_sessions = FetchSessions(cluster.broker_configs.number("max.incremental.fetch.session.cache.slots"))
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
        """Listen, on the same port as before if there was one.

        Raises `ClusterError` if the port is taken.
        """
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
        """Stop listening and close all connections, `at_once` without what is still to be sent.

        The caller has the controller fence it.
        """
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
            # asyncio never closes a connection that it has accepted, but made no transport for
            # before the server is closed.
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
        """Whether a new connection is served now.

        One too many of its host is closed (`max.connections.per.ip`), one too many altogether waits
        (`max.connections`).
        """
        settings = self.cluster.broker_configs
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
        while self._waiting and len(self.connections) < self.cluster.broker_configs.number("max.connections", self.id):
            following = self._waiting.popleft()
            self.connections.add(following)
            following.hold(False)

    def _look_for_idle(self) -> None:
        limit_ms = self.cluster.broker_configs.number("connections.max.idle.ms")
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
        timeout_ms = self.cluster.broker_configs.number("broker.session.timeout.ms")
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

    def serve(self, connection: Connection, header: Header, frame: bytes) -> None:
        """Have a request handled, and its response sent."""
        self._handler.serve(connection, header, frame)


def endpoint(host: str, port: int) -> str:
    """HOST:PORT, an address of IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "that port is taken; choose another"
    if error.errno == errno.EACCES:
        return "ports up to 1023 are for root; choose another"
    return "that is no address of this machine"  # EADDRNOTAVAIL, or a name that nobody knows

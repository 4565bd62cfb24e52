"""`Broker`: a server with its own port and rack; its connections, start, stop and pause.

It does not know what requests mean.
"""

import errno
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from quorate.cluster.clock import Handle
from quorate.cluster.connection import Connection
from quorate.cluster.errors import ClusterError
from quorate.cluster.fetch_sessions import FetchSessions
from quorate.cluster.frames import Header
from quorate.cluster.internal_topics import InternalTopicCreation
from quorate.cluster.listener import Listening, listen
from quorate.cluster.share.manager import SharePartitions
from quorate.cluster.shared import SharedCluster
from quorate.cluster.telemetry import Telemetry

LOOPBACK = "127.0.0.1"
"""The default listen address: only clients on this machine can connect."""

_LAST_PORT = 65_535

_QUIET_TURNS = 4
"""An idle connection is closed after so many idle checks in a row, at equal intervals. This is up
to a quarter later than `connections.max.idle.ms`.
"""


class FrameHandler(Protocol):
    """Handles a broker's requests."""

    def serve(self, connection: Connection, header: Header, frame: bytes) -> None:
        """Handle a request, and send its response."""


class Broker:
    """A broker of a cluster.

    `serving`: it listens. `frozen`: it listens but does not respond. `cut_off`: clients cannot
    reach it. `silent`: one of these two, so that requests are left pending. `listen_host`,
    `listen_port`: the address to listen on; the port is 0 before the first start, if it is not
    given. `host`, `port`: the advertised address. `handler`: creates the handler of the broker's
    requests, which `serve` passes to it. `new_connection`: creates a connection; replaced before
    the start by those who observe connections.
    """

    def __init__(
        self, cluster: SharedCluster, number: int, rack: str | None, handler: "Callable[[Broker], FrameHandler]"
    ) -> None:
        self.cluster = cluster
        self.serve = handler(self).serve
        self.new_connection: Callable[[Broker], Connection] = Connection
        self.id = number
        self.rack = rack
        self.listen_host = LOOPBACK
        self.listen_port = 0
        self.host = LOOPBACK
        self.port = 0
        self.serving = False
        self.frozen = False
        self.cut_off = False
        self.silent = False
        self._session: Handle | None = None
        self.connections: dict[Connection, None] = {}  # ordered, so that a simulation can be repeated
        self._waiting: deque[Connection] = deque()
        self._idle: Handle | None = None
        self.fetch_sessions = FetchSessions(cluster.broker_configs.number("max.incremental.fetch.session.cache.slots"))
        self.share = SharePartitions(
            number, cluster.services, cluster.share_configs, cluster.share_state, cluster.dead_letters
        )
        self.internal_topics = InternalTopicCreation()
        self.telemetry = Telemetry()
        self._listening: Listening | None = None

    @property
    def alive(self) -> bool:
        """Whether the broker is registered and not fenced, so that it may lead."""
        return self.id in self.cluster.alive

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return endpoint(self.host, self.port)

    def note(self, text: str, trace: str = "") -> None:
        """Report a problem that is in no response."""
        self.cluster.note(f"broker {self.id}: {text}", trace)

    def failed(self, connection: Connection, what: str, error: BaseException) -> None:
        """Report an internal error, and close the connection so that its client does not wait."""
        self.cluster.failed(what, error, f"broker {self.id}: ")
        connection.close()

    # ---- start and stop

    async def start(self) -> None:
        """Listen, on the same port as before if the broker is restarted.

        Raises `ClusterError` if the port is taken.
        """
        if not 0 <= self.listen_port <= _LAST_PORT:
            raise self._no_port(f"ports are numbers up to {_LAST_PORT}")
        try:
            self._listening = await listen(
                lambda: self.new_connection(self), self.listen_host, self.listen_port, self.cluster.security.tls
            )
        except OSError as error:
            raise self._cannot_listen(error) from None
        self.listen_port = self._listening.port
        self.port = self.port or self.listen_port
        self.serving = True
        self._look_for_idle()
        self.note(f"listens on {self.address}" + (f" in rack {self.rack}" if self.rack else ""))

    def _cannot_listen(self, error: OSError) -> ClusterError:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return ClusterError(
                f"broker {self.id} cannot listen: this process has too many open files",
                "raise the limit, for example with `ulimit -n 10000`, or start fewer brokers",
            )
        return self._no_port(_why(error))

    def _no_port(self, why: str) -> ClusterError:
        return ClusterError(f"broker {self.id} cannot listen on {endpoint(self.listen_host, self.listen_port)}: {why}")

    def stop(self, *, at_once: bool = True) -> None:
        """Stop listening and close all connections, with `at_once` before pending data is sent.

        The caller fences the broker.
        """
        self.serving = self.frozen = False
        self._set_silent()
        self._end_session()
        if self._idle is not None:
            self._idle.cancel()
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        self.share.clear()
        self.drop_clients(at_once=at_once)

    def drop_clients(self, *, at_once: bool = True) -> None:
        """Close all connections."""
        for connection in (*self._waiting, *self.connections):
            connection.close(at_once=at_once)
        self._waiting.clear()
        self.fetch_sessions.clear()

    # ---- connections

    def admit(self, connection: Connection) -> bool:
        """Return whether to serve a new connection now.

        Above `max.connections.per.ip` it is closed; above `max.connections` it waits.
        """
        configs = self.cluster.broker_configs
        meter = self.cluster.meter
        if meter is not None:
            meter.accepted[self.id] += 1
        limit = configs.number("max.connections.per.ip", self.id)
        if len(self.connections) >= limit and sum(one.host == connection.host for one in self.connections) >= limit:
            self.note(f"closed a connection of {connection.host[1:]}: it has {limit} already (max.connections.per.ip)")
            if meter is not None:
                meter.refused[self.id] += 1
            connection.close()
            return False
        if len(self.connections) >= configs.number("max.connections", self.id):
            connection.hold(True)
            self._waiting.append(connection)
            return False
        return True

    def connection_closed(self, connection: Connection) -> None:
        """Forget a closed connection, and serve those that waited for a free place."""
        if connection.telemetry_id is not None:
            self.telemetry.remove(connection.telemetry_id)
        self.share.connection_closed(connection)
        if connection in self.connections:
            del self.connections[connection]
        elif connection in self._waiting:
            self._waiting.remove(connection)
        while self._waiting and len(self.connections) < self.cluster.broker_configs.number("max.connections", self.id):
            following = self._waiting.popleft()
            self.connections[following] = None
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
                connection.close(at_once=True)  # a client that does not read would delay the close
        clock = self.cluster.clock
        self._idle = clock.call_at(clock.now_ms() + max(1, limit_ms // _QUIET_TURNS), self._look_for_idle)

    # ---- pausing, and cutting the network

    def freeze(self, frozen: bool) -> None:
        """Pause or resume the broker. It is fenced after `broker.session.timeout.ms`."""
        self.frozen = frozen
        self._set_silent()
        self._set_controller_session(not frozen)

    def cut(self, off: bool) -> None:
        """Cut the broker off from clients, or reconnect it."""
        self.cut_off = off
        self._set_silent()
        self._resume_connections()

    def cut_from_controller(self, cut: bool) -> None:
        """Cut the broker off from the controller, or reconnect it; clients still reach it."""
        self._set_controller_session(not cut)

    def _set_silent(self) -> None:
        self.silent = self.frozen or self.cut_off

    def _set_controller_session(self, connected: bool) -> None:
        self._end_session()
        if connected:
            if self.serving:
                self.cluster.broker_control.unfence(self.id)
            self._resume_connections()
            return
        clock = self.cluster.clock
        timeout_ms = self.cluster.broker_configs.number("broker.session.timeout.ms")
        self._session = clock.call_at(clock.now_ms() + timeout_ms, self._fence)

    def _resume_connections(self) -> None:
        for connection in list(self.connections):
            connection.resume()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.cancel()
            self._session = None

    def _fence(self) -> None:
        cluster, session = self.cluster, self._session

        def still_expired() -> bool:
            if self._session is not session:  # the broker has contacted the controller in the meantime
                return False
            self._session = None
            return True

        work = cluster.controller.changes.run(cluster.broker_control.fencing(self.id, still_expired))
        cluster.turns.run(work, lambda _: None, partial(cluster.failed, f"fencing broker {self.id}"))


def endpoint(host: str, port: int) -> str:
    """Return HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is already in use; choose another"
    if error.errno == errno.EACCES:
        return "ports below 1024 require root privileges; choose another"
    return "not an address of this machine"  # EADDRNOTAVAIL, or an unknown host name

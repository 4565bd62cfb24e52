"""Simulated TCP: connections, servers and streams between tasks of one loop.

Bytes of a direction arrive in order, split into segments, each after a latency. A connection can be
cut (both ends get a reset), half-open (one end learns nothing until it writes), or stalled (nothing
arrives for a while, as in TCP when packets are lost).

It knows nothing of Kafka. Choices come from the random generator that it is given.
"""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.simulation.loop import SimulatedLoop

HIGH_WATER_BYTES = 64 << 10
RECEIVE_BYTES = 64 << 10
"""How many bytes an end that does not read receives before its peer has to keep them."""

FIRST_PORT = 9092
FIRST_CLIENT_PORT = 40_001


class _Socket:
    """What clients read of a listening or connected socket."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def fileno(self) -> int:
        return -1

    def setsockopt(self, *_: Any) -> None:
        """Ignore options of sockets."""

    def getsockopt(self, *_: Any) -> int:
        return 0


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, link: "Link", protocol: asyncio.BaseProtocol, name: tuple[str, int], peer: tuple[str, int]):
        super().__init__({"sockname": name, "peername": peer, "socket": _Socket(name)})
        self.link = link
        self.other: SimulatedTransport
        self._loop = link.network.loop
        self._protocol = protocol
        self._closing = self._lost = self._ended = self._paused = self._write_paused = False
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._pending: deque[bytes | None] = deque()  # sent by the other end, not arrived; `None` is its end
        self._pending_bytes = 0
        self._arrives_ns = 0  # when the last segment arrives
        self._waiting = 0  # how many segments have arrived that are not read
        self.vanishes = False  # what this end writes is lost

    # ---- asyncio.Transport

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol."""
        self._protocol = protocol

    def is_closing(self) -> bool:
        """Return whether this end is closed or closing."""
        return self._closing

    def is_reading(self) -> bool:
        """Return whether this end reads."""
        return not self._paused and not self._closing

    def pause_reading(self) -> None:
        """Stop reading."""
        self._paused = True

    def resume_reading(self) -> None:
        """Read again what arrives."""
        if self._paused and not self._closing:
            self._paused = False
            for _ in range(self._waiting):
                self._loop.at_ns(self._loop.now_ns, self._arrive)
            self._waiting = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the sizes at which writing pauses and resumes."""
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the sizes at which writing resumes and pauses."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the other end's host cannot take yet."""
        return max(0, self.other._pending_bytes - RECEIVE_BYTES)

    def write(self, data: Any) -> None:
        """Send bytes."""
        if self._closing or self._ended or not data:
            return
        sent = bytes(data)
        self.link.network.on_event("send", self, sent)
        if self.vanishes or self.other._lost:
            self.link.unreachable(self)
            return
        self.link.send(self.other, sent)
        if not self._write_paused and self.get_write_buffer_size() > self._high:
            self._write_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Send bytes in pieces."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Return that this end can close its direction only."""
        return True

    def write_eof(self) -> None:
        """Close this direction."""
        if not self._ended and not self._closing:
            self._ended = True
            self.link.send(self.other, None)

    def close(self) -> None:
        """Close after what was written has been sent."""
        if self._closing:
            return
        self._closing = True
        self.link.network.on_event("close", self, b"")
        if not self._ended and not self.other._lost and not self.vanishes:
            self.link.send(self.other, None)
        self._loop.call_soon(self.lose, None)

    def abort(self) -> None:
        """Close at once; the other end gets a reset."""
        if self._lost:
            return
        if not self._closing:
            self._closing = True
            self.link.network.on_event("abort", self, b"")
        if not self.vanishes:
            self.link.reset(self.other)
        self._loop.call_soon(self.lose, None)

    # ---- called by the network

    def made(self) -> None:
        """Notify the protocol of the connection."""
        if self._lost:
            return
        self._protocol.connection_made(self)

    def _arrive(self) -> None:
        """Receive the next segment, if this end reads."""
        if self._lost or not self._pending or self.link.stalled:
            return
        if self._paused:
            self._waiting += 1
            return
        data = self._pending.popleft()
        if data is None:
            self.link.network.on_event("end", self, b"")
            if not self._closing and not self._protocol.eof_received():  # type: ignore[attr-defined]
                self.close()
            return
        self._pending_bytes -= len(data)
        self.other.other_has_read()
        if not self._closing:
            self.link.network.on_event("receive", self, data)
            self._protocol.data_received(data)  # type: ignore[attr-defined]
        elif not self.vanishes:
            self.link.reset(self.other)  # as hosts do for data to a closed socket

    def other_has_read(self) -> None:
        """Resume writing after the other end has read."""
        if self._write_paused and not self._lost and self.get_write_buffer_size() <= self._low:
            self._write_paused = False
            self._protocol.resume_writing()

    def arrivals_lost(self) -> None:
        """Lose what has not arrived."""
        self._pending.clear()
        self._pending_bytes = 0

    def lose(self, error: Exception | None) -> None:
        """End the connection for this end."""
        if self._lost:
            return
        self._closing = self._lost = True
        self.link.network.on_event("lost", self, b"" if error is None else str(error).encode())
        self.link.lost(self)
        self._protocol.connection_lost(error)


class Link:
    """A connection: its client's and its server's end. `number`: in order of connecting."""

    def __init__(self, network: "SimulatedNetwork", number: int) -> None:
        self.network = network
        self.number = number
        self.stalled = False
        self.client: SimulatedTransport
        self.server: SimulatedTransport

    @property
    def open(self) -> bool:
        """Whether both ends are open."""
        return not (self.client._closing or self.server._closing)

    def send(self, to: SimulatedTransport, data: bytes | None) -> None:
        """Deliver bytes, or the end of the stream, after a latency."""
        network = self.network
        for part in network.segments(data):
            to._pending.append(part)
            to._pending_bytes += len(part or b"")
            to._arrives_ns = max(network.loop.now_ns + network.latency_ns(), to._arrives_ns + 1)
            network.loop.at_ns(to._arrives_ns, to._arrive)

    def reset(self, end: SimulatedTransport) -> None:
        """Reset one end, after a latency; what has not arrived is lost."""
        error = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        end.arrivals_lost()
        self.network.loop.at_ns(self.network.loop.now_ns + self.network.latency_ns(), end.lose, error)

    def unreachable(self, end: SimulatedTransport) -> None:
        """Handle a write to an end that has gone."""
        if not self.stalled:
            self.reset(end)

    def lost(self, end: SimulatedTransport) -> None:
        """Forget the connection when both ends have lost it."""
        if end.other._lost:
            self.network.links.pop(self.number, None)

    def cut(self) -> None:
        """Reset both ends, each after its own latency."""
        self.client.vanishes = self.server.vanishes = True
        self.reset(self.client)
        self.reset(self.server)

    def half_open(self, silent: SimulatedTransport) -> None:
        """Reset one end; the other learns of it only when it writes."""
        silent.vanishes = True
        silent.arrivals_lost()
        silent.other.vanishes = True
        self.reset(silent.other)

    def stall(self, for_ns: int) -> None:
        """Let nothing arrive for a while; later everything does."""
        if not self.stalled:
            self.stalled = True
            self.network.loop.at_ns(self.network.loop.now_ns + for_ns, self.resume)

    def resume(self) -> None:
        """Let everything arrive again."""
        self.stalled = False
        loop = self.network.loop
        for end in (self.client, self.server):
            for _ in range(len(end._pending)):
                loop.at_ns(loop.now_ns, end._arrive)


class SimulatedServer(asyncio.AbstractServer):
    """A listening server."""

    def __init__(self, network: "SimulatedNetwork", factory: Callable[[], Any], address: tuple[str, int]) -> None:
        self._network = network
        self.factory = factory
        self.address = address
        self.sockets: tuple[_Socket, ...] = (_Socket(address),)

    def close(self) -> None:
        """Stop listening; connections stay open."""
        self.sockets = ()
        if self._network.servers.get(self.address[1]) is self:
            del self._network.servers[self.address[1]]

    def close_clients(self) -> None:
        """Close all connections."""
        for link in list(self._network.links.values()):
            if link.server.get_extra_info("sockname") == self.address:
                link.server.close()

    def abort_clients(self) -> None:
        """Reset all connections."""
        for link in list(self._network.links.values()):
            if link.server.get_extra_info("sockname") == self.address:
                link.server.abort()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop."""
        return self._network.loop

    def is_serving(self) -> bool:
        """Return whether the server listens."""
        return bool(self.sockets)

    async def start_serving(self) -> None:
        """Do nothing: it listens."""

    async def serve_forever(self) -> None:
        """Listen until the task is cancelled."""
        try:
            await self._network.loop.create_future()
        finally:
            self.close()

    async def wait_closed(self) -> None:
        """Do nothing: closing takes no time."""


class SimulatedNetwork:
    """All connections and servers of a simulation.

    `latency_ms`: least and most, of each segment. `split`: the probability that a segment is split
    once more. `on_event`: called with what happens, at which end, and the bytes.
    """

    def __init__(self, loop: "SimulatedLoop", random: Random) -> None:
        self.loop = loop
        self.random = random
        self.latency_ms = (0.05, 2.0)
        self.split = 0.1
        self.servers: dict[int, SimulatedServer] = {}
        self.links: dict[int, Link] = {}
        self.made = 0
        self.on_event: Callable[[str, SimulatedTransport, bytes], object] = lambda kind, end, data: None
        self._next_port = FIRST_PORT

    def latency_ns(self) -> int:
        """Draw a latency. Most are short, as in real networks."""
        low, high = self.latency_ms
        drawn = self.random.random()
        return int((low + (high - low) * drawn * drawn * drawn) * 1_000_000) + 1

    def segments(self, data: bytes | None) -> Iterable[bytes | None]:
        """Split bytes as TCP may."""
        if data is None or not self.split or len(data) < 2:
            return (data,)
        random = self.random
        parts: list[bytes | None] = []
        while len(data) > 1 and random.random() < self.split:
            at = random.randrange(1, len(data)) if random.random() < 0.5 else min(len(data) - 1, random.randrange(1, 9))
            parts.append(data[:at])
            data = data[at:]
        parts.append(data)
        return parts

    @staticmethod
    def addresses(host: Any, port: Any) -> list[Any]:
        """Return the address of a name, which is always 127.0.0.1, or the address that it is."""
        name = host.decode() if isinstance(host, bytes) else host
        numeric = bool(name) and name.replace(".", "").isdigit()
        address = (name if numeric else "127.0.0.1", int(port or 0))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> SimulatedServer:
        """Start a server. Raises `OSError` if the port is in use."""
        if not port:
            while self._next_port in self.servers:
                self._next_port += 1
            port, self._next_port = self._next_port, self._next_port + 1
        if port in self.servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = self.servers[port] = SimulatedServer(self, factory, (host, port))
        return server

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[SimulatedTransport, Any]:
        """Connect to a server. Raises `ConnectionRefusedError`."""
        loop = self.loop
        waiter = loop.create_future()
        loop.at_ns(loop.now_ns + 2 * self.latency_ns(), self._connected, waiter, factory, host, port)
        made: tuple[SimulatedTransport, Any] = await waiter
        return made

    def _connected(self, waiter: "asyncio.Future[Any]", factory: Callable[[], Any], host: str, port: int) -> None:
        if waiter.cancelled():
            return
        server = self.servers.get(port)
        if server is None:
            text = f"Connect call failed ('{host}', {port})"
            waiter.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, text))
            return
        self.made += 1
        link = self.links[self.made] = Link(self, self.made)
        protocol = factory()
        local = ("127.0.0.1", FIRST_CLIENT_PORT + self.made)
        link.client = SimulatedTransport(link, protocol, local, server.address)
        link.server = SimulatedTransport(link, server.factory(), server.address, local)
        link.client.other, link.server.other = link.server, link.client
        self.on_event("connect", link.client, b"")
        link.server.made()
        link.client.made()
        waiter.set_result((link.client, protocol))

    def open_links(self) -> list[Link]:
        """Return the connections that are open at both ends."""
        return [link for link in self.links.values() if link.open]

    def disconnect(self) -> None:
        """End all connections."""
        for link in list(self.links.values()):
            for end in (link.client, link.server):
                self.loop.call_soon(end.lose, None)

    def clear(self) -> None:
        """Forget everything."""
        self.links.clear()
        self.servers.clear()

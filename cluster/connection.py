"""One connection of a client: frames in, frames out, one request at a time and in order, as Kafka's brokers have it.

A request that can be answered at once is answered in the same turn of the loop; one whose answer is
yet to come (a fetch that waits, a member that joins) holds the connection's later requests back
until it is there.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address, ip_address
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from quorate.cluster.frames import FrameError, Header, framed, read_header
from quorate.cluster.large_frame import LARGE_BYTES, LargeFrame
from quorate.cluster.security import Login, LoginFailed
from quorate.cluster.shared import SharedCluster
from quorate.cluster.turns import Work
from quorate.codecs.api.broker import FetchResponse
from quorate.codecs.fast_encode import encode_message, encode_parts
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.codecs import Uuid
    from quorate.codecs.message import Message

__all__ = ["Connection", "java_address"]

_PAUSE_BYTES = 1 << 20
"""With so many bytes of requests waiting, nothing more is read from the client."""

_SERVED_S = 0.005
"""Requests that came together are served together for so long; then others have their turn."""

_AT_ONCE_BYTES = 1 << 16
"""Answers to requests that came together are sent together, up to so many bytes."""

_REPEATED_BYTES = 1 << 10
"""Up to so many bytes of a request are kept: most of what a client repeats word for word
(heartbeats, fetches of a session) is read once.
"""


class ConnectionHost(Protocol):
    """What a connection needs of its broker."""

    id: int
    serving: bool
    connections: "set[Connection]"
    cluster: SharedCluster

    @property
    def silent(self) -> bool:
        """Whether requests wait without being looked at."""

    def admit(self, connection: "Connection") -> bool:
        """Whether a new connection is served now."""

    def left(self, connection: "Connection") -> None:
        """A connection is closed."""

    def note(self, text: str, trace: str = "") -> None:
        """Report what no response can say."""

    def failed(self, connection: "Connection", what: str, error: BaseException) -> None:
        """Report a fault of quorate's own, which ends this connection."""

    def serve(self, connection: "Connection", header: Header, frame: bytes) -> None:
        """Handle a request, and send its response."""


class Connection(asyncio.Protocol):
    """A client.

    `user`: who it is, by SASL, once it has logged in; `login`: while it does; `software`: what it
    says it is.

    `on_lost`: called when the client is gone, by the request that waits, if one does; it is
    replaced by the next that waits.
    """

    def __init__(self, broker: ConnectionHost) -> None:
        self.broker = broker
        self.user: str | None = None
        self.login: Login | None = None
        self.host = ""
        self.port = 0
        self.software = ""
        self.telemetry_id: Uuid | None = None  # of the client that pushes its metrics over it
        self.open = True
        self._buffer = bytearray()
        self._large: LargeFrame | None = None  # what is being received
        self._frames: deque[bytes | LargeFrame] = deque()
        self._waiting_bytes = 0
        self._busy = False
        self._paused = False
        self._reads_nothing = False
        self._takes_turns = False
        self._ending = False
        self._held: tuple[Header, int, Any] | None = None
        self._transport: Any = None
        # Kafka's SaslServerAuthenticator reads whatever comes before the end of a login.
        login_first = bool(broker.cluster.security.users)
        self._limit = broker.cluster.broker_configs.number(
            "sasl.server.max.receive.size" if login_first else "socket.request.max.bytes"
        )
        self._meter = broker.cluster.meter
        self._began_s = 0.0
        self._quiet_for = 0
        self._gathers = False
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._last: tuple[bytes, bytes, Header] | None = None  # what is before and behind the correlation id
        self._last_answer: tuple[Message, int, bytes] | None = None
        self.on_lost: Callable[[], object] | None = None

    # ---- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = transport
        if not self.broker.serving:  # accepted while the broker stopped, which has closed all that it knew of
            self.close(at_once=True)
            return
        peer = transport.get_extra_info("peername")
        self.host = f"/{java_address(peer[0])}" if peer else "/127.0.0.1"
        self.port = peer[1] if peer else 0
        if not self.broker.admit(self):
            return
        self.broker.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone; what it waited for is answered to nobody."""
        self.open = False
        self._forget()
        self.broker.left(self)
        if self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        """The client does not read what it is sent: its requests wait, lest answers pile up here."""
        self._reads_nothing = True

    def resume_writing(self) -> None:
        """It has read."""
        self._reads_nothing = False
        self.go_on()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        self._quiet_for = 0
        if self._meter is not None:
            self._meter.received_bytes[self.broker.id] += len(data)
        if (
            not self._buffer
            and self._large is None
            and 4 <= len(data) <= 4 + self._limit
            and len(data) == 4 + int.from_bytes(data[:4], "big", signed=True)
        ):
            self._frames.append(data[4:])  # just one request, as most often
            self._waiting_bytes += len(data)
        else:
            self._received(data)
        if self._busy:
            self._pause_or_resume()
        else:
            self._go_on()

    def _received(self, data: bytes) -> None:
        """Take what is a part of a request, or more than one."""
        large = self._large
        if large is not None:
            over = len(data) - large.missing_bytes
            large.add(data[: large.missing_bytes] if over > 0 else data)
            if large.missing_bytes:
                return
            self._waiting_bytes += len(large) + 4
            self._frames.append(large)
            self._large = None
            data = data[len(data) - over :] if over > 0 else b""
        self._buffer += data
        self._split()

    def _split(self) -> None:
        """Cut the buffer into frames.

        Once much of one is there it goes on in a place of its own.
        """
        buffer, position = self._buffer, 0
        while len(buffer) - position >= 4:
            size = int.from_bytes(buffer[position : position + 4], "big", signed=True)
            if size < 0 or size > self._limit:
                self.broker.note(
                    f"closed a connection of {self.host[1:]}: a request of {size} bytes, at most {self._limit} are allowed"
                )
                self.close()
                return
            if len(buffer) - position - 4 < size:
                if len(buffer) - position > LARGE_BYTES:
                    self._begin_large(size, buffer[position + 4 :])
                    position = len(buffer)
                break
            self._frames.append(bytes(buffer[position + 4 : position + 4 + size]))
            self._waiting_bytes += size + 4
            position += 4 + size
        del buffer[:position]

    def _begin_large(self, size: int, data: bytearray) -> None:
        try:
            self._large = LargeFrame(size)
        except OSError as error:
            self.broker.note(
                f"closed a connection of {self.host[1:]}: no memory for a request of {size} bytes: {error.strerror}"
            )
            self.close()
            return
        self._large.add(data)

    # ---- requests

    def _go_on(self) -> None:
        """Serve what came, all in this turn of the loop if that does not take long."""
        try:
            others_first = not self._takes_turns and self._serve()
        except Exception as error:  # noqa: BLE001  # it is reported
            self._failed(error)
            return
        if others_first:
            self._takes_turns = True
            self.broker.cluster.turns.run(self._serving(), self._served, self._failed)

    def _serving(self) -> Work[None]:
        while True:
            yield None
            if not self._serve():
                return

    def _served(self, _: None) -> None:
        self._takes_turns = False

    def _failed(self, error: BaseException) -> None:
        self._takes_turns = False
        self.broker.failed(self, "serving requests", error)

    def _serve(self) -> bool:
        """Serve some requests; whether others could be served at once."""
        frames, broker = self._frames, self.broker
        until = perf_counter() + _SERVED_S
        while frames and not (self._busy or self._reads_nothing or broker.silent) and self.open:
            frame = frames.popleft()
            self._waiting_bytes -= len(frame) + 4
            if isinstance(frame, LargeFrame):
                frame = frame.take()
            if self.login is not None and self.login.bare:
                self._go_on_with(self.login, frame)
                continue
            try:
                header = self._header(frame)
            except FrameError as error:
                broker.note(f"closed a connection of {self.host[1:]}: {error}")
                self.close()
                break
            self._busy = True
            if self._meter is not None:
                self._began_s = perf_counter()
            self._gathers = bool(frames)
            broker.serve(self, header, frame)
            if perf_counter() > until:
                break
        self._gathers = False
        if self._gathered:
            self._send_gathered()
        self._pause_or_resume()
        return bool(frames) and not (self._busy or self._reads_nothing or broker.silent) and self.open

    def _pause_or_resume(self) -> None:
        """Read nothing from a client whose requests wait, also behind one whose response is yet to come: Kafka mutes its channel."""
        if not self._paused and self._waiting_bytes > _PAUSE_BYTES and self.open:
            self._paused = True
            self._transport.pause_reading()
        elif self._paused and self._waiting_bytes <= _PAUSE_BYTES and self.open:
            self._paused = False
            self._transport.resume_reading()

    def _go_on_with(self, login: Login, said: bytes) -> None:
        """One step of a login without headers; nothing can be said of one that fails."""
        try:
            answer = login.step(said)
        except LoginFailed as failed:
            self.broker.note(f"rejected a login from {self.host[1:]}: {failed}")
            self.close()
            return
        if login.user is not None:
            self.logged_in(login.user)
        self._send(len(answer).to_bytes(4, "big") + answer)

    def logged_in(self, user: str) -> None:
        """The login is complete: requests may be as large as `socket.request.max.bytes`."""
        self.user, self.login = user, None
        self._limit = self.broker.cluster.broker_configs.number("socket.request.max.bytes")

    def _header(self, frame: bytes) -> Header:
        """The header of a request; with the request itself if it is the one before again, all but its correlation id.

        Raises `FrameError`.
        """
        last = self._last
        if last is not None and frame[8:] == last[1] and frame[:4] == last[0]:
            return last[2].again(int.from_bytes(frame[4:8], "big", signed=True))
        header = read_header(frame)
        self._last = (frame[:4], frame[8:], header) if len(frame) <= _REPEATED_BYTES else None
        return header

    def answer(self, header: Header, version: int, response: "Message | Pending[Any] | None") -> None:
        """Send a response, now or when it is there; `None` where the client expects none.

        Then the next request has its turn.
        """
        if isinstance(response, Pending):
            if not response.done:
                response.on_complete(lambda found: self._answered_later(header, version, found))
                return
            response = response.response
        if response is not None and self.open and header.large:
            self.broker.cluster.turns.aside(
                partial(encode_message, response, version),
                lambda body: self._encoded_later(header, response, body),
                lambda error: self._unencodable(response, error),
            )
            return
        body: bytes | list[bytes] | None = None
        if response is not None and self.open:
            try:
                body = self._encoded(response, version)
            except Exception as error:  # noqa: BLE001  # not a fault of whoever completed the answer
                self._unencodable(response, error)
        self._answered(header, response, body)

    def _encoded_later(self, header: Header, response: "Message", body: bytes) -> None:
        if self.broker.silent and self.open:
            self._held = (header, header.version, response)
            return
        self._answered(header, response, body if self.open else None)
        self.go_on()

    def _unencodable(self, response: "Message", error: BaseException) -> None:
        self.broker.failed(self, type(response).__name__, error)

    def _answered(self, header: Header, response: "Message | None", body: bytes | list[bytes] | None) -> None:
        """Send a response, if there is one; then the next request has its turn."""
        sent = b""
        if body is not None:
            sent = framed(header, body)
            self._send(sent)
            if self._ending:
                self.close()
        self._busy = False
        if self._meter is not None and header.api is not None:
            self._meter.answered(self.broker.id, header, response, len(sent), perf_counter() - self._began_s)

    def _encoded(self, response: "Message", version: int) -> bytes | list[bytes]:
        """The body of a response.

        A coordinator has one object for all answers that say the same to a member at rest.
        """
        last = self._last_answer
        if last is not None and last[0] is response and last[1] == version:
            return last[2]
        if isinstance(response, FetchResponse):
            return encode_parts(response, version)
        body = encode_message(response, version)
        self._last_answer = (response, version, body) if len(body) <= _REPEATED_BYTES else None
        return body

    def _send(self, sent: bytes) -> None:
        """Send it, with the answers to the requests that came together with this one; none waits for anything but the loop's turn."""
        if not (self._gathers or self._gathered):
            self._transport.write(sent)
            return
        self._gathered.append(sent)
        self._gathered_bytes += len(sent)
        if self._gathered_bytes > _AT_ONCE_BYTES:
            self._send_gathered()

    def _send_gathered(self) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        self._transport.write(b"".join(gathered))

    def _answered_later(self, header: Header, version: int, response: Any) -> None:
        if not self.open:
            return
        if self.broker.silent:
            self._held = (header, version, response)
            return
        self.answer(header, version, response)
        self._go_on()

    def go_on(self) -> None:
        """Send what was held back, and serve what came meanwhile."""
        if self._held is not None and not self.broker.silent:
            held, self._held = self._held, None
            self._answered_later(*held)
        if not self._busy:
            self._go_on()

    def count_quiet(self) -> int:
        """How many times in a row it was asked this without having sent anything; 0 while an answer is awaited."""
        self._quiet_for = 0 if self._busy else self._quiet_for + 1
        return self._quiet_for

    def hold(self, held: bool) -> None:
        """Read nothing from the client, or go on."""
        (self._transport.pause_reading if held else self._transport.resume_reading)()

    def _forget(self) -> None:
        """Let go of requests that nobody answers any more."""
        for frame in (*self._frames, self._large):
            if isinstance(frame, LargeFrame):
                frame.discard()
        self._frames.clear()
        self._large = None
        self._buffer = bytearray()
        self._last = self._last_answer = None

    def close_later(self) -> None:
        """Close behind the answer that is about to be sent."""
        self._ending = True

    def close(self, *, at_once: bool = False) -> None:
        """Close without an answer; `at_once` also without what is still to be sent."""
        self.open = False
        self._forget()
        if self._gathered:
            self._send_gathered()
        if self._transport is not None:
            (self._transport.abort if at_once else self._transport.close)()


def java_address(text: str) -> str:
    """An IP address as Java writes it (InetAddress.getHostAddress): so it stands in groups' records and ACLs."""
    address, _, scope = text.partition("%")
    found = ip_address(address)
    if not isinstance(found, IPv6Address):
        return text
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    groups = ":".join(f"{int(group, 16):x}" for group in found.exploded.split(":"))
    return f"{groups}%{scope}" if scope else groups

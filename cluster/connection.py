"""One client connection: requests are handled one at a time, in order, as in Kafka's brokers.

A request whose response is available at once is completed in the same turn of the loop. If the
response is pending (a waiting fetch, a joining member), later requests of the connection wait.

The module is longer than others, because reading, handling and sending must agree on the order of
responses.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address, ip_address
from struct import Struct
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

_INT32 = Struct(">i")
_PAUSE_BYTES = 1 << 20
"""Reading from the client pauses while more bytes of requests are pending."""

_SERVED_S = 0.005
"""How long one connection's pending requests are served before other connections have a turn."""

_AT_ONCE_BYTES = 1 << 16
"""The maximum size of responses that are sent together."""

_REPEATED_BYTES = 1 << 10
"""The maximum size of a request or response that is kept, so that identical ones (heartbeats,
fetches of a session) are decoded and encoded only once.
"""


class ConnectionHost(Protocol):
    """A connection's view of its broker."""

    id: int
    serving: bool
    silent: bool
    connections: "dict[Connection, None]"
    cluster: SharedCluster

    def admit(self, connection: "Connection") -> bool:
        """Return whether to serve a new connection now."""

    def connection_closed(self, connection: "Connection") -> None:
        """Forget a closed connection."""

    def note(self, text: str, trace: str = "") -> None:
        """Report a problem that is in no response."""

    def failed(self, connection: "Connection", what: str, error: BaseException) -> None:
        """Report an internal error, and close the connection."""

    def serve(self, connection: "Connection", header: Header, frame: bytes) -> None:
        """Handle a request, and send its response."""


class Connection(asyncio.Protocol):
    """A connection of a client.

    `user`: the SASL user, once authenticated. `login`: the authentication in progress. `software`:
    the client's name and version, from ApiVersions.

    `on_lost`: called when the client disconnects; set by a waiting request, and replaced by the
    next.
    """

    def __init__(self, broker: ConnectionHost) -> None:
        self.broker = broker
        self.user: str | None = None
        self.login: Login | None = None
        self.host = ""
        self.port = 0
        self.software = ""
        self.telemetry_id: Uuid | None = None  # of the client instance that pushes metrics
        self.open = True
        self._buffer = bytearray()
        self._large: LargeFrame | None = None  # the large frame that is being received
        self._frames: deque[bytes | LargeFrame] = deque()
        self._waiting_bytes = 0
        self._busy = False
        self._paused = False
        self._write_paused = False
        self._in_turns = False
        self._ending = False
        self._held: tuple[Header, int, Any] | None = None
        self._transport: Any = None
        # During authentication, Kafka's SaslServerAuthenticator limits the size of requests.
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
        self._last: tuple[bytes, bytes, Header] | None = None  # before and after the correlation id
        self._last_encoded: tuple[Message, int, bytes] | None = None
        self.on_lost: Callable[[], object] | None = None

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register a new client connection."""
        self._transport = transport
        if not self.broker.serving:  # accepted while the broker stopped, after it closed its connections
            self.close(at_once=True)
            return
        peer = transport.get_extra_info("peername")
        self.host = f"/{java_address(peer[0])}" if peer else "/127.0.0.1"
        self.port = peer[1] if peer else 0
        if not self.broker.admit(self):
            return
        self.broker.connections[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the closed connection, and drop pending responses."""
        self.open = False
        self._forget()
        self.broker.connection_closed(self)
        if self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        """Stop handling requests while the client does not read responses."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """Handle requests again after the client has read responses."""
        self._write_paused = False
        self.resume()

    def data_received(self, data: bytes) -> None:
        """Receive bytes of requests."""
        self._quiet_for = 0
        if self._meter is not None:
            self._meter.received_bytes[self.broker.id] += len(data)
        size = len(data) - 4
        if (
            not (self._buffer or self._frames or self._busy or self._in_turns or self._write_paused)
            and self._large is None
            and 0 <= size <= self._limit
            and size == _INT32.unpack_from(data)[0]
            and self.open
            and not self.broker.silent
        ):  # exactly one request, to be served at once: the usual case
            try:
                self._serve_one(data[4:])
            except Exception as error:  # noqa: BLE001  # reported
                self._failed(error)
            return
        self._received(data)
        if self._busy:
            self._pause_or_resume()
        else:
            self._serve_pending()

    def _received(self, data: bytes) -> None:
        """Receive any number of requests, or a part of one."""
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
        buffer = self._buffer
        if not buffer:
            self._buffer += data[self._split(data) :]
            return
        buffer += data
        del buffer[: self._split(buffer)]

    def _split(self, buffer: bytes | bytearray) -> int:
        """Split bytes into frames; return the position after the last whole one.

        A large frame that is incomplete moves into memory of its own.
        """
        position, end = 0, len(buffer)
        while position + 4 <= end:
            (size,) = _INT32.unpack_from(buffer, position)
            if not 0 <= size <= self._limit:
                problem = f"request of {size} bytes exceeds the limit of {self._limit}"
                if size < 0:
                    problem = f"request of negative size {size}"
                self.broker.note(f"closed a connection of {self.host[1:]}: {problem}")
                self.close()
                return end
            following = position + 4 + size
            if following > end:
                if end - position > LARGE_BYTES:
                    self._begin_large(size, buffer[position + 4 :])
                    position = end
                break
            self._frames.append(bytes(buffer[position + 4 : following]))
            self._waiting_bytes += following - position
            position = following
        return position

    def _begin_large(self, size: int, data: bytes | bytearray) -> None:
        try:
            self._large = LargeFrame(size, self.broker.cluster.frame_memory)
        except OSError as error:
            self.broker.note(
                f"closed a connection of {self.host[1:]}: no memory for a request of {size} bytes: {error.strerror}"
            )
            self.close()
            return
        self._large.add(data)

    # ---- requests

    def _serve_pending(self) -> None:
        """Serve pending requests, all in this turn of the loop if that does not take long."""
        try:
            has_more = not self._in_turns and self._serve()
        except Exception as error:  # noqa: BLE001  # reported
            self._failed(error)
            return
        if has_more:
            self._in_turns = True
            self.broker.cluster.turns.run(self._serve_in_turns(), self._served, self._failed)

    def _serve_in_turns(self) -> Work[None]:
        while True:
            yield None
            if not self._serve():
                return

    def _served(self, _: None) -> None:
        self._in_turns = False

    def _failed(self, error: BaseException) -> None:
        self._in_turns = False
        self.broker.failed(self, "serving requests", error)

    def _serve(self) -> bool:
        """Serve requests for a while; return whether more could be served now."""
        frames, broker = self._frames, self.broker
        until = perf_counter() + _SERVED_S
        while frames and not (self._busy or self._write_paused or broker.silent) and self.open:
            frame = frames.popleft()
            self._waiting_bytes -= len(frame) + 4
            self._gathers = bool(frames)
            self._serve_one(frame.take() if isinstance(frame, LargeFrame) else frame)
            if perf_counter() > until:
                break
        self._gathers = False
        if self._gathered:
            self._send_gathered()
        if self._paused or self._waiting_bytes > _PAUSE_BYTES:
            self._pause_or_resume()
        return bool(frames) and not (self._busy or self._write_paused or broker.silent) and self.open

    def _serve_one(self, frame: bytes) -> None:
        """Serve a request; the connection is busy until its response is sent."""
        if self.login is not None and self.login.bare:
            self._authenticate(self.login, frame)
            return
        try:
            header = self._header(frame)
        except FrameError as error:
            self.broker.note(f"closed a connection of {self.host[1:]}: {error}")
            self.close()
            return
        self._busy = True
        if self._meter is not None:
            self._began_s = perf_counter()
        self.broker.serve(self, header, frame)

    def _pause_or_resume(self) -> None:
        """Stop reading while too many requests are pending, as Kafka mutes a channel."""
        if not self._paused and self._waiting_bytes > _PAUSE_BYTES and self.open:
            self._paused = True
            self._transport.pause_reading()
        elif self._paused and self._waiting_bytes <= _PAUSE_BYTES and self.open:
            self._paused = False
            self._transport.resume_reading()

    def _authenticate(self, login: Login, token: bytes) -> None:
        """Handle one SASL token without Kafka headers; a failed login gets no response."""
        try:
            reply = login.step(token)
        except LoginFailed as failed:
            self.broker.note(f"rejected a login from {self.host[1:]}: {failed}")
            self.close()
            return
        if login.user is not None:
            self.logged_in(login.user)
        self._send(len(reply).to_bytes(4, "big") + reply)

    def logged_in(self, user: str) -> None:
        """Complete the authentication: from now on `socket.request.max.bytes` limits requests."""
        self.user, self.login = user, None
        self._limit = self.broker.cluster.broker_configs.number("socket.request.max.bytes")

    def _header(self, frame: bytes) -> Header:
        """Return a request's header; if it repeats the last request, with the decoded request.

        Only the correlation id may differ. Raises `FrameError`.
        """
        last = self._last
        if last is not None and frame[8:] == last[1] and frame[:4] == last[0]:
            header = last[2]  # its last request is complete
            header.correlation_id, header.large = _INT32.unpack_from(frame, 4)[0], False
            return header
        header = read_header(frame)
        self._last = (frame[:4], frame[8:], header) if len(frame) <= _REPEATED_BYTES else None
        return header

    def respond(self, header: Header, version: int, response: "Message | Pending[Any] | None") -> None:
        """Send a response, now or when it completes; `None` if the client expects none.

        Then the next request is handled.
        """
        if isinstance(response, Pending):
            if not response.done:
                response.on_complete(lambda found: self._respond_later(header, version, found))
                return
            response = response.response
        if response is not None and self.open and header.large:
            self.broker.cluster.turns.in_thread(
                partial(encode_message, response, version),
                lambda body: self._encoded_later(header, response, body),
                lambda error: self._unencodable(response, error),
            )
            return
        body: bytes | list[bytes] | None = None
        last = self._last_encoded
        if response is None or not self.open:
            pass
        elif last is not None and last[0] is response and last[1] == version:
            body = last[2]
        else:
            try:
                body = self._encoded(response, version)
            except Exception as error:  # noqa: BLE001  # must not reach the code that completed the response
                self._unencodable(response, error)
        self._complete(header, response, body)

    def _encoded_later(self, header: Header, response: "Message", body: bytes) -> None:
        if self.broker.silent and self.open:
            self._held = (header, header.version, response)
            return
        self._complete(header, response, body if self.open else None)
        self.resume()

    def _unencodable(self, response: "Message", error: BaseException) -> None:
        self.broker.failed(self, type(response).__name__, error)

    def _complete(self, header: Header, response: "Message | None", body: bytes | list[bytes] | None) -> None:
        """Send an encoded response, if any, and complete the request."""
        sent = b""
        if body is not None:
            sent = framed(header, body)
            self._send(sent)
            if self._ending:
                self.close()
        self._busy = False
        if self._meter is not None and header.api is not None:
            self._meter.record(self.broker.id, header, response, len(sent), perf_counter() - self._began_s)

    def _encoded(self, response: "Message", version: int) -> bytes | list[bytes]:
        """Return the encoded body of a response.

        A coordinator uses the same object for identical responses to members in a stable group,
        which `respond` does not encode again.
        """
        if isinstance(response, FetchResponse):
            return encode_parts(response, version)
        body = encode_message(response, version)
        self._last_encoded = (response, version, body) if len(body) <= _REPEATED_BYTES else None
        return body

    def _send(self, sent: bytes) -> None:
        """Send bytes, together with responses to other requests that arrived with this one."""
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

    def _respond_later(self, header: Header, version: int, response: Any) -> None:
        if not self.open:
            return
        if self.broker.silent:
            self._held = (header, version, response)
            return
        self.respond(header, version, response)
        self._serve_pending()

    def resume(self) -> None:
        """Send a held response, and serve pending requests."""
        if self._held is not None and not self.broker.silent:
            held, self._held = self._held, None
            self._respond_later(*held)
        if not self._busy:
            self._serve_pending()

    def count_quiet(self) -> int:
        """Return how many idle checks in a row found no activity; 0 while a response is pending."""
        self._quiet_for = 0 if self._busy else self._quiet_for + 1
        return self._quiet_for

    def hold(self, held: bool) -> None:
        """Serve no request of the client, or serve its requests from now on."""
        self._busy = held
        if not held:
            self._serve_pending()

    def _forget(self) -> None:
        """Release pending requests, which get no response."""
        for frame in (*self._frames, self._large):
            if isinstance(frame, LargeFrame):
                frame.discard()
        self._frames.clear()
        self._large = None
        self._buffer = bytearray()
        self._last = self._last_encoded = None

    def close_later(self) -> None:
        """Close after the next response is sent."""
        self._ending = True

    def close(self, *, at_once: bool = False) -> None:
        """Close without a response; with `at_once`, also drop data that is not sent yet."""
        self.open = False
        self._forget()
        if self._gathered:
            self._send_gathered()
        if self._transport is not None:
            (self._transport.abort if at_once else self._transport.close)()


def java_address(text: str) -> str:
    """Return an IP address in Java's form, as in groups' records and ACLs (InetAddress)."""
    address, _, scope = text.partition("%")
    found = ip_address(address)
    if not isinstance(found, IPv6Address):
        return text
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    groups = ":".join(f"{int(group, 16):x}" for group in found.exploded.split(":"))
    return f"{groups}%{scope}" if scope else groups

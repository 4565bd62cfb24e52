"""`Trace`: what happened in a schedule, and the hash by which two runs are compared.

Each event of the network, each fault and each note is part of the hash, with its virtual time and
the number of steps before it. Events are kept only on request, and Kafka's messages are decoded
only when the trace is written.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from quorate.cluster.frames import FrameError, read_header
from quorate.codecs.api.body import decode_api
from quorate.codecs.errors import DecodeError
from quorate.codecs.message import Message
from quorate.simulation.loop import SimulatedLoop
from quorate.simulation.network import SimulatedTransport

_LONGEST = 300


class TraceEvent(NamedTuple):
    """`connection`: its number, or 0. `end`: "client" or "server". `text`: of faults and notes."""

    at_ns: int
    step: int
    kind: str
    connection: int
    end: str
    data: bytes
    text: str = ""


class Trace:
    """`keeps`: whether events are kept; otherwise only their hash and number."""

    def __init__(self, loop: SimulatedLoop, *, keeps: bool) -> None:
        self.events: list[TraceEvent] = []
        self.count = 0
        self.steps: list[tuple[int, str]] = []
        self._loop = loop
        self._keeps = keeps
        self._hash = blake2b(digest_size=16)
        loop.network.on_event = self._happened
        if keeps:
            loop.on_step = self._stepped

    @property
    def hash(self) -> str:
        """The hash of all events so far."""
        return self._hash.hexdigest()

    def _stepped(self, what: str) -> None:
        self.steps.append((self._loop.now_ns, what))

    def _happened(self, kind: str, end: SimulatedTransport, data: bytes) -> None:
        link = end.link
        self._add(kind, link.number, "client" if end is link.client else "server", data)

    def note(self, kind: str, text: str) -> None:
        """Add a fault ("fault"), or a line of the scenario ("note")."""
        self._add(kind, 0, "", b"", text)

    def end(self) -> None:
        """Make the virtual time and the number of steps at the end part of the hash."""
        self._hash.update(f"end {self._loop.now_ns} {self._loop.steps}".encode())

    def _add(self, kind: str, connection: int, end: str, data: bytes, text: str = "") -> None:
        loop = self._loop
        self.count += 1
        self._hash.update(f"{loop.now_ns} {loop.steps} {kind} {connection} {end} {text}\n".encode())
        self._hash.update(data)
        if self._keeps:
            self.events.append(TraceEvent(loop.now_ns, loop.steps, kind, connection, end, data, text))

    def entries(self) -> Iterator["Entry"]:
        """Return what happened, with Kafka's messages decoded."""
        return _entries(self.events)

    def text(self, last: int | None = None) -> str:
        """Return a line for each request, response, fault and note, or for the last ones."""
        lines = [str(entry) for entry in self.entries()]
        left_out = 0 if last is None else max(0, len(lines) - last)
        return "\n".join(([f"({left_out:,} earlier lines)"] if left_out else []) + lines[left_out:])


@dataclass(slots=True)
class Entry:
    """A line of a trace.

    `arrives_ns`: when all of a message has arrived; `None` if it was lost.
    """

    at_ns: int
    kind: str
    connection: int
    source: str
    target: str
    api: str
    text: str
    arrives_ns: int | None = None

    def __str__(self) -> str:
        at = f"{self.at_ns / 1e9:12.6f}"
        if self.kind in ("fault", "note"):
            return f"{at}  {self.kind.upper() if self.kind == 'fault' else self.kind}: {self.text}"
        if self.kind not in ("request", "response"):
            return f"{at}  #{self.connection} {self.source} {self.kind} {self.text}".rstrip()
        took = "lost" if self.arrives_ns is None else f"+{(self.arrives_ns - self.at_ns) / 1e6:.2f} ms"
        return f"{at}  #{self.connection} {self.source} -> {self.target} ({took})  {self.api} {self.text}"


class _Stream:
    """One direction of a connection: bytes to frames, and when they arrive."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.sent = 0
        self.received = 0
        self.waiting: list[tuple[int, Entry]] = []

    def frames(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Add sent bytes; return whole frames, and where each ends in the stream."""
        self.buffer += data
        self.sent += len(data)
        while len(self.buffer) >= 4:
            size = int.from_bytes(self.buffer[:4], "big", signed=True)
            if size < 0 or len(self.buffer) < 4 + size:
                return
            frame = bytes(self.buffer[4 : 4 + size])
            del self.buffer[: 4 + size]
            yield self.sent - len(self.buffer), frame

    def arrived(self, count: int, at_ns: int) -> None:
        self.received += count
        while self.waiting and self.waiting[0][0] <= self.received:
            self.waiting.pop(0)[1].arrives_ns = at_ns


def _entries(events: list[TraceEvent]) -> Iterator[Entry]:
    streams: dict[tuple[int, str], _Stream] = {}
    requests: dict[tuple[int, int], Any] = {}
    names: dict[int, str] = {}
    found: list[Entry] = []
    for event in events:
        connection = event.connection
        here = names.get(connection, "client") if event.end == "client" else "broker"
        if event.kind in ("fault", "note"):
            found.append(Entry(event.at_ns, event.kind, 0, "", "", "", event.text))
        elif event.kind == "receive":
            other = "server" if event.end == "client" else "client"
            streams.setdefault((connection, other), _Stream()).arrived(len(event.data), event.at_ns)
        elif event.kind == "send":
            stream = streams.setdefault((connection, event.end), _Stream())
            for ends, frame in stream.frames(event.data):
                entry = _message(event, frame, requests, names)
                stream.waiting.append((ends, entry))
                found.append(entry)
        elif event.kind != "end":
            text = event.data.decode(errors="replace")
            found.append(Entry(event.at_ns, event.kind, connection, here, "", "", text))
    return iter(found)


def _message(event: TraceEvent, frame: bytes, requests: dict[tuple[int, int], Any], names: dict[int, str]) -> Entry:
    """Return a request or response, decoded as far as possible."""
    connection = event.connection
    try:
        if event.end == "client":
            header = read_header(frame)
            requests[connection, header.correlation_id] = header
            names[connection] = header.client_id or "client"
            name = header.api.name if header.api else f"API {header.api_key}"
            text = ""
            if header.api is not None and header.known:
                text = summary(decode_api(header.api.request.cls, frame, header.version, position=header.body))
            return Entry(
                event.at_ns, "request", connection, names[connection], "broker", f"{name}v{header.version}", text
            )
        header = requests.pop((connection, int.from_bytes(frame[:4], "big", signed=True)))
        position = 4 + header.tagged_response
        text = summary(decode_api(header.api.response.cls, frame, header.version, position=position))
        name = f"{header.api.name}v{header.version}"
    except (FrameError, DecodeError, KeyError, AttributeError):
        name, text = "bytes", f"{len(frame)} bytes"
    target = names.get(connection, "client")
    return Entry(event.at_ns, "response", connection, "broker", target, name, text)


def summary(message: Message) -> str:
    """Return the fields of a message that have no default, in one line."""
    text = _value(message)[1:-1]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _value(value: Any) -> str:
    if isinstance(value, Message):
        parts = []
        for spec in value.spec.fields:
            one = getattr(value, spec.name)
            if one not in (None, (), b"", "", -1) and (one or spec.name == "error_code" or "index" in spec.name):
                parts.append(f"{spec.name}={_value(one)}")
        return "(" + " ".join(parts) + ")"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    return str(value)

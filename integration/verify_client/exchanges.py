"""`Exchange`: a request of the client with its response, decoded, and when both were on the wire.

`WireLog` collects them from an embedded cluster. It knows nothing of rules.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from quorate.cluster.connection import Connection
from quorate.cluster.embedded import EmbeddedCluster
from quorate.cluster.frames import FrameError, read_header
from quorate.cluster.observed import ObservedConnection
from quorate.codecs.api import api_of
from quorate.codecs.api.body import decode_api
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.error_responses import error_codes_in
from quorate.codecs.errors import DecodeError
from quorate.codecs.releases import NAMES
from quorate.simulation.trace import summary

OWN_CLIENT_ID = "quorate-verify-client"
"""The client id of what the judge itself sends; the log leaves it out."""


@dataclass(slots=True, eq=False)
class ClientLink:
    """A connection of the client. Times are in seconds since the start of the scenario.

    `program`: the number of the program that opened it, 0 if several could have.
    """

    number: int
    broker: int
    opened_s: float
    program: int
    client_id: str = ""
    closed_s: float | None = None
    own: bool = False
    pending: "dict[int, Exchange]" = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Exchange:
    """A request, and its response if there was one.

    `at_s`: when the request had arrived. `responded_s`: when the response was sent. `request` is
    `None` if it could not be decoded, `text` says why. `errors`: the error codes in the response.
    """

    at_s: float
    link: ClientLink
    api_key: int
    api: str
    version: int
    request: Any = None
    response: Any = None
    responded_s: float | None = None
    text: str = ""
    errors: frozenset[ErrorCode] = frozenset()

    @property
    def error(self) -> ErrorCode:
        """The error code at the top of the response; NONE also without a response."""
        return ErrorCode(getattr(self.response, "error_code", 0))

    def __str__(self) -> str:
        sent = summary(self.request) if self.request is not None else self.text
        where = f"{self.at_s:7.3f} s  connection {self.link.number}, broker {self.link.broker}"
        lines = f"{where}: {self.api} v{self.version} {sent}"
        if self.responded_s is None:
            return f"{lines}\n           no response"
        codes = ", ".join(sorted(code.name for code in self.errors))
        found = summary(self.response) if self.response is not None else "not decoded"
        return f"{lines}\n{self.responded_s:7.3f} s    {codes or 'response'}: {found}"


class WireLog:
    """The exchanges of all connections to a cluster, in the order in which requests arrived.

    `program_of`: returns the number of the program to which a new connection belongs, by its
    client id, or 0. Other threads may read `exchanges` and `links`, which only grow.
    """

    def __init__(self, program_of: Callable[[str], int]) -> None:
        self.exchanges: list[Exchange] = []
        self.links: list[ClientLink] = []
        self._program_of = program_of
        self._began_s = time.monotonic()
        self._open: dict[Connection, ClientLink] = {}

    def observe(self, cluster: EmbeddedCluster) -> None:
        """Observe the connections of a cluster that is not started yet."""
        for broker in cluster.core.brokers.values():
            broker.new_connection = partial(ObservedConnection, observer=self)

    def now_s(self) -> float:
        """Return the time in the log."""
        return time.monotonic() - self._began_s

    # ---- ConnectionObserver

    def opened(self, connection: Connection) -> None:
        """Notice a new connection."""
        link = ClientLink(len(self.links) + 1, connection.broker.id, self.now_s(), self._program_of(""))
        self._open[connection] = link
        self.links.append(link)

    def received(self, connection: Connection, frame: bytes) -> None:
        """Decode a request."""
        link, at_s = self._open[connection], self.now_s()
        try:
            header = read_header(frame)
        except FrameError as error:
            self.exchanges.append(Exchange(at_s, link, -1, "unreadable", -1, text=str(error)))
            return
        if header.client_id.startswith(OWN_CLIENT_ID):
            link.own = True
            return
        link.client_id = header.client_id
        link.program = self._program_of(header.client_id) or link.program
        name = NAMES.get(header.api_key, f"API {header.api_key}")
        exchange = Exchange(at_s, link, header.api_key, name, header.version)
        if header.api is not None and header.known:
            try:
                exchange.request = decode_api(header.api.request.cls, frame, header.version, position=header.body)
            except DecodeError as error:
                exchange.text = str(error)
        else:
            exchange.text = "unknown version"
        link.pending[header.correlation_id] = exchange
        self.exchanges.append(exchange)

    def sent(self, connection: Connection, frame: bytes) -> None:
        """Decode the response to a request."""
        link = self._open[connection]
        exchange = link.pending.pop(int.from_bytes(frame[:4], "big", signed=True), None)
        if exchange is None:
            return
        exchange.responded_s = self.now_s()
        if exchange.request is not None:
            api = api_of(type(exchange.request))
            position = 4 + api.response_header_version(exchange.version)
            try:
                exchange.response = decode_api(api.response.cls, frame, exchange.version, position=position)
            except DecodeError:  # ApiVersions of an unsupported version has a response of version 0
                return
            exchange.errors = frozenset(map(ErrorCode, error_codes_in(exchange.response)))

    def closed(self, connection: Connection) -> None:
        """Notice the end of a connection."""
        self._open.pop(connection).closed_s = self.now_s()

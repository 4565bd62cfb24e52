"""Listening sockets of a broker: opening them, accepting connections, closing them.

A `Listener` accepts all pending connections in one turn of the loop. So do asyncio's own servers,
but uvloop's accept one per turn: in a storm of joining members, those that are connected keep the
loop busy, and the others wait.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from ssl import SSLContext
from typing import Any, Protocol

_BACKLOG = 1024
"""The maximum number of connections that wait until they are accepted."""

_RETRY_S = 1
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""After these errors no connection is accepted for `_RETRY_S` seconds, as in asyncio."""

_NOT_HERE = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""These errors are ignored if a host has other addresses, as of IPv6 for `localhost`."""


class Listening(Protocol):
    """Open listening sockets."""

    port: int

    def close(self) -> None:
        """Stop listening; connections stay open."""


async def listen(
    new_protocol: Callable[[], asyncio.Protocol], host: str, port: int, tls: SSLContext | None
) -> Listening:
    """Listen on all addresses of a host, and create a protocol for each connection.

    `port`: 0 for a free one. Raises `OSError`.
    """
    loop = asyncio.get_running_loop()
    if type(loop).add_reader is asyncio.AbstractEventLoop.add_reader:
        # Not implemented: a simulation, or Windows' proactor loop.
        return _LoopsServer(await loop.create_server(new_protocol, host, port, backlog=_BACKLOG, ssl=tls))
    return Listener(loop, new_protocol, _open(await _addresses(loop, host), port), tls)


class _LoopsServer:
    """A server of a loop that cannot wait for a socket of ours."""

    def __init__(self, server: asyncio.Server) -> None:
        self.port: int = server.sockets[0].getsockname()[1]
        self.close = server.close


class Listener:
    """Accepts connections of listening sockets, which it owns."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        new_protocol: Callable[[], asyncio.Protocol],
        sockets: list[socket.socket],
        tls: SSLContext | None,
    ) -> None:
        self.port: int = sockets[0].getsockname()[1]
        self._loop = loop
        self._new_protocol = new_protocol
        self._sockets = sockets
        self._tls = tls
        for listening in sockets:
            self._accept_from(listening)

    def close(self) -> None:
        """Stop listening; connections stay open."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets = []

    def _accept_from(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept all pending connections."""
        for _ in range(_BACKLOG):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                problem = {"message": "accepting connections failed", "exception": error}
                self._loop.call_exception_handler(problem)
                self._loop.remove_reader(listening)  # which stays readable
                self._loop.call_later(_RETRY_S, self._accept_from, listening)
                return
            self._loop.create_task(self._connect(accepted))

    async def _connect(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # the TLS handshake failed, or the client has gone
            await self._loop.connect_accepted_socket(self._new_protocol, accepted, ssl=self._tls)


async def _addresses(loop: asyncio.AbstractEventLoop, host: str) -> list[tuple[Any, Any]]:
    """Return families and addresses of a host, as in `getaddrinfo`; only a name takes a thread."""
    try:
        ip_address(host)
    except ValueError:
        found: Any = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    else:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, address) for family, *_, address in found))


def _open(addresses: list[tuple[Any, Any]], port: int) -> list[socket.socket]:
    """Open a listening socket for each address, all on the same port."""
    sockets: list[socket.socket] = []
    not_here: OSError | None = None
    try:
        for family, (host, _, *rest) in addresses:
            try:
                listening = socket.create_server((host, port, *rest), family=family, backlog=_BACKLOG)
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                not_here = error
                continue
            sockets.append(listening)
            listening.setblocking(False)
            port = listening.getsockname()[1]
        if not_here is not None and not sockets:
            raise not_here
    except BaseException:
        for listening in sockets:
            listening.close()
        raise
    return sockets

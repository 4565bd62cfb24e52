"""The HTTP server: uvicorn in a thread of its own."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

import uvicorn

from quorate.watch.metrics import MetricsOptions
from quorate.watch.model import Watched
from quorate.watch.web.access import WebAccess, is_loopback
from quorate.watch.web.application import with_stream

MOST_CONNECTIONS = 512
SHUTDOWN_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A running server: its address, and the port, which was chosen if 0 was given."""

    url: str
    port: int


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises `OSError` for a port in use or an unknown address."""
    flags = socket.AI_PASSIVE
    family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=flags)[0]
    listening = socket.create_server(address[:2], family=family, backlog=MOST_CONNECTIONS)
    # asyncio sets it only for sockets that name a protocol. Responses would wait 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


@contextmanager
def serve(
    watched: Watched,
    host: str = "127.0.0.1",
    port: int = 8090,
    *,
    access: WebAccess | None = None,
    metrics: MetricsOptions | None = None,
    listening: socket.socket | None = None,
) -> Iterator[Serving]:
    """Serve the page while the block runs.

    `listening`: the result of `listen` for this address, so that clients wait until the page is
    served. Raises `AccessError` if a server on `host` would need a login, and `OSError` if the port
    is in use or the address unknown.
    """
    access = access or WebAccess()
    access.check(host)
    bare = host.strip("[]")
    application, stream = with_stream(watched, access, metrics, loopback=is_loopback(bare))
    with listening or listen(host, port) as listening:
        bound = listening.getsockname()[1]
        server = uvicorn.Server(
            uvicorn.Config(
                application,
                access_log=False,
                date_header=True,
                limit_concurrency=MOST_CONNECTIONS,
                log_config=None,
                log_level=logging.WARNING,
                proxy_headers=False,  # WebAccess checks the address of the connection, not what a header says
                server_header=False,
                timeout_graceful_shutdown=SHUTDOWN_S,
                ws="none",
            )
        )
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="quorate-watch-http", daemon=True)
        thread.start()
        try:
            name = f"[{bare}]" if ":" in bare else bare
            yield Serving(url=f"http://{name}:{bound}/", port=bound)
        finally:
            stream.close()
            server.should_exit = True
            thread.join()

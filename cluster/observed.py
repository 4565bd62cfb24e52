"""`ObservedConnection`: a client connection whose bytes an observer sees, frame by frame.

An observer sees requests when they arrive, before earlier ones of the connection are handled, and
also those that the broker rejects. Other connections have no cost of it.
"""

from typing import Protocol

from quorate.cluster.connection import Connection, ConnectionHost

_LONGEST = 1 << 30


class ConnectionObserver(Protocol):
    """Is notified of connections, in the cluster's thread. Frames are without their size."""

    def opened(self, connection: Connection) -> None:
        """Notice a new connection."""

    def received(self, connection: Connection, frame: bytes) -> None:
        """Notice a request that has arrived."""

    def sent(self, connection: Connection, frame: bytes) -> None:
        """Notice a response that is sent."""

    def closed(self, connection: Connection) -> None:
        """Notice the end of a connection."""


class ObservedConnection(Connection):
    """A connection that notifies `observer`."""

    def __init__(self, broker: ConnectionHost, observer: ConnectionObserver) -> None:
        super().__init__(broker)
        self._observer = observer
        self._unobserved = bytearray()

    def connection_made(self, transport: object) -> None:
        """Register a new client connection."""
        super().connection_made(transport)  # type: ignore[arg-type]  # asyncio's own type is wider
        self._observer.opened(self)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of requests, after the observer has seen complete ones."""
        waiting = self._unobserved
        waiting += data
        while len(waiting) >= 4:
            size = int.from_bytes(waiting[:4], "big")
            if size > _LONGEST:
                waiting.clear()  # no frame: the connection will be closed
            if len(waiting) < 4 + size or not waiting:
                break
            self._observer.received(self, bytes(waiting[4 : 4 + size]))
            del waiting[: 4 + size]
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the closed connection."""
        super().connection_lost(exc)
        self._observer.closed(self)

    def _send(self, sent: bytes) -> None:
        self._observer.sent(self, sent[4:])
        super()._send(sent)

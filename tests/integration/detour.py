"""`Detour`: a SOCKS5 proxy, with which the network of a single client can be cut.

kafka-python uses it as `proxy_url`. A cut holds bytes back and keeps connections open, like a
firewall that drops packets. After healing, the held bytes are sent. New connections are accepted
meanwhile: kafka-python uses a whole core until a proxy responds.
"""

import socket
import struct
import threading
from contextlib import suppress
from typing import Self


class Detour:
    """Passes connections on to ports of 127.0.0.1, as long as the way to the port is not cut."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._server]
        self._open: dict[int, threading.Event] = {}
        self.url = f"socks5://127.0.0.1:{self._server.getsockname()[1]}"
        self._in_thread(self._accept)

    def cut(self, port: int) -> None:
        """Let nothing through to a port, nor back."""
        self._way_to(port).clear()

    def heal(self) -> None:
        """Let everything through again."""
        for way in list(self._open.values()):
            way.set()

    def close(self) -> None:
        """End all connections."""
        self.heal()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _way_to(self, port: int) -> threading.Event:
        if port not in self._open:
            self._open[port] = threading.Event()
            self._open[port].set()
        return self._open[port]

    def _accept(self) -> None:
        while True:
            client, _ = self._server.accept()
            self._sockets.append(client)
            self._in_thread(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        _, methods = struct.unpack("BB", _exactly(client, 2))
        _exactly(client, methods)
        client.sendall(b"\x05\x00")  # no password
        _, _, _, kind = struct.unpack("BBBB", _exactly(client, 4))
        assert kind == 1, "an IPv4 address"
        host, port = socket.inet_ntoa(_exactly(client, 4)), struct.unpack("!H", _exactly(client, 2))[0]
        assert host == "127.0.0.1"
        way = self._way_to(port)
        try:
            broker = socket.create_connection((host, port), 30)
        except OSError:
            client.sendall(b"\x05\x05\x00\x01" + bytes(6))  # refused
            client.close()
            return
        broker.settimeout(None)
        self._sockets.append(broker)
        client.sendall(b"\x05\x00\x00\x01" + bytes(6))
        self._in_thread(self._pump, client, broker, way)
        self._pump(broker, client, way)

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket, way: threading.Event) -> None:
        while data := source.recv(65_536):
            way.wait()
            sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    @staticmethod
    def _in_thread(function: object, *arguments: object) -> None:
        def run() -> None:
            with suppress(OSError, EOFError):  # either side went away
                function(*arguments)  # type: ignore[operator]

        threading.Thread(target=run, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data

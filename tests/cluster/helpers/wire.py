"""A raw client: sends exactly the given frames over a socket, unlike real clients."""

import socket
from struct import Struct
from types import TracebackType
from typing import Any, Self

from quorate.codecs.api import api_of, decode_api, encode_api
from quorate.codecs.api.broker import SaslAuthenticateRequest, SaslHandshakeRequest
from quorate.codecs.message import Message

HEADER = Struct(">hhih")


class Wire:
    """One connection. `user`: for SASL/PLAIN; the password is the user name."""

    def __init__(
        self,
        port: int,
        client_id: str = "wire",
        timeout_s: float = 300,
        user: str | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.client_id = client_id.encode()
        self.correlation_id = 0
        if user is not None:
            assert self.request(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            token = f"\0{user}\0{user}".encode()
            assert self.request(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, request: Message, version: int) -> None:
        api = api_of(type(request))
        self.correlation_id += 1
        head = HEADER.pack(api.key, version, self.correlation_id, len(self.client_id)) + self.client_id
        head += b"\0" if api.request_header_version(version) == 2 else b""
        body = encode_api(request, version)
        self.socket.sendall((len(head) + len(body)).to_bytes(4, "big") + head + body)

    def receive(self, request: type[Message], version: int) -> Any:
        api = api_of(request)
        frame = self.frame()
        assert int.from_bytes(frame[:4], "big") == self.correlation_id
        return decode_api(api.response.cls, frame, version, position=4 + api.response_header_version(version))

    def request(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.receive(type(request), version)

    def frame(self) -> bytes:
        return self.exactly(int.from_bytes(self.exactly(4), "big"))

    def exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self.socket.recv(count - len(found))
            if not more:
                raise ConnectionError("closed")
            found += more
        return found

    def is_closed(self) -> bool:
        """Return whether the broker closes the connection without sending anything."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

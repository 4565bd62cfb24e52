"""One blocking connection to a broker, which sends any request, also one that no client would send.

It knows TLS and SASL (by kafka-python's mechanisms), and no retries and no cluster.
"""

import socket
import ssl
from collections.abc import Mapping
from struct import Struct
from typing import Any

from quorate.cluster.errors import ClusterError
from quorate.codecs.api import api_of, decode_api, encode_api
from quorate.codecs.api.broker import SaslAuthenticateRequest, SaslHandshakeRequest
from quorate.codecs.message import Message

_HEADER = Struct(">hhih")
"""API key, version, correlation id, length of the client id."""


def framed(request: Message, version: int, correlation_id: int = 1, client_id: str = "quorate") -> bytes:
    """Return the bytes of a request, with size and header."""
    api = api_of(type(request))
    flexible = api.request_header_version(version) == 2
    return _framed(api.key, version, encode_api(request, version), correlation_id, client_id, flexible=flexible)


def _framed(api_key: int, version: int, body: bytes, correlation_id: int, client_id: str, *, flexible: bool) -> bytes:
    name = client_id.encode()
    head = _HEADER.pack(api_key, version, correlation_id, len(name)) + name + b"\0" * flexible
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


class RawConnection:
    """A connection to `host` and `port`.

    `config`: kafka-python's configs of TLS and SASL. `timeout_s`: of each response. Raises
    `OSError`, and `ClusterError` if the broker rejects the login.
    """

    def __init__(
        self,
        host: str,
        port: int,
        config: Mapping[str, Any] | None = None,
        *,
        client_id: str = "quorate-verify",
        timeout_s: float = 30,
    ) -> None:
        self._config = config or {}
        self._client_id = client_id
        self.correlation_id = 0
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        try:
            protocol = self._config.get("security_protocol", "PLAINTEXT")
            if protocol.endswith("SSL"):
                self.socket = self._tls().wrap_socket(self.socket, server_hostname=host)
            if protocol.startswith("SASL"):
                self._log_in(f"{host}:{port}")
        except BaseException:
            self.socket.close()
            raise

    def _tls(self) -> ssl.SSLContext:
        if context := self._config.get("ssl_context"):
            assert isinstance(context, ssl.SSLContext)
            return context
        context = ssl.create_default_context(cafile=self._config.get("ssl_cafile"))
        if self._config.get("ssl_check_hostname") is False:
            context.check_hostname = False
        if certificate := self._config.get("ssl_certfile"):
            context.load_cert_chain(certificate, self._config.get("ssl_keyfile"), self._config.get("ssl_password"))
        return context

    def _log_in(self, address: str) -> None:
        from kafka.net.sasl import get_sasl_mechanism

        name = self._config.get("sasl_mechanism", "PLAIN")
        mechanism = get_sasl_mechanism(name)(host=address.rpartition(":")[0], **self._config)
        shaken = self.request(SaslHandshakeRequest(mechanism=name), 1)
        if shaken.error_code:
            offered = ", ".join(shaken.mechanisms)
            raise ClusterError(f"{address} does not accept the SASL mechanism {name}", f"it accepts {offered}")
        while not mechanism.is_done():
            done = self.request(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()), 2)
            if done.error_code:
                raise ClusterError(f"{address} rejected the login: {done.error_message}")
            mechanism.receive(done.auth_bytes)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def request(self, request: Message, version: int) -> Any:
        """Send a request and return the response."""
        self.send(request, version)
        return self.receive(type(request), version)

    def send(self, request: Message, version: int) -> None:
        """Send a request; `receive` returns its response."""
        self.correlation_id += 1
        self.socket.sendall(framed(request, version, self.correlation_id, self._client_id))

    def send_raw(self, api_key: int, version: int, body: bytes, *, flexible: bool) -> None:
        """Send any body with a header. `flexible`: whether the header has tagged fields."""
        self.correlation_id += 1
        frame = _framed(api_key, version, body, self.correlation_id, self._client_id, flexible=flexible)
        self.socket.sendall(frame)

    def receive(self, request: type[Message], version: int) -> Any:
        """Return the response to the request that was sent last."""
        api = api_of(request)
        frame = self.frame()
        if int.from_bytes(frame[:4], "big") != self.correlation_id:
            raise ConnectionError(f"the response to {api.name} has another correlation id")
        return decode_api(api.response.cls, frame, version, position=4 + api.response_header_version(version))

    def frame(self) -> bytes:
        """Return the next response: its header and body.

        Raises `ConnectionError` if the broker closes the connection, and `TimeoutError`.
        """
        return self.exactly(int.from_bytes(self.exactly(4), "big"))

    def exactly(self, count: int) -> bytes:
        """Return the next bytes. Raises like `frame`."""
        received = b""
        while len(received) < count:
            more = self.socket.recv(count - len(received))
            if not more:
                raise ConnectionError("the broker closed the connection")
            received += more
        return received

    def is_closed(self) -> bool:
        """Return whether the broker closes the connection without sending anything."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

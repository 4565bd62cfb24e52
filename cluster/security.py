"""Who may connect: TLS, and logins by SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; KIP-43, KIP-84, KIP-152).

What is said about failures has no secrets in it.
"""

import hmac
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from quorate.cluster.errors import ClusterError
from quorate.cluster.scram import ScramCredentials
from quorate.codecs.errors import QuorateError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "MECHANISMS",
    "Login",
    "LoginFailed",
    "Security",
    "SecurityProtocol",
    "generate_security",
    "make_certificate",
]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SecurityProtocol = Literal["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"]
_USER = "quorate"
_MECHANISM = "SCRAM-SHA-512"


_SCRAM_BYTES = 8 << 10
"""A message of SCRAM has at most so many bytes besides the user's name: nonces have about 30,
proofs up to 88.

SASLprep (RFC 4013) takes microseconds for each character, before anybody has logged in.
"""


class LoginFailed(QuorateError):
    """A login that is refused. The message goes to the client, as Kafka's does."""


@dataclass(frozen=True, slots=True)
class Security:
    """What a cluster asks of its clients.

    `users`: name → password, no logins without any, and more by SCRAM that clients add
    (`quorate.cluster.scram`); `mechanisms`: those that are allowed; `tls`: the servers' side of it;
    `client_config`: what kafka-python's clients are configured with for it.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = MECHANISMS
    tls: ssl.SSLContext | None = None
    client_config: Mapping[str, Any] = field(default_factory=dict)


class Login:
    """A login while it goes on.

    `user`: who it was, once it is over; `bare`: what client and server say comes in frames of its
    own, without Kafka's headers.
    """

    def __init__(
        self, security: Security, credentials: ScramCredentials, mechanism: str, *, bare: bool = False
    ) -> None:
        self.bare = bare
        self.user: str | None = None
        self._users = security.users
        self._credentials = credentials
        self._mechanism = mechanism
        self._scram: Any = None
        self._first = True
        self._name = ""

    def step(self, said: bytes) -> bytes:
        """What the server says to what the client said. Raises `LoginFailed`."""
        return self._plain(said) if self._mechanism == "PLAIN" else self._challenge(said)

    def _plain(self, said: bytes) -> bytes:
        parts = said.split(b"\0")
        if len(parts) != 3:
            raise LoginFailed("Invalid SASL/PLAIN response: expected 3 tokens")
        name, password = parts[1].decode("utf-8", "replace"), parts[2]
        expected = self._users.get(name)
        if expected is None or not hmac.compare_digest(expected.encode(), password):
            raise LoginFailed("Authentication failed: Invalid username or password")
        self.user = name
        return b""

    def _challenge(self, said: bytes) -> bytes:
        from scramp import ScramException

        failed = LoginFailed(
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {self._mechanism}"
        )
        try:
            if len(said) > _SCRAM_BYTES + self._credentials.longest_name_bytes:
                raise failed
            if self._first:
                self._first = False
                self._scram = _mechanism(self._mechanism).make_server(self._secret)
                self._scram.set_client_first(said.decode())
                return str(self._scram.get_server_first()).encode()
            self._scram.set_client_final(said.decode())
            answer = str(self._scram.get_server_final()).encode()
        except (ScramException, UnicodeDecodeError, KeyError, ValueError):
            raise failed from None
        self.user = self._name
        return answer

    def _secret(self, name: str) -> Any:
        self._name = name
        return self._credentials.find(name, self._mechanism)


@cache
def _mechanism(name: str) -> Any:
    from scramp import ScramMechanism

    return ScramMechanism(name)


def make_certificate(folder: "Path") -> tuple[ssl.SSLContext, "Path"]:
    """TLS for 127.0.0.1 and localhost by an authority of its own, good for nothing else: the servers' side, and the file that clients trust."""
    import trustme

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    path = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return context, path


def generate_security(protocol: SecurityProtocol, folder: "Path | None", password: str | None = None) -> Security:
    """A certificate in `folder`, and a user with a password, as the protocol needs them.

    Raises `ClusterError` where a package is missing.
    """
    if protocol == "PLAINTEXT":
        return Security()
    context = None
    users = {}
    client_config: dict[str, Any] = {"security_protocol": protocol}
    try:
        if folder is not None:
            context, ca_file = make_certificate(folder)
            client_config["ssl_cafile"] = str(ca_file)
        if protocol.startswith("SASL"):
            users = {_USER: password or secrets.token_hex(16)}
            client_config |= {
                "sasl_mechanism": _MECHANISM,
                "sasl_plain_username": _USER,
                "sasl_plain_password": users[_USER],
            }
            import scramp  # noqa: F401  # now, not when the first client logs in
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"{protocol} needs the package {error.name}", "install it: pip install 'quorate[secure]'"
        ) from None
    return Security(users=users, mechanisms=(_MECHANISM,), tls=context, client_config=client_config)

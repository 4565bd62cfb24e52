"""TLS, and authentication by SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; KIP-43, KIP-84, KIP-152).

Error messages contain no secrets.
"""

import hmac
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from quorate.cluster.errors import ClusterError
from quorate.cluster.scram import ScramCredentials
from quorate.codecs.errors import QuorateError
from quorate.codecs.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pathlib import Path

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SecurityProtocol = Literal["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"]
_USER = "quorate"
_MECHANISM = "SCRAM-SHA-512"


_SCRAM_BYTES = 8 << 10
"""The maximum size of a SCRAM message, in addition to the user name: nonces have about 30 bytes,
proofs up to 88.

SASLprep (RFC 4013) takes microseconds for each character, before the client is authenticated.
"""


class LoginFailed(QuorateError):
    """Authentication failed. The client receives the message, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Security:
    """The security of a cluster.

    `users`: user name → password; without users there is no authentication. Clients can add SCRAM
    credentials (`quorate.cluster.scram`). `mechanisms`: the enabled SASL mechanisms. `tls`: the
    servers' TLS context. `client_config`: configs for kafka-python's clients.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    mechanisms: tuple[str, ...] = MECHANISMS
    tls: ssl.SSLContext | None = None
    client_config: Mapping[str, Any] = field(default_factory=dict)


class Login:
    """An authentication in progress.

    `user`: the user name, once authenticated. `bare`: SASL tokens are in frames without Kafka
    headers.
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

    def step(self, token: bytes) -> bytes:
        """Return the server's response to a client's token. Raises `LoginFailed`."""
        return self._plain(token) if self._mechanism == "PLAIN" else self._challenge(token)

    def _plain(self, token: bytes) -> bytes:
        parts = token.split(b"\0")
        if len(parts) != 3:
            raise LoginFailed("Invalid SASL/PLAIN response: expected 3 tokens")
        name, password = parts[1].decode("utf-8", "replace"), parts[2]
        expected = self._users.get(name)
        if expected is None or not hmac.compare_digest(expected.encode(), password):
            raise LoginFailed("Authentication failed: Invalid username or password")
        self.user = name
        return b""

    def _challenge(self, token: bytes) -> bytes:
        from scramp import ScramException

        failed = LoginFailed(
            "Authentication failed during authentication due to invalid credentials"
            f" with SASL mechanism {self._mechanism}"
        )
        try:
            if len(token) > _SCRAM_BYTES + self._credentials.longest_name_bytes:
                raise failed
            if self._first:
                self._first = False
                self._scram = _mechanism(self._mechanism).make_server(self._secret)
                self._scram.set_client_first(token.decode())
                return str(self._scram.get_server_first()).encode()
            self._scram.set_client_final(token.decode())
            reply = str(self._scram.get_server_final()).encode()
        except (ScramException, UnicodeDecodeError, KeyError, ValueError):
            raise failed from None
        self.user = self._name
        return reply

    def _secret(self, name: str) -> Any:
        self._name = name
        return self._credentials.find(name, self._mechanism)


@cache
def _mechanism(name: str) -> Any:
    from scramp import ScramMechanism

    return ScramMechanism(name)


def make_certificate(folder: "Path", host: str | None = None) -> tuple[ssl.SSLContext, "Path"]:
    """Create a certificate for 127.0.0.1, localhost and `host`, signed by a new authority.

    A host that no certificate can name, such as one with an underscore, is left out.

    Returns the servers' TLS context, and the file with the authority's certificate for clients.
    """
    import trustme

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    hosts = ["127.0.0.1", "localhost"]
    try:
        certificate = authority.issue_cert(*hosts, *([host] if host and host not in hosts else []))
    except ValueError:  # by the rules of IDNA
        certificate = authority.issue_cert(*hosts)
    certificate.configure_cert(context)
    path = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return context, path


def generate_security(
    protocol: SecurityProtocol, folder: "Path | None", password: str | None, *, host: str | None
) -> Security:
    """Generate a certificate in `folder` and a user, as the protocol requires.

    `host`: the advertised host, which the certificate names.

    Raises `ClusterError` for an unknown protocol, for a password that it does not use, and if a
    package is missing.
    """
    if protocol not in get_args(SecurityProtocol):
        raise ClusterError(f"security {protocol!r} is unknown; use {', '.join(get_args(SecurityProtocol))}")
    if password is not None and not protocol.startswith("SASL"):
        raise ClusterError(f"a password has no effect with security {protocol}; use SASL_SSL or SASL_PLAINTEXT")
    if protocol == "PLAINTEXT":
        return Security()
    context = None
    users = {}
    client_config: dict[str, Any] = {"security_protocol": protocol}
    try:
        if folder is not None:
            context, ca_file = make_certificate(folder, host)
            client_config["ssl_cafile"] = str(ca_file)
        if protocol.startswith("SASL"):
            users = {_USER: password or secrets.token_hex(16)}
            client_config |= {
                "sasl_mechanism": _MECHANISM,
                "sasl_plain_username": _USER,
                "sasl_plain_password": users[_USER],
            }
            import scramp  # noqa: F401  # fail now, not at the first login
    except ModuleNotFoundError as error:
        raise ClusterError(
            f"{protocol} needs the package {error.name}", "install it: pip install 'quorate[secure]'"
        ) from None
    return Security(users=users, mechanisms=(_MECHANISM,), tls=context, client_config=client_config)

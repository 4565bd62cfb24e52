"""SCRAM credentials (RFC 5802, KIP-84), given at the start or altered by clients (KIP-554).

Passwords given at the start are only in memory. Credentials from clients are stored in the metadata
log, without passwords, and take precedence.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from typing import Any

from quorate.codecs.lazy_dataclass import dataclass

MECHANISMS: Mapping[int, str] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Code of the mechanism in the protocol and in records → name."""
ITERATIONS = range(4096, 16384 + 1)
"""The iterations that Kafka accepts."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A stored credential, from which neither the password nor a login can be derived."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, mechanism: int, salt: bytes, salted_password: bytes, iterations: int) -> "Credential":
        """Create a credential from a request's salted password (RFC 5802, section 3)."""
        name = "sha256" if mechanism == 1 else "sha512"
        client_key = hmac.digest(salted_password, b"Client Key", name)
        server_key = hmac.digest(salted_password, b"Server Key", name)
        return cls(salt, hashlib.new(name, client_key).digest(), server_key, iterations)


class ScramCredentials:
    """The SCRAM credentials of a cluster.

    `changed`: user and mechanism code → credential from clients, as stored by the controller.

    `users`: name → password at the start, valid for `mechanisms`. If a client deletes one of these,
    it stays deleted until the process ends.
    """

    def __init__(
        self,
        users: Mapping[str, str],
        mechanisms: Iterable[str],
        changed: Mapping[tuple[str, int], Credential] | None = None,
    ) -> None:
        self.changed = {} if changed is None else changed
        self._users = users
        self._given = {
            (user, number) for user in users for number, mechanism in MECHANISMS.items() if mechanism in mechanisms
        }

    def __contains__(self, of: tuple[str, int]) -> bool:
        return of in self.changed or of in self._given

    @property
    def longest_name_bytes(self) -> int:
        """The maximum size of a user name in a message; "," and "=" take three bytes (RFC 5802)."""
        names = {user for user, _ in (*self._given, *self.changed)}
        return 3 * max((len(name.encode(errors="replace")) for name in names), default=0)

    def iterations(self) -> dict[str, dict[int, int]]:
        """Return user → mechanism code → iterations."""
        found: dict[str, dict[int, int]] = {}
        for user, number in sorted(self._given | self.changed.keys()):
            known = self.changed.get((user, number))
            found.setdefault(user, {})[number] = ITERATIONS.start if known is None else known.iterations
        return found

    def withdraw(self, user: str, mechanism: int) -> None:
        """Remove a credential from the start."""
        self._given.discard((user, mechanism))

    def find(self, user: str, mechanism: str) -> tuple[bytes, bytes, bytes, int]:
        """Return salt, stored key, server key and iterations.

        Raises `KeyError` if the user has no credential for the mechanism.
        """
        number = next(one for one, name in MECHANISMS.items() if name == mechanism)
        known = self.changed.get((user, number))
        if known is not None:
            return known.salt, known.stored_key, known.server_key, known.iterations
        if (user, number) not in self._given:
            raise KeyError(user)
        return _salted(mechanism, self._users[user])  # type: ignore[no-any-return]


@cache
def _salted(mechanism: str, password: str) -> Any:
    """Return a password's credential; cached, because it takes thousands of hash iterations."""
    from scramp import ScramMechanism

    return ScramMechanism(mechanism).make_auth_info(password, iteration_count=ITERATIONS.start)

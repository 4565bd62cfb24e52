"""What users log in by with SCRAM (RFC 5802, KIP-84): credentials that the cluster was started with, as passwords, and those that clients gave it since (KIP-554).

A password given at the start is known to the process only. What clients change is written down with
the cluster's metadata, without passwords, and counts in the place of it.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

__all__ = ["ITERATIONS", "MECHANISMS", "Credential", "ScramCredentials"]

MECHANISMS: Mapping[int, str] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The numbers by which the protocol and the records name them."""
ITERATIONS = range(4096, 16384 + 1)
"""How many rounds of hashing Kafka takes for enough, and not too many."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a server keeps of a password: nobody can log in by it, or learn the password from it."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, mechanism: int, salt: bytes, salted_password: bytes, iterations: int) -> "Credential":
        """From what clients send of a password (RFC 5802, section 3)."""
        name = "sha256" if mechanism == 1 else "sha512"
        client_key = hmac.digest(salted_password, b"Client Key", name)
        server_key = hmac.digest(salted_password, b"Server Key", name)
        return cls(salt, hashlib.new(name, client_key).digest(), server_key, iterations)


class ScramCredentials:
    """The credentials of a cluster.

    `changed`: by user and number of the mechanism, those that clients gave it, as the controller
    has them.

    `users`: name → password, and `mechanisms`, by which they may log in, at the start. Of these,
    what clients take away is away as long as the process lives.
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
        """What the longest name of a user takes in a message, where each "," and "=" is three bytes (RFC 5802)."""
        names = {user for user, _ in (*self._given, *self.changed)}
        return 3 * max((len(name.encode(errors="replace")) for name in names), default=0)

    def iterations(self) -> dict[str, dict[int, int]]:
        """Of each user the mechanisms, with how many rounds their credentials have."""
        found: dict[str, dict[int, int]] = {}
        for user, number in sorted(self._given | self.changed.keys()):
            known = self.changed.get((user, number))
            found.setdefault(user, {})[number] = ITERATIONS.start if known is None else known.iterations
        return found

    def withdraw(self, user: str, mechanism: int) -> None:
        """A user does not log in by a password from the start any more."""
        self._given.discard((user, mechanism))

    def find(self, user: str, mechanism: str) -> tuple[bytes, bytes, bytes, int]:
        """Salt, stored key, server key and iterations.

        Raises `KeyError` if the user has none for the mechanism.
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
    """Made once for a password: it takes thousands of rounds of hashing."""
    from scramp import ScramMechanism

    return ScramMechanism(mechanism).make_auth_info(password, iteration_count=ITERATIONS.start)

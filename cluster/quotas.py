"""Quotas of users, client ids and IP addresses (KIP-13, KIP-546).

They are stored and described, but not enforced.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TypeAlias

from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.errors import ApiError

USER, CLIENT_ID, IP = "user", "client-id", "ip"

Entity: TypeAlias = frozenset[tuple[str, str | None]]
"""An entity of a quota: type and name; `None` stands for the type's default."""
Quotas: TypeAlias = dict[Entity, dict[str, float]]

_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_CLIENT_QUOTAS: Mapping[str, int | None] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_IP_QUOTAS: Mapping[str, int | None] = {"connection_creation_rate": _INT_MAX}
"""Quotas and their maximum; those with a maximum are whole numbers."""
_EPSILON = 1e-6
_MAX_QUOTED = 100
"""How many characters of a client's text an error message repeats, to limit its size."""


def check_entity(entity: Mapping[str, str | None]) -> None:
    """Raise `ApiError` for an invalid entity."""
    if not entity:
        raise _invalid("a quota needs an entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"unknown entity type {kind[:_MAX_QUOTED]!r}; known types: {USER}, {CLIENT_ID} and {IP}")
        if name == "":
            raise _invalid(f"{kind} has an empty name; use null for the default")
    if IP in entity:
        if len(entity) > 1:
            raise _invalid(f"{IP} cannot be combined with {USER} or {CLIENT_ID}")
        if (address := entity[IP]) is not None and not _is_address(address):
            raise _invalid(f"{address[:_MAX_QUOTED]} is not an IP address")


def check_quota(kinds: Iterable[str], key: str, value: float) -> None:
    """Raise `ApiError` for a quota or value that entities of these types do not support."""
    known = _IP_QUOTAS if IP in kinds else _CLIENT_QUOTAS
    if key not in known:
        raise _invalid(f"unknown quota {key[:_MAX_QUOTED]}; known quotas: {', '.join(known)}")
    if not value > 0:
        raise _invalid(f"{key} must be greater than 0, not {value}")
    most = known[key]
    if most is not None and (value > most or abs(int(value + _EPSILON) - value) > _EPSILON):
        raise _invalid(f"{key} must be a whole number up to {most}, not {value}")


def _is_address(text: str) -> bool:
    if text == "localhost":
        return True
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)

"""Quotas of users, client ids and IP addresses (KIP-13, KIP-546).

They are stored and described, but not enforced.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from math import isfinite
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


def check_entity(entity: Mapping[str, str | None]) -> None:
    """Raise `ApiError` for an invalid entity, whose types are in Kafka's order."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP in entity:
        if len(entity) > 1:
            raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
        if (address := entity[IP]) is not None and not _is_address(address):
            raise _invalid(f"{address} is not a valid IP or resolvable host.")


def check_quota(kinds: Iterable[str], key: str, value: float) -> None:
    """Raise `ApiError` for a quota or value that entities of these types do not support."""
    known = _IP_QUOTAS if IP in kinds else _CLIENT_QUOTAS
    if key not in known:
        raise _invalid(f"Invalid configuration key {key}")
    if not isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    most = known[key]
    if most is not None and value > most:
        raise _invalid(f"Proposed value for {key} is too large for {'an INT' if most == _INT_MAX else 'a LONG'}.")
    if most is not None and abs(int(value + _EPSILON) - value) > _EPSILON:
        raise _invalid(f"{key} cannot be a fractional value.")


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

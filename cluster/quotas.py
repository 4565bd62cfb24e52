"""Quotas of clients (KIP-13, KIP-546): what was set for users, client ids and addresses.

They are kept and told; nobody is held back by them.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TypeAlias

from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.errors import ApiError

__all__ = ["CLIENT_ID", "IP", "USER", "Entity", "Quotas", "check_entity", "check_quota"]

USER, CLIENT_ID, IP = "user", "client-id", "ip"

Entity: TypeAlias = frozenset[tuple[str, str | None]]
"""Whom a quota is for: types with names; `None` is the default of the type."""
Quotas: TypeAlias = dict[Entity, dict[str, float]]

_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_OF_CLIENTS: Mapping[str, int | None] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_OF_ADDRESSES: Mapping[str, int | None] = {"connection_creation_rate": _INT_MAX}
"""Quotas with the greatest that they can be; those are whole numbers."""
_EPSILON = 1e-6
_SHOWN = 100
"""How much of what a client said is said again: an answer's texts have an end."""


def check_entity(entity: Mapping[str, str | None]) -> None:
    """Raises `ApiError` for whom there can be no quota."""
    if not entity:
        raise _invalid("a quota is for somebody")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"there are no quotas for {kind[:_SHOWN]!r}, only for {USER}, {CLIENT_ID} and {IP}")
        if name == "":
            raise _invalid(f"{kind} has a name, or none for the default")
    if IP in entity:
        if len(entity) > 1:
            raise _invalid("quotas are for addresses, or for users and client ids")
        if (address := entity[IP]) is not None and not _is_address(address):
            raise _invalid(f"{address[:_SHOWN]} is no address")


def check_quota(kinds: Iterable[str], key: str, value: float) -> None:
    """Raises `ApiError` for a quota that there is not for these types of entities, or that cannot be."""
    known = _OF_ADDRESSES if IP in kinds else _OF_CLIENTS
    if key not in known:
        raise _invalid(f"there is no quota {key[:_SHOWN]}: {', '.join(known)}")
    if not value > 0:
        raise _invalid(f"{key} cannot be {value}: it is greater than 0")
    most = known[key]
    if most is not None and (value > most or abs(int(value + _EPSILON) - value) > _EPSILON):
        raise _invalid(f"{key} cannot be {value}: it is a whole number up to {most}")


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

"""The types of the parameters of members, and the values that Kafka's client accepts."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from quorate.codecs.client_assignors import ClientAssignor
from quorate.codecs.parameters import Accepted, check_parameters

MAX_INT: Final = 2**31 - 1


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return isinstance(value, str | None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _are_topics(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str) and all(map(_is_text, value))


def _are_assignors(value: object) -> bool:
    return value is None or (
        isinstance(value, Collection) and all(isinstance(assignor, ClientAssignor) for assignor in value)
    )


def is_group_id(value: str) -> bool:
    """Return whether Java's consumer accepts a group.id: it trims what Java calls white space."""
    return any(letter > " " for letter in value)


def is_instance_id(value: str) -> bool:
    """Return whether Java's consumer accepts a group.instance.id, which is checked like a topic."""
    return re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", value) is not None and value not in (".", "..")


def _is_backoff(value: float) -> bool:
    return 0 <= value < 2**63


IDENTITY: Final[Accepted] = {
    "group_id": (_is_text, "the name of the group"),
    "member_id": (_is_text, "a text that no other member has, such as str(uuid4())"),
    "instance_id": (_is_text_or_none, "a text, or None for a dynamic member"),
    "rack_id": (_is_text_or_none, "a text, or None"),
    "rebalance_timeout_ms": (lambda value: isinstance(value, int), "a whole number of milliseconds"),
    "server_assignor": (_is_text_or_none, "the name of an assignor, or None for the brokers' default"),
    "max_poll_interval_ms": (lambda value: isinstance(value, int | None), "a whole number of milliseconds, or None"),
}

SUBSCRIPTION: Final[Accepted] = {
    "topics": (_are_topics, "a list of topics, such as ['orders']"),
    "regex": (_is_text_or_none, "a regex as text, or None"),
}

MEMBERSHIP: Final[Accepted] = {
    "now_ms": (_is_number, "milliseconds of the client's clock"),
    "auto_commit": (lambda value: isinstance(value, bool), "True or False"),
    "retry_backoff_ms": (_is_number, "milliseconds"),
    "retry_backoff_max_ms": (_is_number, "milliseconds"),
    "jitter": (_is_number, "a number from 0 to 1"),
    "random": (lambda value: value is None or callable(value), "a function that returns numbers from 0 to 1"),
    "client_assignors": (_are_assignors, "a tuple of ClientAssignor, or None"),
}

_MILLISECONDS = f"whole milliseconds from 1 to {MAX_INT}"
INSTANCE_ID: Final = "up to 249 letters of ASCII, digits, '.', '_' or '-', but not '.' or '..'"

_Values = Mapping[str, tuple[Callable[..., bool], str]]
"""As `Accepted`, for values other than `None` whose type was checked."""

IDENTITY_VALUES: Final[_Values] = {
    "group_id": (is_group_id, "a name that is not empty"),
    "member_id": (bool, "a text that is not empty, such as str(uuid4())"),
    "instance_id": (is_instance_id, INSTANCE_ID),
    "rack_id": (bool, "a text that is not empty, or None"),
    "rebalance_timeout_ms": (lambda value: 0 < value <= MAX_INT, _MILLISECONDS),
    "max_poll_interval_ms": (lambda value: 0 < value <= MAX_INT, f"{_MILLISECONDS}, or None"),
}

MEMBERSHIP_VALUES: Final[_Values] = {
    "retry_backoff_ms": (_is_backoff, "milliseconds from 0"),
    "retry_backoff_max_ms": (_is_backoff, "milliseconds from 0"),
    "jitter": (lambda value: 0 <= value <= 1, "a number from 0 to 1"),
}


def check_values(given: Mapping[str, object], accepted: _Values) -> None:
    """Raise `ValueError` for the first parameter with a value that is not accepted."""
    check_parameters(given, {name: each for name, each in accepted.items() if given[name] is not None}, ValueError)

"""The types of the parameters of members. Their values are checked by brokers."""

from collections.abc import Collection
from typing import Final

from quorate.codecs.client_assignors import ClientAssignor
from quorate.codecs.parameters import Accepted


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

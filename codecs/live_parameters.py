"""The types of the parameters of `read_live` and `poll_live`, checked before they connect."""

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Final, SupportsIndex

from quorate.codecs.parameters import Accepted


def _is_timeout(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 1 << 31


def _are_partitions(value: object) -> bool:
    return isinstance(value, Collection) and all(isinstance(one, SupportsIndex) and int(one) >= 0 for one in value)


def _is_time(value: object) -> bool:
    return isinstance(value, Real) and 0 <= float(value) < 1 << 63


def _are_offsets(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, SupportsIndex) for one in [*value, *value.values()])


ACCEPTED: Final[Accepted] = {
    "partitions": (lambda value: value is None or _are_partitions(value), "a list of partition numbers"),
    "since_ms": (lambda value: value is None or _is_time(value), "milliseconds since 1970"),
    "start_offsets": (lambda value: value is None or _are_offsets(value), "a mapping of partitions to offsets"),
    "connect_timeout_ms": (_is_timeout, "a whole number of milliseconds, less than 2**31"),
    "stall_timeout_ms": (_is_timeout, "a whole number of milliseconds, less than 2**31"),
    "on_notice": (lambda value: value is None or callable(value), "a function of one text"),
}

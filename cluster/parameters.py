"""The types of an embedded cluster's parameters. Their values are checked where they are used."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Final

from quorate.cluster.errors import ClusterError
from quorate.codecs.parameters import Accepted, check_parameters


def _are_numbers(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(one, int) for one in value)


def _is_ports(value: object) -> bool:
    return value is None or _are_numbers(value)


def _is_properties(value: object) -> bool:
    return value is None or (isinstance(value, Mapping) and all(isinstance(name, str) for name in value))


def _is_clock(value: object) -> bool:
    members = ("now_ms", "call_at", "stepped_ms")
    return value is None or (not isinstance(value, type) and all(hasattr(value, name) for name in members))


_EXPECTED: Final[Accepted] = {
    "host": (lambda value: isinstance(value, str), "the address to listen on, such as '127.0.0.1'"),
    "advertised_host": (lambda value: isinstance(value, str | None), "the address that clients connect to"),
    "ports": (_is_ports, "a list with a port for each broker"),
    "advertised_ports": (_is_ports, "a list with a port for each broker"),
    "properties": (_is_properties, "a mapping of Kafka's names to values"),
    "data": (lambda value: isinstance(value, str | PathLike | None), "the path of a directory"),
    "clock": (_is_clock, "a clock of quorate.cluster, such as ManualClock()"),
    "seed": (lambda value: isinstance(value, int | None), "a whole number"),
    "timeout_ms": (lambda value: isinstance(value, int | float) and value > 0, "milliseconds, above 0"),
    "on_note": (lambda value: value is None or callable(value), "a function of one text"),
}


def check_types(given: Mapping[str, object]) -> None:
    """Raise `ClusterError` for the first parameter of a wrong type; others are not checked."""
    check_parameters(given, _EXPECTED, ClusterError)


def check_topic(name: object, assignment: object) -> None:
    """Raise `ClusterError` for a topic that is no text, and for other than lists of broker ids."""
    if not isinstance(name, str):
        raise ClusterError(f"topic {name!r} is no text")
    if assignment is not None and not (isinstance(assignment, Sequence) and all(map(_are_numbers, assignment))):
        raise ClusterError(f"assignment={assignment!r}: give the broker ids of each partition, as in [[1, 2], [2, 3]]")

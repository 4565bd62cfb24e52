"""Check the types of the parameters that a caller gave, by a table of what each accepts."""

from collections.abc import Callable, Mapping

Accepted = Mapping[str, tuple[Callable[[object], bool], str]]
"""Parameter → whether a value is accepted, and what to give instead, for the message."""


def check_parameters(given: Mapping[str, object], accepted: Accepted, error: type[Exception]) -> None:
    """Raise `error` for the first parameter in the table whose value it does not accept."""
    for name, (is_accepted, expected) in accepted.items():
        if not is_accepted(given[name]):
            raise error(f"{name}={given[name]!r}: give {expected}")

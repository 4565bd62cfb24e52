"""Checks that the installed client is compatible with its adapter. Knows no client.

Adapters use private names of clients, which a release may change. The check runs when an adapter is
imported. Otherwise a replaced method that is no longer called would go unnoticed, and racks or
owned partitions would be ignored without an error.
"""

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from types import CodeType

from quorate.codecs.errors import QuorateError


class UnsupportedClientError(QuorateError, ImportError):
    """The installed client is not compatible with the adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What an adapter requires of a class of the client.

    `replaces`: methods that it replaces → their parameters, separated by spaces. `calls`: methods
    that it calls → the arguments that it passes. `attributes`: attributes set by `__init__` or
    defined by the class.
    """

    kind: type
    replaces: Mapping[str, str] = field(default_factory=dict)
    calls: Mapping[str, str] = field(default_factory=dict)
    attributes: Sequence[str] = ()


def check(client: str, supported: str, requirements: Sequence[Requirements]) -> None:
    """Check the requirements. Raises `UnsupportedClientError` with what the client lacks.

    `supported`: the release that the adapter was written for.
    """
    for requirement in requirements:
        for problem in _problems(requirement):
            raise unsupported(client, supported, f"{requirement.kind.__name__}{problem}")


def import_failure(client: str, supported: str, error: ImportError, *, install: str) -> ImportError:
    """Return the exception to raise after importing a client or its adapter failed with `error`.

    `install`: the command that installs the client.
    """
    if isinstance(error, UnsupportedClientError):
        return error
    if isinstance(error, ModuleNotFoundError) and sys.modules.get((error.name or "").partition(".")[0]) is None:
        return ImportError(f"this adapter needs {client} {supported} or newer: {install} ({error})")
    return unsupported(client, supported, error)


def unsupported(client: str, supported: str, problem: object) -> UnsupportedClientError:
    """Return the error for a client that is not compatible."""
    try:
        installed = version(client)
    except PackageNotFoundError:
        installed = "(unknown version)"
    return UnsupportedClientError(
        f"quorate's adapter does not support {client} {installed}: {problem}; it was written for {supported}: "
        f"install that, or a quorate that supports {installed}"
    )


def _problems(required: Requirements) -> list[str]:
    problems = []
    for name, parameters in {**required.calls, **required.replaces}.items():
        method = getattr(required.kind, name, None)
        if not callable(method):
            problems.append(f" has no method {name}")
            continue
        actual = list(inspect.signature(method).parameters.values())[1:]
        names = [one.name for one in actual]
        given = parameters.split()
        # A replacement must accept all parameters; a call must pass all that have no default.
        needed = names if name in required.replaces else [one.name for one in actual if one.default is one.empty]
        if [one for one in given if one not in names] or [one for one in needed if one not in given]:
            problems.append(f".{name} takes ({', '.join(names)}), not ({', '.join(given)})")
    assigned = {name for cls in required.kind.__mro__ for name in _names_in_init(cls)}
    problems += [
        f" has no {name}" for name in required.attributes if name not in assigned and not hasattr(required.kind, name)
    ]
    return problems


def _names_in_init(cls: type) -> Sequence[str]:
    """Return the names used in a class's own `__init__`, including the attributes that it sets."""
    code = getattr(cls.__dict__.get("__init__"), "__code__", None)
    return code.co_names if isinstance(code, CodeType) else ()


def other_client(given: str, needed: str) -> str:
    """Return the error for an assignor that was given to a client of another module."""
    module = "quorate.assignors.adapters"
    return f"an assignor of {module}.{given} was given to another client; use the one of {module}.{needed}"

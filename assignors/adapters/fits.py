"""Whether the client that is installed is one that its adapter knows: it uses names that are not public, and a release may rename them.

Knows no client.

Checked when an adapter is imported: a method that is replaced and no longer called would be
silence, and racks or kept partitions would be forgotten by nobody but the leader.
"""

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from types import CodeType

from quorate.codecs.errors import QuorateError

__all__ = ["Requirements", "UnfitError", "check", "refusal", "unfit"]


class UnfitError(QuorateError, ImportError):
    """The client that is installed is not one that the adapter knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What an adapter needs of a class of the client.

    `replaces`: methods that it puts its own in the place of, with their parameters, separated by
    spaces. `calls`: methods that it calls, with the arguments that it gives. `attributes`: what
    objects of the class have from the beginning.
    """

    kind: type
    replaces: Mapping[str, str] = field(default_factory=dict)
    calls: Mapping[str, str] = field(default_factory=dict)
    attributes: Sequence[str] = ()


def check(client: str, known: str, needs: Sequence[Requirements]) -> None:
    """Raises `UnfitError` that names what the client lacks.

    `known`: the release that the adapter was made for.
    """
    for need in needs:
        for fault in _faults(need):
            raise unfit(client, known, f"{need.kind.__name__}{fault}")


def refusal(client: str, known: str, error: ImportError, *, install: str) -> ImportError:
    """What to raise where importing a client, or an adapter's own modules for it, failed by `error`.

    `install`: how to get the client.
    """
    if isinstance(error, UnfitError):
        return error
    if isinstance(error, ModuleNotFoundError) and sys.modules.get((error.name or "").partition(".")[0]) is None:
        return ImportError(f"this needs {client} {known} or newer: {install} ({error})")
    return unfit(client, known, error)


def unfit(client: str, known: str, fault: object) -> UnfitError:
    """The error for a client that lacks something, or does not do it."""
    try:
        there = version(client)
    except PackageNotFoundError:
        there = "(of unknown version)"
    return UnfitError(
        f"this adapter of quorate does not fit {client} {there}: {fault}; it was made for {known}: use that, or a quorate that knows {there}"
    )


def _faults(need: Requirements) -> list[str]:
    faults = []
    for name, parameters in {**need.calls, **need.replaces}.items():
        method = getattr(need.kind, name, None)
        if not callable(method):
            faults.append(f" has no method {name}")
            continue
        there = list(inspect.signature(method).parameters.values())[1:]
        names = [one.name for one in there]
        given = parameters.split()
        # One that is replaced must take whatever it may be given; one that is called, what it is
        # given.
        needed = names if name in need.replaces else [one.name for one in there if one.default is one.empty]
        if [one for one in given if one not in names] or [one for one in needed if one not in given]:
            faults.append(f".{name} takes ({', '.join(names)}), not ({', '.join(given)})")
    made = {name for cls in need.kind.__mro__ for name in _names_in(cls)}
    faults += [f" has no {name}" for name in need.attributes if name not in made and not hasattr(need.kind, name)]
    return faults


def _names_in(cls: type) -> Sequence[str]:
    """The names that occur in a class's own `__init__`, among them those of the attributes that it makes."""
    code = getattr(cls.__dict__.get("__init__"), "__code__", None)
    return code.co_names if isinstance(code, CodeType) else ()

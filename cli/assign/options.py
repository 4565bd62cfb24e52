"""Options of assignors as the command line has them, `lag-aware:locality=replica,max_moved=3`: texts, made into what the constructor takes.

What a constructor takes is read from its annotations, so a new option of an assignor needs nothing here.
"""

import inspect
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from quorate.assignors.kafka_version import KafkaVersion
from quorate.cli.assign.situation import listed
from quorate.cli.errors import UserError

__all__ = ["arguments", "split_options"]

_NOT_THESE = object()


def split_options(text: str, whole: str) -> dict[str, str | None]:
    """`a=1,b` as names and texts, `None` for a name alone. `whole`: what the user wrote, for errors. Raises `UserError`."""
    found: dict[str, str | None] = {}
    for one in text.split(","):
        name, equals, value = one.partition("=")
        name = name.strip().replace("-", "_")
        if not name.isidentifier() or (equals and not value):
            raise UserError(
                f"--assignor {whole}: {one!r} is not OPTION=VALUE",
                "for instance lag-aware:locality=replica,max_moved=3",
            )
        if name in found:
            raise UserError(f"--assignor {whole}: {name} is there twice")
        found[name] = value if equals else None
    return found


def arguments(kind: type, options: Mapping[str, str | None], whole: str) -> dict[str, Any]:
    """The keyword arguments for `kind` that these texts stand for. Raises `UserError` for options that it lacks and for values of another type."""
    there = _options_of(kind)
    found = {}
    for name, text in options.items():
        if name not in there:
            known = f"it has {listed(sorted(there), 10)}" if there else "it has none"
            raise UserError(f"--assignor {whole}: {whole.partition(':')[0]} has no option {name}", known)
        value = _read(text, there[name])
        if value is _NOT_THESE:
            given = "needs a value" if text is None else f"cannot be {text!r}"
            raise UserError(f"--assignor {whole}: {name} {given}", f"it takes {' or '.join(map(_told, there[name]))}")
        found[name] = value
    return found


def _options_of(kind: type) -> dict[str, tuple[Any, ...]]:
    """Name → the types that it takes, of those options that a text can stand for."""
    if not inspect.signature(kind).parameters:
        return {}
    hints = get_type_hints(kind.__init__)  # type: ignore[misc]  # of the class that was just looked up, not of an instance
    found = {}
    for name in inspect.signature(kind).parameters:
        hint = hints.get(name, str)
        types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if all(_can_be_read(one) for one in types):
            found[name] = types
    return found


def _can_be_read(kind: Any) -> bool:
    return (
        get_origin(kind) is Literal
        or kind in (NoneType, bool, int, float, str, KafkaVersion)
        or (isinstance(kind, type) and issubclass(kind, Enum))
    )


def _read(text: str | None, types: tuple[Any, ...]) -> Any:
    """The value that a text stands for, of the first type that fits."""
    if text is None:
        return True if bool in types else _NOT_THESE
    for kind in types:
        value = _read_as(text, kind)
        if value is not _NOT_THESE:
            return value
    return _NOT_THESE


def _read_as(text: str, kind: Any) -> Any:
    if kind is NoneType:
        return None if text.lower() == "none" else _NOT_THESE
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), _NOT_THESE)
    if get_origin(kind) is Literal:
        return text if text in get_args(kind) else _NOT_THESE
    if issubclass(kind, Enum):
        return next((one for one in kind if text.lower() in (one.name.lower(), str(one.value).lower())), _NOT_THESE)
    try:
        return KafkaVersion.parse(text) if kind is KafkaVersion else kind(text)
    except ValueError:
        return _NOT_THESE


def _told(kind: Any) -> str:
    """What a type is called in an error."""
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    if issubclass(kind, Enum):
        return ", ".join(one.name.lower() for one in kind)
    return {
        NoneType: "none",
        bool: "true, false",
        int: "a whole number",
        float: "a number",
        KafkaVersion: "a version such as 4.3.1",
    }.get(kind, "text")

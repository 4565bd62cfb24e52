"""Options of `quorate assign` that name assignors and changes, parsed for the library.

`lag-aware:locality=replica,max_moved=3` becomes a `Choice`; the annotations of the assignor's
constructor define its options. `WhatIf` holds `--without`, `--add`, `--rack` and
`--add-partitions`.
"""

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from quorate.assignors.model import AssignorError
from quorate.assignors.plug_ins import class_of, installed, is_path
from quorate.assignors.registry import CLIENT_ASSIGNORS, SERVER_ASSIGNORS, assignor_class
from quorate.assignors.what_if import (
    Choice,
    GroupSituation,
    Side,
    common_topics,
    matching_members,
    usual_choices,
    with_member,
    with_partitions,
    with_racks,
    without_members,
)
from quorate.cli.errors import UserError
from quorate.cli.module_path import search_current_folder
from quorate.codecs.errors import InputError
from quorate.codecs.printable import listed, suggestion
from quorate.codecs.releases import KafkaVersion

MAX_ADDED_PARTITIONS = 1_000_000
"""Highest number of partitions to add at once."""

_NO_VALUE = object()


@contextmanager
def _errors_of(option: str) -> Iterator[None]:
    """Turn an error of the library into a `UserError` that names the option."""
    try:
        yield
    except InputError as error:
        raise UserError(f"{option}: {error.message}", *error.remedy) from None


# ---- changes


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Texts of the options that change the group."""

    without: Sequence[str] = ()
    add: Sequence[str] = ()
    racks: Sequence[str] = ()
    partitions: Sequence[str] = ()

    @property
    def in_words(self) -> list[str]:
        """The changes as texts, for headings."""
        return [
            *(f"without {one}" for one in self.without),
            *(f"with {one}" for one in self.add),
            *(f"{rack.rpartition('=')[0]} in {rack.rpartition('=')[2] or 'no rack'}" for rack in self.racks),
            *(
                f"{partition.rpartition('=')[2]} more partitions of {partition.rpartition('=')[0]}"
                for partition in self.partitions
            ),
        ]

    def applied(self, before: GroupSituation) -> GroupSituation:
        """Return the situation after the changes: partitions first, then members.

        Raises `UserError`.
        """
        for text in self.partitions:
            with _errors_of(f"--add-partitions {text}"):
                before = with_partitions(before, *_more_partitions(text))
        after = before
        for text in self.without:
            with _errors_of(f"--without {text}"):
                after = without_members(after, matching_members(after, text))
        for text in self.add:
            with _errors_of(f"--add {text}"):
                after = with_member(after, *_new_member(text, before))
        for text in self.racks:
            name, equals, rack = text.rpartition("=")
            with _errors_of(f"--rack {text}"):
                if not equals or not name:
                    raise InputError("is not MEMBER=RACK", "for no rack: MEMBER=")
            with _errors_of(f"--rack {name}"):
                after = with_racks(after, matching_members(after, name), rack or None)
        if not after.members:
            raise UserError("no member is left, so nothing can be assigned", "omit one from --without, or --add one")
        return after


def _more_partitions(text: str) -> tuple[str, int]:
    name, equals, number = text.rpartition("=")
    if not equals or not number.isascii() or not number.isdigit() or not 1 <= int(number[:9]) <= MAX_ADDED_PARTITIONS:
        raise InputError(f"is not TOPIC=N, with N from 1 to {MAX_ADDED_PARTITIONS:,}", "N is how many more: orders=4")
    return name, int(number)


def _new_member(text: str, before: GroupSituation) -> tuple[str, str | None, Sequence[str]]:
    """Return id, rack and topics of a member to add; by default the topics of all other members.

    Raises `InputError`.
    """
    member_id, _, rest = text.partition(":")
    rack, _, names = rest.partition(":")
    if not member_id:
        raise InputError("has no member id", "MEMBER, MEMBER:RACK or MEMBER:RACK:TOPIC,TOPIC")
    if names:
        topics: Sequence[str] = [name for name in names.split(",") if name]
        unknown = [name for name in topics if name not in before.topology]
        if unknown:
            known = [topic.name for topic in before.topology.topics]
            raise InputError(f"topic {unknown[0]} does not exist", f"existing topics: {listed(known)}")
    else:
        try:
            topics = common_topics(before)
        except InputError as error:
            raise InputError(error.message, f"name the topics: --add {member_id}:{rack}:TOPIC,TOPIC") from None
    return member_id, rack or None, topics


# ---- assignors


def choices(names: Sequence[str], side: Side | None, situation: GroupSituation) -> list[Choice]:
    """Return the assignors that the options name, by default those for the group's protocol.

    Raises `UserError`.
    """
    if not names:
        return usual_choices(side, situation)
    chosen = []
    for text in names:
        with _errors_of(f"--assignor {text}"):
            chosen.append(_choice(text, side, situation))
    return list({(choice.text, choice.side): choice for choice in chosen}.values())


def _choice(text: str, side: Side | None, situation: GroupSituation) -> Choice:
    name, colon, rest = text.partition(":")
    if name not in CLIENT_ASSIGNORS and name not in SERVER_ASSIGNORS:
        return _plug_in(text)
    if name not in CLIENT_ASSIGNORS or name not in SERVER_ASSIGNORS:
        side = "client" if name in CLIENT_ASSIGNORS else "server"
    elif side is None:
        side = "server" if situation.protocol == "consumer" else "client"
    options = _arguments(assignor_class(name, side), _split(rest), name) if colon else {}
    return Choice(name=name, side=side, options=options, text=text)


def _plug_in(text: str) -> Choice:
    """Return the choice of NAME[:OPTIONS] or MODULE:CLASS[:OPTIONS]."""
    name, _, rest = text.partition(":")
    if name not in installed():
        cls, _, options = rest.partition(":")
        if not is_path(f"{name}:{cls}"):
            known = list(dict.fromkeys([*CLIENT_ASSIGNORS, *SERVER_ASSIGNORS, *sorted(installed())]))
            otherwise = f"use one of {', '.join(known)}, or MODULE:CLASS"
            raise InputError("unknown assignor", suggestion(name, known, otherwise, 1))
        search_current_folder()
        name, rest = f"{name}:{cls}", options
    try:
        with redirect_stdout(sys.stderr):  # of a module that prints: stdout is for the result
            kind = class_of(name)
    except AssignorError as error:
        raise InputError(str(error)) from None
    if rest and kind is None:
        raise InputError(f"{name} is no class, so it takes no options")
    options_of = _arguments(kind, _split(rest), name) if rest and kind is not None else {}
    return Choice(name=name, side="server", options=options_of, text=text)


def _split(text: str) -> dict[str, str | None]:
    """Parse `a=1,b` into names and texts; the value of a name alone is `None`."""
    found: dict[str, str | None] = {}
    for one in text.split(","):
        name, equals, value = one.partition("=")
        name = name.strip().replace("-", "_")
        if not name.isidentifier() or (equals and not value):
            raise InputError(f"{one!r} is not OPTION=VALUE", "for instance lag-aware:locality=replica,max_moved=3")
        if name in found:
            raise InputError(f"{name} is given twice")
        found[name] = value if equals else None
    return found


def _arguments(kind: type, options: Mapping[str, str | None], assignor: str) -> dict[str, Any]:
    """Parse the options of an assignor into keyword arguments. Raises `InputError`."""
    types = _options_of(kind)
    found = {}
    for name, text in options.items():
        if name not in types:
            known = f"its options: {listed(sorted(types), 10)}" if types else "it has no options"
            raise InputError(f"{assignor} has no option {name}", known)
        value = _read(text, types[name])
        if value is _NO_VALUE:
            given = "needs a value" if text is None else f"cannot be {text!r}"
            raise InputError(f"{name} {given}", f"use {' or '.join(map(_type_name, types[name]))}")
        found[name] = value
    return found


def _options_of(kind: type) -> dict[str, tuple[Any, ...]]:
    """Return the constructor's parameters that can be parsed from text: name → types."""
    parameters = inspect.signature(kind).parameters.values()
    names = [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if not names:
        return {}
    hints = get_type_hints(kind.__init__)  # type: ignore[misc]  # of the class that was just looked up, not of an instance
    found = {}
    for name in names:
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
    """Parse a text as the first of `types` that accepts it, else return `_NO_VALUE`."""
    if text is None:
        return True if bool in types else _NO_VALUE
    for kind in types:
        value = _read_as(text, kind)
        if value is not _NO_VALUE:
            return value
    return _NO_VALUE


def _read_as(text: str, kind: Any) -> Any:
    if kind is NoneType:
        return None if text.lower() == "none" else _NO_VALUE
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), _NO_VALUE)
    if get_origin(kind) is Literal:
        return text if text in get_args(kind) else _NO_VALUE
    if issubclass(kind, Enum):
        return next((one for one in kind if text.lower() in (one.name.lower(), str(one.value).lower())), _NO_VALUE)
    try:
        return KafkaVersion.parse(text) if kind is KafkaVersion else kind(text)
    except ValueError:
        return _NO_VALUE


def _type_name(kind: Any) -> str:
    """Return the name of a type for an error message."""
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

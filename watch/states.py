"""A group's state as rows, and as small JSON for the store: key frames and changes between them.

Topics in stored rows are ids where the records have ids, so that a name that becomes known later
counts for all times.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from quorate.codecs import Uuid
from quorate.coordinator.history import GroupView, MemberView
from quorate.watch.model import GroupSummary, MemberRow, Place

Header = dict[str, Any]
"""The fields of a group without its members."""

STORED = ("instance_id", "client_id", "client_host", "rack", "epoch", "state", "protocol")
"""Fields of a `MemberView` that the store has."""

Members = dict[str, list[Any]]
"""Member id → the values of `STORED`, assigned and target, which are topic → partitions."""


def header_of(view: GroupView, locality: float | None) -> Header:
    """Return the fields of a group that `summary_of` reads."""
    return {
        "kind": view.kind.value.lower(),
        "state": view.state,
        "type": view.protocol_type,
        "assignor": view.assignor,
        "epoch": view.epoch,
        "members": len(view.members),
        "partitions": len({at for member in view.members.values() for at in member.assigned}),
        "locality": None if locality is None else round(locality, 4),
    }


def summary_of(group_id: str, header: Header, **more: Any) -> GroupSummary:
    """Return a summary with these fields."""
    return GroupSummary(
        group_id=group_id,
        kind=header["kind"],
        state=header["state"],
        protocol_type=header["type"],
        assignor=header["assignor"],
        epoch=header["epoch"],
        members=header["members"],
        partitions=header["partitions"],
        locality=header["locality"],
        **more,
    )


def members_of(view: GroupView, since: GroupView | None = None, known: Members | None = None) -> Members:
    """Return the members of a group; those that `since` also has are taken from `known`."""
    old = {} if since is None or known is None else since.members
    return {
        member_id: known[member_id]
        if known is not None and old.get(member_id) is member and member_id in known
        else _member(member)
        for member_id, member in view.members.items()
    }


def _member(member: MemberView) -> list[Any]:
    return [
        *(getattr(member, name) for name in STORED),
        _grouped(member.assigned | member.standby | member.warmup),
        _grouped(member.target | member.standby_target),
    ]


def _grouped(partitions: frozenset[tuple[Uuid | str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(str(topic), []).append(number)
    for numbers in found.values():
        numbers.sort()
    return found


_OF_ROWS = tuple("host" if name == "client_host" else name for name in STORED)


def member_rows(members: Members, name: Callable[[str], str]) -> tuple[MemberRow, ...]:
    """Return the rows of members. `name`: returns the name of a topic that may be an id."""
    return tuple(
        MemberRow(
            member_id=member_id,
            **dict(zip(_OF_ROWS, stored, strict=True)),
            assigned=_places(assigned, name),
            target=_places(target, name),
        )
        for member_id, (*stored, assigned, target) in sorted(members.items(), key=lambda one: (one[1][1], one[0]))
    )


def _places(topics: Mapping[str, list[int]], name: Callable[[str], str]) -> tuple[Place, ...]:
    return tuple(sorted((name(topic), number) for topic, numbers in topics.items() for number in numbers))


def delta(before: Members, after: Members) -> dict[str, Any]:
    """Return the changes: members that differ, `None` for those that are gone."""
    changed: dict[str, Any] = {
        member_id: member for member_id, member in after.items() if before.get(member_id) != member
    }
    return changed | dict.fromkeys(before.keys() - after.keys())


def pack(value: Any) -> bytes:
    """Return JSON, compressed."""
    text = json.dumps(value, separators=(",", ":")).encode()
    return zlib.compress(text, 6 if len(text) < _LONG else 1)


_LONG = 1 << 16
"""Bytes that are compressed three times as fast, and a quarter less."""


def unpack(data: bytes) -> Any:
    """Return what `pack` packed."""
    return json.loads(zlib.decompress(data))

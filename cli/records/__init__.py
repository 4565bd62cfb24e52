"""`quorate records`: the record types that there are, and the fields of one, straight from the declarations."""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import click

from quorate.cli.columns import columns
from quorate.cli.decode.filters import close_types
from quorate.cli.encode import PROTOCOL_MESSAGES
from quorate.cli.errors import UserError
from quorate.cli.records.examples import message_example, record_example
from quorate.codecs.message import FieldSpec, MessageSpec, RecordType
from quorate.codecs.records import RECORD_TYPES
from quorate.codecs.wire import ArrayType, StructType, Uuid

__all__ = ["records"]

HELP = """List the record types of Kafka's coordinators, or show the fields of one.

NAME is a name or number of a record type, or a message of the consumer protocol. Kafka writes the versions shown as "written"; older ones are read.

\b
quorate records
quorate records OffsetCommit
quorate records ConsumerProtocolSubscription
quorate records --json | jq -r '.[] | select(.since == "4.1").name'
"""


@click.command(help=HELP)
@click.argument("name", required=False)
@click.option("--topic", type=click.Choice(tuple(RECORD_TYPES)), help="Only this topic.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="JSON: an array of record types, or of those that NAME means with their fields.",
)
def records(name: str | None, topic: str | None, as_json: bool) -> None:
    """List the types or describe one."""
    if name is None:
        types = list(_all_types(topic))
        if as_json:
            _print_json([_type_facts(one) for one in types])
        else:
            _print_types(types)
        return
    protocol = next((cls for known, cls in PROTOCOL_MESSAGES.items() if known.lower() == name.lower()), None)
    if protocol is not None:
        facts = _message_facts(protocol.spec) | {"example": message_example(protocol)}
        _print_json([facts]) if as_json else _print_message(facts)
        return
    found = [one for one in _all_types(topic) if _means(name, one)]
    if not found:
        where = f" in {topic}" if topic else ""
        raise UserError(f"there is no record type {name!r}{where}", *close_types(name))
    described = [
        _type_facts(one)
        | {"key": _message_facts(one.key), "value": _message_facts(one.value), "example": record_example(one)}
        for one in found
    ]
    if as_json:
        _print_json(described)
        return
    for index, facts in enumerate(described):
        if index:
            click.echo()
        _print_type(facts)


def _all_types(topic: str | None) -> Iterator[RecordType]:
    for types in RECORD_TYPES.values():
        yield from (one for _, one in sorted(types.items()) if topic in (None, one.topic))


def _means(name: str, record_type: RecordType) -> bool:
    """A number, the name of the type, or that of its key or value class."""
    if re.fullmatch(r"\d+", name):
        return int(name) == record_type.type_id
    return name.lower() in (record_type.name.lower(), record_type.key.name.lower(), record_type.value.name.lower())


def _span(versions: range) -> str:
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"


def _versions(low: int, high: int) -> str:
    return f"version {low}" if low == high else f"versions {low}-{high}"


# ---- facts, in the form of --json


def _type_facts(record_type: RecordType) -> dict[str, Any]:
    return {
        "topic": record_type.topic,
        "type": record_type.type_id,
        "name": record_type.name,
        "versions": [record_type.versions[0], record_type.versions[-1]],
        "written": record_type.written,
        "since": record_type.since,
        "note": record_type.note,
    }


def _message_facts(spec: MessageSpec) -> dict[str, Any]:
    assert spec.versions is not None
    return {
        "name": spec.name,
        "about": _first_line(spec),
        "versions": [spec.versions[0], spec.versions[-1]],
        "flexible_since": spec.flexible_since,
        "fields": [_field_facts(field, spec.versions) for field in spec.fields],
    }


def _first_line(spec: MessageSpec) -> str:
    return " ".join((spec.cls.__doc__ or "").split("\n\n")[0].split())


def _field_facts(field: FieldSpec, versions: range) -> dict[str, Any]:
    carried = range(max(field.versions[0], versions[0]), min(field.versions[-1], versions[-1]) + 1)
    wire = field.type
    struct = wire.element if isinstance(wire, ArrayType) else wire
    facts: dict[str, Any] = {
        "name": field.name,
        "kafka_name": field.json_name,
        "type": wire.name,
        "versions": [carried[0], carried[-1]],
        "nullable": field.nullable,
        "tag": field.tag,
        "default": _json_default(field),
        "ignorable": field.ignorable,
        "since": field.release,
        "own": field.own,
    }
    if isinstance(struct, StructType):
        facts["fields"] = [_field_facts(inner, carried) for inner in struct.spec.fields]
    return facts


def _json_default(field: FieldSpec) -> Any:
    from quorate.codecs.json_form import to_json
    from quorate.codecs.message import Message

    default = field.default
    if isinstance(default, Message):
        return to_json(default, 0)
    if isinstance(default, Uuid):
        return str(default)
    return list(default) if isinstance(default, tuple) else default.decode() if isinstance(default, bytes) else default


# ---- for people


def _print_json(facts: list[dict[str, Any]]) -> None:
    click.echo(json.dumps(facts, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def _print_types(types: list[RecordType]) -> None:
    rows = [
        (str(t.type_id), t.name, _span(t.versions), "-" if t.written is None else str(t.written), t.since, t.note)
        for t in types
    ]
    header, *lines = columns([("id", "name", "versions", "written", "since", "note"), *rows], right=(0,))
    click.secho(header, bold=True)
    topic = None
    for record_type, line in zip(types, lines, strict=True):
        if record_type.topic != topic:
            topic = record_type.topic
            click.secho(f"── {topic} ──", bold=True)
        click.echo(line)


def _print_type(facts: dict[str, Any]) -> None:
    low, high = facts["versions"]
    written = "not written any more" if facts["written"] is None else f"Kafka 4.3 writes {facts['written']}"
    click.secho(f"{facts['name']}, type {facts['type']} of {facts['topic']}", bold=True)
    click.echo(
        f"since Kafka {facts['since']}; value {_versions(low, high)}, {written}"
        + (f"; {facts['note']}" if facts["note"] else "")
    )
    for part in ("key", "value"):
        click.echo()
        _print_fields(part, facts[part])
    click.echo()
    click.secho("example, as `quorate encode` takes it", bold=True)
    click.echo(json.dumps(facts["example"], ensure_ascii=False))


def _print_message(facts: dict[str, Any]) -> None:
    low, high = facts["versions"]
    click.secho(facts["name"], bold=True)
    click.echo(_versions(low, high))
    click.echo()
    _print_fields("message", facts)
    click.echo()
    click.secho(f"example, as `quorate encode --message {facts['name']}` takes it", bold=True)
    click.echo(json.dumps(facts["example"], ensure_ascii=False))


def _print_fields(part: str, message: dict[str, Any]) -> None:
    flexible = message["flexible_since"]
    extra = "" if flexible is None else f" (flexible since version {flexible})"
    click.secho(f"{part}: {message['about']}{extra}", bold=True)
    low, high = message["versions"]
    rows = list(_field_rows(message["fields"], [low, high], 1))
    for line in columns(rows):
        click.echo(line)


def _field_rows(fields: list[dict[str, Any]], around: list[int], depth: int) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, versions and what else there is to say; fields of structs indented below theirs."""
    for field in fields:
        low, high = field["versions"]
        versions = "" if [low, high] == around else _versions(low, high)
        said = [
            "nullable" if field["nullable"] else "",
            f"tag {field['tag']}" if field["tag"] is not None else "",
            f"default {json.dumps(field['default'])}"
            if field["tag"] is not None or field["default"] not in (0, "", [], "AAAAAAAAAAAAAAAAAAAAAA")
            else "",
            f"since {field['since']}" if field["since"] else "",
            "quorate's own" if field["own"] else "",
        ]
        yield "  " * depth + field["name"], field["type"], versions, ", ".join(part for part in said if part)
        if "fields" in field:
            yield from _field_rows(field["fields"], [low, high], depth + 1)

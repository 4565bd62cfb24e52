"""`quorate records`: list the record types, or the fields of one, from their declarations."""

import json
import re
from collections.abc import Iterator
from typing import Any

import click

from quorate.cli.encode import PROTOCOL_MESSAGES
from quorate.cli.errors import UserError
from quorate.cli.output import columns, echo_lines, json_text, table_lines
from quorate.codecs.json_records import close_types
from quorate.codecs.message import RecordType
from quorate.codecs.message_facts import message_example, message_facts, record_example, type_facts
from quorate.codecs.records import RECORD_TYPES

HELP = """List the record types of Kafka's coordinators, or show the fields of one.

NAME is the name or id of a record type, or a message of the consumer protocol. Kafka writes the versions shown as
"written", and reads older ones.

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
    help="Print JSON: an array of record types; with NAME, including their fields.",
)
def records(name: str | None, topic: str | None, as_json: bool) -> None:
    """List the types or describe one."""
    if name is None:
        types = list(_all_types(topic))
        if as_json:
            click.echo(json_text([type_facts(one) for one in types]))
        else:
            _print_types(types)
        return
    protocol = next((cls for known, cls in PROTOCOL_MESSAGES.items() if known.lower() == name.lower()), None)
    if protocol is not None:
        facts = message_facts(protocol.spec) | {"example": message_example(protocol)}
        click.echo(json_text([facts])) if as_json else _print_message(facts)
        return
    found = [one for one in _all_types(topic) if _means(name, one)]
    if not found:
        where = f" in {topic}" if topic else ""
        raise UserError(f"unknown record type {name!r}{where}", *close_types(name))
    described = [
        type_facts(one)
        | {"key": message_facts(one.key), "value": message_facts(one.value), "example": record_example(one)}
        for one in found
    ]
    if as_json:
        click.echo(json_text(described))
        return
    for index, facts in enumerate(described):
        if index:
            click.echo()
        _print_type(facts)


def _all_types(topic: str | None) -> Iterator[RecordType]:
    for types in RECORD_TYPES.values():
        yield from (one for _, one in sorted(types.items()) if topic in (None, one.topic))


def _means(name: str, record_type: RecordType) -> bool:
    """Return whether `name` is the id of the type, its name, or that of its key or value."""
    if re.fullmatch(r"\d+", name):
        return int(name) == record_type.type_id
    return name.lower() in (record_type.name.lower(), record_type.key.name.lower(), record_type.value.name.lower())


def _span(versions: range) -> str:
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"


def _versions(low: int, high: int) -> str:
    return f"version {low}" if low == high else f"versions {low}-{high}"


# ---- text output


def _print_types(types: list[RecordType]) -> None:
    rows = [
        (str(t.type_id), t.name, _span(t.versions), "-" if t.written is None else str(t.written), t.since, t.note)
        for t in types
    ]
    header, *lines = table_lines([("id", "name", "versions", "written", "since", "note"), *rows], right=(0,))
    click.echo(header)
    topic = None
    for record_type, line in zip(types, lines, strict=True):
        if record_type.topic != topic:
            topic = record_type.topic
            click.secho(f"── {topic} ──", bold=True)
        click.echo(line)


def _print_type(facts: dict[str, Any]) -> None:
    low, high = facts["versions"]
    written = "no longer written" if facts["written"] is None else f"Kafka 4.4 writes {facts['written']}"
    click.secho(f"{facts['name']}, type {facts['type']} of {facts['topic']}", bold=True)
    click.echo(
        f"since Kafka {facts['since']}; value {_versions(low, high)}, {written}"
        + (f"; {facts['note']}" if facts["note"] else "")
    )
    for part in ("key", "value"):
        click.echo()
        _print_fields(part, facts[part])
    _print_example("quorate encode", facts)


def _print_message(facts: dict[str, Any]) -> None:
    low, high = facts["versions"]
    click.secho(facts["name"], bold=True)
    click.echo(_versions(low, high))
    click.echo()
    _print_fields("message", facts)
    _print_example(f"quorate encode --message {facts['name']}", facts)


def _print_example(command: str, facts: dict[str, Any]) -> None:
    click.secho(f"\nexample for `{command}`", bold=True)
    click.echo(json.dumps(facts["example"], ensure_ascii=False))


def _print_fields(part: str, message: dict[str, Any]) -> None:
    flexible = message["flexible_since"]
    extra = "" if flexible is None else f" (flexible since version {flexible})"
    click.secho(f"{part}: {message['about']}{extra}", bold=True)
    low, high = message["versions"]
    echo_lines(columns(list(_field_rows(message["fields"], [low, high], 1))))


def _field_rows(fields: list[dict[str, Any]], around: list[int], depth: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, versions and remarks of each field; fields of structs are indented."""
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
        ]
        yield "  " * depth + field["name"], field["type"], versions, ", ".join(part for part in said if part)
        if "fields" in field:
            yield from _field_rows(field["fields"], [low, high], depth + 1)

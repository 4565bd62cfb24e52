"""`quorate encode`: turn JSON into the bytes that Kafka writes."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from quorate.cli.errors import UserError, note
from quorate.cli.text_input import STDIN, stdin_lines, text_lines
from quorate.codecs.consumer_protocol import SubscriptionForm, encode_protocol
from quorate.codecs.errors import EncodeError
from quorate.codecs.json_form import from_json
from quorate.codecs.json_records import is_no_record, json_documents, record_bytes
from quorate.codecs.message import Message
from quorate.codecs.messages.protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CooperativeStickyAssignorUserData,
    StickyAssignorUserData,
)
from quorate.codecs.records import CONSUMER_OFFSETS, RECORD_TYPES, encode_message

PROTOCOL_MESSAGES: dict[str, type[Message]] = {
    cls.__name__: cls
    for cls in (
        ConsumerProtocolSubscription,
        ConsumerProtocolAssignment,
        StickyAssignorUserData,
        CooperativeStickyAssignorUserData,
    )
}
"""Messages that members of classic groups send; records hold them in bytes fields."""

HELP = """Turn JSON into the bytes that Kafka writes.

INPUT is JSON, a file of JSON, or - for standard input (the default): one object, or one object per line. An object has
the type of the record, its key and its value (null for a tombstone), and optionally a version other than the one that
Kafka writes. The output of `quorate decode`, as jsonl or kafka, is accepted unchanged. Missing fields get Kafka's
defaults.

\b
quorate encode '{"type": "OffsetCommit", "key": {"group": "g", "topic": "t", "partition": 0}, "value": {"offset": 7}}'
quorate decode kafka-logs | quorate encode                 all records, as bytes
quorate encode record.json --format raw --part value > value.bin
quorate encode --message ConsumerProtocolSubscription '{"topics": ["orders"], "rack_id": "a"}'

Each record becomes a line `key-hex value-hex`, which `quorate decode -` reads. `quorate records NAME` shows an example
of each type.
"""


@click.command(help=HELP)
@click.argument("source", metavar="[INPUT]", required=False)
@click.option(
    "--topic",
    type=click.Choice(tuple(RECORD_TYPES)),
    default=CONSUMER_OFFSETS,
    show_default=True,
    help="Topic of objects that name none.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["hex", "json", "raw"]),
    default="hex",
    show_default=True,
    help="Lines of hex, JSON objects with hex, or raw bytes.",
)
@click.option("--part", type=click.Choice(["key", "value"]), help="Write only this part of the record.")
@click.option(
    "--message",
    metavar="NAME",
    help=f"Encode a message instead of a record; one of {', '.join(PROTOCOL_MESSAGES)}.",
)
@click.option(
    "--message-version",
    type=click.IntRange(0, 0x7FFF),
    metavar="N",
    help="Version of the message.  [default: the version in INPUT, else the newest]",
)
@click.option(
    "--subscription-form",
    type=click.Choice([form.value for form in SubscriptionForm]),
    default=SubscriptionForm.KAFKA.value,
    show_default=True,
    help="Rack in a ConsumerProtocolSubscription: since version 3 as in Kafka, or since version 2 as in the text of "
    "KIP-881.",
)
def encode(
    source: str | None,
    topic: str,
    form: str,
    part: str | None,
    message: str | None,
    message_version: int | None,
    subscription_form: str,
) -> None:
    """Check the options, encode the input and write it."""
    if message_version is not None and message is None:
        raise click.UsageError("--message-version needs --message; set a record's version in its JSON")
    subscriptions = SubscriptionForm(subscription_form)
    if subscriptions is not SubscriptionForm.KAFKA and (message or "").lower() != "consumerprotocolsubscription":
        raise click.UsageError("--subscription-form needs --message ConsumerProtocolSubscription")
    if message is None and form == "raw" and part is None:
        raise click.UsageError("--format raw needs --part key or --part value")
    if message is not None and part is not None:
        raise click.UsageError("--part is for records; a message has no key")
    with _opened(source) as (lines, name):
        documents = json_documents(lines, name)
        encoded = (
            _messages(documents, message, message_version, subscriptions)
            if message
            else _records(documents, topic, part)
        )
        _write(encoded, form)


@contextmanager
def _opened(source: str | None) -> Iterator[tuple[Iterator[str], str]]:
    if source is None and sys.stdin.isatty():
        raise click.UsageError("nothing to encode: give JSON, a file, or - for standard input")
    if source is None or source == "-":
        yield stdin_lines(), STDIN
    elif source.lstrip().startswith(("{", "[")):
        yield iter(source.splitlines(keepends=True)), "INPUT"
    else:
        try:
            file = Path(source).open("rb")  # noqa: SIM115 - closed below, outside of this `try`
        except OSError as error:
            raise UserError(
                f"{source}: cannot be read: {error.strerror}", "give JSON that begins with { or [, a file, or -"
            ) from None
        with file:
            yield text_lines(file, source), source


Encoded = dict[str, bytes | None]


def _records(documents: Iterator[tuple[str, Any]], topic: str, part: str | None) -> Iterator[Encoded]:
    passed = 0
    for place, document in documents:
        if is_no_record(document):
            passed += 1
            continue
        key, value = record_bytes(document, place, topic)
        yield {"key": key, "value": value} if part is None else {part: key if part == "key" else value}
    if passed:
        note(f"{passed:,} transaction markers or damaged batches in the input are not records: omitted")


def _messages(
    documents: Iterator[tuple[str, Any]], name: str, version: int | None, form: SubscriptionForm
) -> Iterator[Encoded]:
    cls = PROTOCOL_MESSAGES.get(name) or next(
        (found for known, found in PROTOCOL_MESSAGES.items() if known.lower() == name.lower()), None
    )
    if cls is None:
        raise UserError(f"--message {name}: unknown message", f"use one of {', '.join(PROTOCOL_MESSAGES)}")
    for place, document in documents:
        try:
            yield {"message": _message_bytes(cls, document, version, form)}
        except EncodeError as error:
            raise UserError(f"{place}: {error}") from None


def _message_bytes(cls: type[Message], document: Any, version: int | None, form: SubscriptionForm) -> bytes:
    assert cls.spec.versions is not None
    newest = cls.spec.versions[-1]
    fields = dict(document) if isinstance(document, dict) else document
    if isinstance(document, dict):
        said = fields.pop("version", newest)
        version = said if version is None else version
    if not isinstance(version, int) or isinstance(version, bool) or version not in cls.spec.versions:
        raise EncodeError(
            f"version: {cls.spec.name} has no version {version!r}; use {cls.spec.versions[0]} to {newest}"
        )
    message = from_json(cls, fields, version)
    if isinstance(message, ConsumerProtocolSubscription | ConsumerProtocolAssignment):
        return encode_protocol(message, version, form)
    return encode_message(message, version)  # user data of sticky assignors has no version field


def _write(encoded: Iterator[Encoded], form: str) -> None:
    out = sys.stdout.buffer
    for parts in encoded:
        if form == "raw":
            (data,) = parts.values()
            out.write(data or b"")
        else:
            hexes = {name: None if data is None else data.hex() for name, data in parts.items()}
            line = (
                json.dumps({f"{name}_hex": text for name, text in hexes.items()})
                if form == "json"
                else " ".join(text or "null" for text in hexes.values())
            )
            out.write(line.encode() + b"\n")
        if sys.stdin.isatty():
            out.flush()
    out.flush()

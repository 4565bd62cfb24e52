"""Read records from JSON: lines of `JsonLines`, of Kafka's formatters, and objects written by hand.

`quorate.codecs.json_form` reads the keys and values inside.
"""

import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from quorate.codecs.errors import EncodeError, InputError
from quorate.codecs.json_form import from_json
from quorate.codecs.message import RecordType
from quorate.codecs.records import RECORD_TYPES, CoordinatorRecord, encode_record

Json = Any

MAX_TEXT_BYTES = 64 << 20
"""Limit for a text that is read as a whole; a record has at most 1 MiB by default."""

_KNOWN = {
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "producer_id",
    "producer_epoch",
    "type",
    "name",
    "version",
    "key",
    "value",
    "value_hex",
    "error",
}
"""Fields of an object of `quorate decode`."""


def json_documents(text: Iterator[str], source: str) -> Iterator[tuple[str, Json]]:
    """Yield the objects in `text` with their places: one per line, or any number in any layout.

    Lines are yielded at once, so a pipe may be endless. An array yields its elements. Raises
    `InputError`.
    """
    lines = ((number, line) for number, line in enumerate(text, 1) if line.strip())
    first_number, first_line = next(lines, (0, ""))
    if not first_line:
        raise InputError(f"{source}: contains no JSON", "`quorate records OffsetCommit` shows an example")
    try:
        with _within_limits(f"{source}, line {first_number}"):
            first = json.loads(first_line)
    except json.JSONDecodeError:
        yield from _one_text(_whole(first_line, text, source), first_number, source)
        return
    yield from _elements(first, f"{source}, line {first_number}")
    for number, line in lines:
        place = f"{source}, line {number}"
        try:
            with _within_limits(place):
                document = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{place}: not JSON: {error.msg} at column {error.colno}") from None
        yield from _elements(document, place)


def _whole(first_line: str, rest: Iterator[str], source: str) -> str:
    """Return a text of objects in any layout. Raises `InputError` if it is too large."""
    lines, size = [first_line], len(first_line)
    for line in rest:
        lines.append(line)
        size += len(line)
        if size > MAX_TEXT_BYTES:
            raise InputError(
                f"{source}: more than {MAX_TEXT_BYTES >> 20} MiB without one object per line",
                "put each object on a line, for example with jq -c .",
            )
    return "".join(lines)


def _one_text(text: str, first_line: int, source: str) -> Iterator[tuple[str, Json]]:
    decoder = json.JSONDecoder()
    position = len(text) - len(text.lstrip())
    while position < len(text):
        place = f"{source}, line {first_line + text.count(chr(10), 0, position)}"
        try:
            with _within_limits(place):
                found, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise InputError(
                f"{source}, line {first_line + error.lineno - 1}: not JSON: {error.msg} at column {error.colno}"
            ) from None
        yield from _elements(found, place)
        position += len(text[position:]) - len(text[position:].lstrip())


@contextmanager
def _within_limits(place: str) -> Iterator[None]:
    """Convert Python's errors for deeply nested JSON and very long numbers to `InputError`."""
    try:
        yield
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise InputError(f"{place}: nested too deeply for a record") from None
    except ValueError:
        raise InputError(
            f"{place}: a number has more than {sys.get_int_max_str_digits():,} digits, which no field can hold"
        ) from None


def _elements(document: Json, place: str) -> Iterator[tuple[str, Json]]:
    if isinstance(document, list):
        yield from ((f"{place}, element {index}", element) for index, element in enumerate(document))
    else:
        yield place, document


def is_no_record(document: Json) -> bool:
    """Whether `quorate decode` wrote this for a transaction marker or for damaged bytes."""
    return isinstance(document, Mapping) and ("control" in document or ("path" in document and "error" in document))


def record_bytes(document: Json, place: str, topic: str) -> tuple[bytes | None, bytes | None]:
    """Return key and value bytes of one object. Raises `InputError` with place and reason."""
    try:
        if not isinstance(document, Mapping):
            raise EncodeError('expected an object such as {"type": "OffsetCommit", "key": {…}, "value": {…}}')
        error = document.get("error")
        if isinstance(error, Mapping) and "key_hex" in error:
            return _bytes(error, "key_hex", "error."), _bytes(error, "value_hex", "error.")
        return encode_record(_record(document, topic))
    except EncodeError as error:
        raise InputError(f"{place}: {error}") from None
    except InputError as error:
        raise InputError(f"{place}: {error.message}", *error.remedy) from None


def _bytes(document: Mapping[str, Json], name: str, path: str = "") -> bytes | None:
    if name not in document:
        raise EncodeError(f"{path}{name}: missing; use null for no bytes")
    text = document[name]
    try:
        return None if text is None else bytes.fromhex(text)
    except (ValueError, TypeError):
        raise EncodeError(f"{path}{name}: expected hex, not {text!r}") from None


def _record(document: Mapping[str, Json], default_topic: str) -> CoordinatorRecord:
    key, value = document.get("key"), document.get("value")
    topic = document.get("topic", default_topic)
    if not isinstance(topic, str) or topic not in RECORD_TYPES:
        raise EncodeError(f"topic: {topic!r} is not one of {', '.join(RECORD_TYPES)}")
    if "type" in document or "name" in document:  # report a wrong type before missing fields
        record_type_in(document, topic, default="topic" not in document)
    if key is None:
        raise EncodeError("key: expected an object")
    if "value" not in document:
        raise EncodeError('value: missing; "value": null makes a tombstone')
    if isinstance(key, Mapping) and set(key) in ({"type", "data"}, {"version", "data"}):
        record_type, version, key, value = _kafkas_form(document, topic)
    else:
        _reject_unknown(document)
        record_type = record_type_in(document, topic, default="topic" not in document)
        version = document.get("version")
    if value is None:
        version = None
    elif version is None:
        version = record_type.versions[-1] if record_type.written is None else record_type.written
    elif version not in record_type.versions or isinstance(version, bool):
        versions = record_type.versions
        has = f"versions {versions[0]} to {versions[-1]}" if len(versions) > 1 else f"version {versions[0]}"
        raise EncodeError(f"version: {record_type.value.name} has no version {version!r}; it has {has}")
    return CoordinatorRecord(
        topic=record_type.topic,
        key=from_json(record_type.key.cls, key, 0),
        value=None if value is None else from_json(record_type.value.cls, value, version),
        version=version,
        value_as_read=_bytes(document, "value_hex") if "value_hex" in document else None,
    )


def _kafkas_form(document: Mapping[str, Json], topic: str) -> tuple[RecordType, Json, Json, Json]:
    """Return type, version, key and value of a record in the form of Kafka's formatters.

    This is `{"key": {"type": 1, "data": {…}}, "value": {"version": 4, "data": {…}}}`. Before 4.0
    the formatters called the key's type its version.
    """
    key, value = document["key"], document.get("value")
    if value is not None and not (isinstance(value, Mapping) and set(value) == {"version", "data"}):
        raise EncodeError('value: expected {"version": number, "data": {…}} or null, as the key is in Kafka\'s form')
    others = sorted(set(document) - {"key", "value", "topic"})
    if others:
        raise EncodeError(f"{others[0]}: Kafka's form has key and value only")
    version, data = (None, None) if value is None else (value["version"], value["data"])
    wanted = {"type": key.get("type", key.get("version"))}
    return record_type_in(wanted, topic, default="topic" not in document, where="key.type"), version, key["data"], data


def _reject_unknown(document: Mapping[str, Json]) -> None:
    others = sorted(set(document) - _KNOWN)
    if others:
        raise EncodeError(f"{others[0]}: unknown; a record has type, key, value, and optionally version and topic")


def record_type_in(document: Mapping[str, Json], topic: str, *, default: bool, where: str = "type") -> RecordType:
    """Return the record type for `type`, a number or a name.

    With `default`, a name may also be that of a record type of another topic. Raises `EncodeError`
    or `InputError`.
    """
    wanted = document.get("type", document.get("name"))
    topics = (
        [topic, *(other for other in RECORD_TYPES if other != topic)]
        if default and isinstance(wanted, str)
        else [topic]
    )
    for record_type in (record_type for one in topics for record_type in RECORD_TYPES[one].values()):
        if isinstance(wanted, str):
            found = record_type.name.lower() == wanted.lower()
        else:
            found = record_type.type_id == wanted and not isinstance(wanted, bool)
        if found:
            name = document.get("name", record_type.name)
            if name != record_type.name and isinstance(wanted, int):
                raise EncodeError(
                    f"name: {name!r}, but type {wanted} of {topic} is {record_type.name}; remove one of the two"
                )
            return record_type
    if wanted is None:
        raise EncodeError(f'{where}: missing; give a number or a name, such as "type": "OffsetCommit"')
    raise InputError(f"{where}: {topic} has no record type {wanted!r}", *close_types(str(wanted)))


def close_types(name: str) -> list[str]:
    """Return suggestions for the name of a record type that does not exist."""
    names = {t.name.lower(): t.name for types in RECORD_TYPES.values() for t in types.values()}
    close = [names[match] for match in difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)]
    close += [full for lower, full in names.items() if name.lower() in lower and full not in close][: 5 - len(close)]
    return [f"did you mean {', '.join(close)}?"] * bool(close) + ["`quorate records` lists them all"]

"""Reads the message schemas in Kafka's jars, with the rules of Kafka's message generator.

These are `common/message/*.json`, and `common/metadata` for KRaft's records. This module does not
know our declarations; tests/codecs/test_schemas.py compares the two.
"""

import json
import re
import zipfile
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.oracle.client import jar


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of a schema, in versions that the message has.

    `default` is that of the generated class: 0, "", (), or the type's name in brackets for a
    struct of defaults.
    """

    name: str
    type: str
    versions: range
    nullable: range
    tag: int | None
    default: Any
    ignorable: bool
    map_key: bool
    fields: tuple["SchemaField", ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """A message. `api_key` is the record type of a key or value."""

    name: str
    kind: str
    api_key: int | None
    versions: range
    flexible: range
    fields: tuple[SchemaField, ...]


def kafka_version() -> str:
    """Return the release of the jars, such as "4.3.1"."""
    found = re.fullmatch(r"kafka-clients-(.+)\.jar", jar("kafka-clients").name)
    assert found is not None
    return found[1]


def schema_names(artifact: str) -> frozenset[str]:
    """Return the names of the messages in an artifact's jar."""
    found = (re.fullmatch(r"common/message/(\w+)\.json", name) for name in _texts(artifact))
    return frozenset(match[1] for match in found if match is not None)


def schema(artifact: str, name: str, folder: str = "message") -> Schema:
    """Return a schema of an artifact's jar. Raises `KeyError` for an unknown name."""
    return _schema(json.loads(_without_comments(_texts(artifact)[f"common/{folder}/{name}.json"])))


@cache
def _texts(artifact: str) -> dict[str, str]:
    """Return all schemas of a jar by path: opening it for each takes longer than reading all."""
    with zipfile.ZipFile(jar(artifact)) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/\w+/\w+\.json", name)]
        return {name: archive.read(name).decode() for name in names}


def facts(schema: Schema) -> list[str]:
    """Return a readable line for the message and each field. Equal schemas have equal lines."""
    spans = f"versions {_span(schema.versions)} flexible {_span(schema.flexible)}"
    head = f"{schema.name}: {schema.kind} {schema.api_key} {spans}"
    return [head, *_field_facts(schema.fields, "")]


def _field_facts(fields: tuple[SchemaField, ...], path: str) -> list[str]:
    out = []
    for f in fields:
        spans = f"versions {_span(f.versions)}, nullable {_span(f.nullable)}"
        text = f"{path}{f.name}: {f.type} {spans}, tag {f.tag}, default {f.default!r}"
        text += (", ignorable" if f.ignorable else "") + (", map key" if f.map_key else "")
        out += [text, *_field_facts(f.fields, f"{path}{f.name}.")]
    return out


def _span(versions: range) -> str:
    return f"{versions[0]}-{versions[-1]}" if versions else "none"


def _without_comments(text: str) -> str:
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


def _range(text: str | None, last: int) -> range:
    """Read "0-3", "2", "1+" (up to `last`) or "none"."""
    if text is None or text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), last + 1)
    first, _, end = text.partition("-")
    return range(int(first), min(int(end or first), last) + 1)


def _within(text: str | None, around: range) -> range:
    """Read versions, limited to those of the containing struct `around`, as in generated code."""
    found = _range(text, around.stop - 1)
    return range(max(found.start, around.start), found.stop) if found else found


def _schema(raw: dict[str, Any]) -> Schema:
    versions = _range(raw["validVersions"], 0x7FFF)
    structs = {struct["name"]: struct["fields"] for struct in raw.get("commonStructs", ())}
    return Schema(
        name=raw["name"],
        kind=raw["type"],
        api_key=raw.get("apiKey"),
        versions=versions,
        flexible=_within(raw["flexibleVersions"], versions),
        fields=tuple(_field(field, versions, structs) for field in raw["fields"]),
    )


def _field(raw: dict[str, Any], around: range, structs: dict[str, Any]) -> SchemaField:
    tagged = _within(raw.get("taggedVersions"), around)
    versions = _within(raw["versions"], around) if "versions" in raw else tagged
    if "tag" in raw:
        assert tagged == versions, (
            f"{raw['name']} is tagged in only some of its versions, which declarations do not support"
        )
    nested = raw.get("fields") or structs.get(raw["type"].removeprefix("[]"), ())
    return SchemaField(
        name=raw["name"][0].lower() + raw["name"][1:],
        type=raw["type"],
        versions=versions,
        nullable=_within(raw.get("nullableVersions"), versions),
        tag=raw.get("tag"),
        default=_default(raw["type"], raw.get("default")),
        ignorable=raw.get("ignorable", False),
        map_key=raw.get("mapKey", False),
        fields=tuple(_field(field, versions, structs) for field in nested),
    )


def _default(kind: str, given: Any) -> Any:
    """Return the generated class's default.

    A JSON null is no default. Only the string "null" is a null default.
    """
    if given == "null":
        return None
    if given is None or given == "":
        if kind.startswith("[]"):
            return ()
        empty = {"string": "", "bytes": b"", "bool": False, "uuid": bytes(16), "float64": 0.0, "records": None}
        return empty.get(kind, 0 if re.fullmatch(r"u?int\d+", kind) else f"<{kind}>")
    if kind == "bool":
        return str(given).lower() == "true"
    return int(str(given), 0) if re.fullmatch(r"u?int\d+", kind) else given

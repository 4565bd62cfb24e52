"""Convert single records to columns, as the fallback of the columnar decoder and for its tests."""

from typing import Any

import pyarrow as pa

from quorate.codecs.columnar.schema import record_schema
from quorate.codecs.errors import DecodeError
from quorate.codecs.message import Message
from quorate.codecs.records import CoordinatorRecord
from quorate.codecs.wire import readable


def columns_of(
    records: list[CoordinatorRecord], *, dictionary: bool, fields: frozenset[str] | None = None
) -> list[pa.Array]:
    """Return records of one type as columns of `record_schema`, without `row`."""
    schema = record_schema(records[0].type, dictionary=dictionary, fields=fields)
    rows = [facts_of(record) for record in records]
    return [pa.array([row.get(field.name) for row in rows], field.type) for field in schema if field.name != "row"]


def facts_of(record: CoordinatorRecord) -> dict[str, Any]:
    """Return a record's columns by name, without `row`, and for tombstones without the value."""
    unknown = 0 if record.value is None else count_unknown_tags(record.value)
    facts: dict[str, Any] = as_python(record.key)
    facts |= {"tombstone": record.value is None, "value_version": record.version, "unknown_tags": unknown}
    if record.value is not None:
        facts |= as_python(record.value)
    return facts


def as_python(message: Message) -> dict[str, Any]:
    """Return a message as from Arrow's `to_pylist`, with U+FFFD for bytes that are not UTF-8."""
    return {f.name: _plain(getattr(message, f.name)) for f in message.spec.fields}


def _plain(value: Any) -> Any:
    match value:
        case Message():
            return as_python(value)
        case tuple():
            return [_plain(item) for item in value]
        case str():
            return readable(value)
        case bytes():
            return bytes(value)
    return value


def count_unknown_tags(message: Message) -> int:
    """Return the number of unknown tagged fields in the message and its structs."""
    total = len(message.unknown_tags)
    for f in message.spec.fields:
        value = getattr(message, f.name)
        items = value if isinstance(value, tuple) else (value,)
        total += sum(count_unknown_tags(item) for item in items if isinstance(item, Message))
    return total


def problem_row(
    problem: DecodeError, type_id: int | None, row: int, key: bytes | None, value: bytes | None
) -> dict[str, Any]:
    """Return a record with a problem as a row of the batch of problems."""
    return {
        "row": row,
        "type_id": type_id,
        "reason": str(problem.reason),
        "where": problem.where,
        "position": problem.position,
        "field": problem.field,
        "detail": problem.detail,
        "key": key,
        "value": value,
    }

"""Rows of the source without a JVM, and the expected rows by `read_log`."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from quorate.codecs import (
    CoordinatorRecord,
    LogEntry,
    LogProblem,
    MalformedRecord,
    UnknownRecord,
    Uuid,
    as_kafka_reads,
    read_log,
)
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.message import Message
from quorate.codecs.messages import RECORD_TYPES
from quorate.pipeline import arrow_schema
from quorate.pipeline.schema import column_of
from quorate.pipeline.source import ConsumerOffsets, _FilteringReader

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(path: Path | str | None = None, filters: Iterable[Any] = (), **options: Any) -> list[dict[str, Any]]:
    """Return the rows that the source reads, task by task, as in Spark."""
    return [row for split in splits_of(path, filters, **options) for row in split]


def splits_of(
    path: Path | str | None = None, filters: Iterable[Any] = (), **options: Any
) -> list[list[dict[str, Any]]]:
    """Return the rows of each task."""
    given = {name.replace("isolation_level", "isolation.level"): str(value) for name, value in options.items()}
    if path is not None:
        given["path"] = str(path)
    source = ConsumerOffsets(given)
    reader = _FilteringReader(source.parsed)
    reader.pushFilters(list(filters))
    schema = arrow_schema(source.parsed.topic, source.parsed.types)
    found = []
    for split in reader.partitions():
        table = pa.Table.from_batches(reader.read(split), schema)
        found.append(table.to_pylist())
    return found


def expected(path: Path, **options: Any) -> list[dict[str, Any]]:
    """Return the expected rows for the entries of `read_log`."""
    return [row_of(entry) for entry in read_log(path, **options)]


def row_of(entry: LogEntry | LogProblem) -> dict[str, Any]:
    """Convert an entry to a row of the pipeline."""
    row: dict[str, Any] = dict.fromkeys(arrow_schema(entry.topic).names)
    if isinstance(entry, LogProblem):
        error = {
            "reason": str(entry.reason),
            "where": "file",
            "position": entry.position,
            "field": None,
            "detail": str(entry),
        }
        return row | {"topic": entry.topic, "partition": entry.partition, "error": error}
    row |= {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp": None if entry.timestamp_ms < 0 else EPOCH + timedelta(milliseconds=entry.timestamp_ms),
        "producer_id": None if entry.producer_id == -1 else entry.producer_id,
        "transactional": entry.transactional,
    }
    match as_kafka_reads(entry.record) or entry.record:
        case ControlRecord(type_id=type_id, name=name, coordinator_epoch=epoch):
            row |= {"type": "Control", "type_id": type_id, "control": {"name": name, "coordinator_epoch": epoch}}
        case CoordinatorRecord() as record:
            found = RECORD_TYPES[entry.topic][record.type_id]
            key = fields_of(record.key)
            group = next((key.pop(name) for name in ("group", "group_id") if name in key), None)
            value = (
                dict.fromkeys(field.name for field in found.value.fields)
                if record.value is None
                else fields_of(record.value)
            )
            row |= {
                "type": found.name,
                "type_id": found.type_id,
                "value_version": record.version,
                "group": group,
                "tombstone": record.value is None,
                "unknown_tags": 0,
                column_of(found.name): key | value,
            }
        case UnknownRecord() | MalformedRecord():
            type_id = None if len(entry.key_bytes or b"") < 2 else int.from_bytes(entry.key_bytes[:2], signed=True)
            known = RECORD_TYPES[entry.topic].get(type_id) if type_id is not None else None
            row |= {
                "type": None if known is None else known.name,
                "type_id": type_id,
                "tombstone": entry.value_bytes is None,
            }
    if isinstance(entry.record, UnknownRecord | MalformedRecord):
        problem = entry.record.problem
        row |= {
            "error": {
                "reason": str(problem.reason),
                "where": problem.where,
                "position": problem.position,
                "field": problem.field,
                "detail": problem.detail,
            },
            "key": entry.key_bytes,
            "value": entry.value_bytes,
        }
    return row


def fields_of(message: Message) -> dict[str, Any]:
    """Return the fields of a message, with ids as text."""
    return {field.name: plain(getattr(message, field.name)) for field in type(message).spec.fields}


def plain(value: Any) -> Any:
    match value:
        case Uuid():
            return str(value)
        case Message():
            return fields_of(value)
        case tuple() | list():
            return [plain(one) for one in value]
    return value


def by_place(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Return rows in an order that does not depend on tasks."""
    return sorted((tuple(sorted(row.items(), key=lambda item: item[0])) for row in rows), key=repr)

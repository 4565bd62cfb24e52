"""Convert rows of the pipeline's schema back to records, which the coordinator replays.

This is a Python loop over rows, so jobs first filter rows. Spark packs the rows for Python
(`packed`); the local engine passes them as the source returns them.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import pyarrow as pa

from quorate.codecs.log.model import LogEntry
from quorate.codecs.message import CONSUMER_OFFSETS, MessageSpec, RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.records import CoordinatorRecord
from quorate.codecs.wire import ArrayType, BytesType, StructType, Uuid, UuidType, WireType
from quorate.pipeline.jobs.moments import NO_ORDER, milliseconds
from quorate.pipeline.schema import GROUP_FIELDS
from quorate.pipeline.workers import settle

Row = dict[str, Any]
Convert = Callable[[Any], Any]

PACKED = "packed"
"""Column with the fields of key and value, as JSON."""

PENDING_OF = "pending_of"
"""Column with the producer of an open transaction, null for all other rows."""

ABORTED = "aborted"
"""Column that marks an offset commit in an aborted transaction: it only creates the group."""

TWO_RECORDS = (
    "there are two different records at this offset: "
    "rows of several clusters need different names in the column `topic`, "
    "and of segments with the same offsets only one is of the log"
)

COMMON = (
    *("topic", "partition", "offset", "producer_id", "transactional"),
    *("type", "value_version", "group", "tombstone"),
)
TYPES = {found.name: found for found in RECORD_TYPES[CONSUMER_OFFSETS].values()}


def rows_in_order(table: pa.Table) -> Iterator[tuple[Row, CoordinatorRecord]]:
    """Yield the records of packed rows of one partition by offset, with their common columns.

    Duplicate rows are dropped. Raises `ValueError` for rows without an offset, and for different
    records at one offset, which cannot be of one log.
    """
    rows = [row for row in table.to_pylist() if row["type"] in TYPES and row[PACKED] is not None]
    if any(row["offset"] is None for row in rows):
        raise ValueError(NO_ORDER)
    rows.sort(key=_offset)
    last: Row = {"offset": None}
    for row in rows:
        if row["offset"] != last["offset"]:
            last = row
            yield row, record_of(TYPES[row["type"]], row, json.loads(row[PACKED]))
        elif any(row[name] != last[name] for name in ("type", "group", PACKED)):
            raise ValueError(f"{row['topic']}-{row['partition']}, offset {row['offset']}: {TWO_RECORDS}")
    settle()


def entries(rows: Iterable[tuple[Row, CoordinatorRecord]]) -> Iterator[LogEntry]:
    """Yield the rows of one log as log entries, to replay a history."""
    for row, record in rows:
        timestamp = row["timestamp"]
        yield _entry(row, record, -1 if timestamp is None else milliseconds(timestamp))


def entry_of(row: Row, timestamp_ms: int) -> LogEntry:
    """Convert one packed row to a log entry."""
    return _entry(row, record_of(TYPES[row["type"]], row, json.loads(row[PACKED])), timestamp_ms)


def _entry(row: Row, record: CoordinatorRecord, timestamp_ms: int) -> LogEntry:
    producer_id = row.get("producer_id") if row.get("transactional") else None
    return LogEntry.of(
        record,
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=timestamp_ms,
        producer_id=-1 if producer_id is None else producer_id,
    )


def record_of(record_type: RecordType, row: Row, struct: Row) -> CoordinatorRecord:
    """Return a record from its common columns `row` and its fields `struct` (null if missing)."""
    make_key, make_value = _makers(record_type)
    version = row["value_version"]
    return CoordinatorRecord(
        key=make_key(dict.fromkeys(GROUP_FIELDS, row["group"]) | struct),
        value=None if row["tombstone"] else make_value(struct),
        version=None if row["tombstone"] else version,
    )


@cache
def _makers(record_type: RecordType) -> tuple[Convert, Convert]:
    return _message(record_type.key), _message(record_type.value)


def _message(spec: MessageSpec) -> Convert:
    fields = [(field.name, _conversion(field.type)) for field in spec.fields]
    cls = spec.cls

    def make(row: Row) -> Any:
        values: Row = {}
        for name, convert in fields:
            value = row.get(name)
            values[name] = value if convert is None or value is None else convert(value)
        return cls(**values)

    return make


def _conversion(kind: WireType) -> Convert | None:
    """Return the conversion from a column's value to a message's; `None` if they are the same."""
    match kind:
        case UuidType():
            return Uuid.parse
        case BytesType():
            return _bytes
        case StructType(spec):
            return _message(spec)
        case ArrayType(element):
            convert = _conversion(element)
            if convert is None:
                return tuple
            return lambda values: tuple(map(convert, values))
    return None


def _bytes(value: str | bytes) -> bytes:
    """Return the bytes of a field, which packed rows have in base64."""
    return b64decode(value) if isinstance(value, str) else value


def _offset(row: Row) -> int:
    offset: int = row["offset"]
    return offset

"""Convert rows of the pipeline's schema back to records, which the coordinator replays.

This is a Python loop over rows, so jobs first filter rows in the JVM. The rows are packed for
Python: a single column has the struct of the row's record type as JSON, instead of a struct column
per record type. Spark computes the size of each column of a row, which takes 300 µs for all types.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from quorate.codecs.batches.model import TimestampType
from quorate.codecs.log.model import LogEntry
from quorate.codecs.message import CONSUMER_OFFSETS, MessageSpec, RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.records import CoordinatorRecord
from quorate.codecs.wire import ArrayType, BytesType, StructType, Uuid, UuidType, WireType
from quorate.pipeline.jobs.columns import NO_ORDER, record_time
from quorate.pipeline.schema import GROUP_FIELDS, column_of
from quorate.pipeline.workers import settle

__all__ = [
    "PACKED",
    "TWO_RECORDS",
    "Row",
    "entries",
    "entry_of",
    "packed",
    "packed_columns",
    "record_of",
    "rows_in_order",
]

Row = dict[str, Any]
Convert = Callable[[Any], Any]

PACKED = "packed"
"""Column with the fields of key and value, as JSON."""

TWO_RECORDS = (
    "there are two different records at this offset: "
    "rows of several clusters need different names in the column `topic`, "
    "and of segments with the same offsets only one is of the log"
)

_COMMON = (
    *("topic", "partition", "offset", "producer_id", "transactional"),
    *("type", "value_version", "group", "tombstone"),
)
_TYPES = {found.name: found for found in RECORD_TYPES[CONSUMER_OFFSETS].values()}


def packed(df: DataFrame, *also: Column | str) -> DataFrame:
    """Pack rows for `rows_in_order`, with the columns `also`.

    Rows of transaction markers and of undecodable records have no packed fields.
    """
    return df.select(*packed_columns(df), *also)


def packed_columns(df: DataFrame) -> list[Column | str]:
    """Return the columns of packed rows."""
    structs = [column_of(name) for name in _TYPES if column_of(name) in df.columns]
    return [*_COMMON, record_time(), F.coalesce(*[F.to_json(F.col(name)) for name in structs]).alias(PACKED)]


def rows_in_order(table: pa.Table) -> Iterator[tuple[Row, CoordinatorRecord]]:
    """Yield the records of packed rows of one partition by offset, with their common columns.

    Duplicate rows are dropped. Raises `ValueError` for rows without an offset, and for different
    records at one offset, which cannot be of one log.
    """
    rows = [row for row in table.to_pylist() if row["type"] in _TYPES and row[PACKED] is not None]
    if any(row["offset"] is None for row in rows):
        raise ValueError(NO_ORDER)
    rows.sort(key=_offset)
    last: Row = {"offset": None}
    for row in rows:
        if row["offset"] != last["offset"]:
            last = row
            yield row, record_of(_TYPES[row["type"]], row, json.loads(row[PACKED]))
        elif any(row[name] != last[name] for name in ("type", "group", PACKED)):
            raise ValueError(f"{row['topic']}-{row['partition']}, offset {row['offset']}: {TWO_RECORDS}")
    settle()


def entries(table: pa.Table) -> Iterator[LogEntry]:
    """Yield the same as log entries, to replay a history."""
    for row, record in rows_in_order(table):
        timestamp = row["timestamp"]
        yield _entry(row, record, -1 if timestamp is None else milliseconds(timestamp))


def entry_of(row: Row, timestamp_ms: int) -> LogEntry:
    """Convert one packed row to a log entry."""
    return _entry(row, record_of(_TYPES[row["type"]], row, json.loads(row[PACKED])), timestamp_ms)


def _entry(row: Row, record: CoordinatorRecord, timestamp_ms: int) -> LogEntry:
    producer_id = row.get("producer_id")
    return LogEntry(
        topic=CONSUMER_OFFSETS,
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=timestamp_ms,
        timestamp_type=TimestampType.CREATE_TIME,
        producer_id=-1 if producer_id is None else producer_id,
        producer_epoch=-1,
        sequence=-1,
        transactional=bool(row.get("transactional")),
        partition_leader_epoch=-1,
        headers=(),
        key_bytes=None,
        value_bytes=None,
        record=record,
    )


def milliseconds(timestamp: Any) -> int:
    """Convert a time with a zone to exact milliseconds since 1970."""
    from datetime import UTC, datetime, timedelta

    return int((timestamp - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1))


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
            return b64decode
        case StructType(spec):
            return _message(spec)
        case ArrayType(element):
            convert = _conversion(element)
            if convert is None:
                return tuple
            return lambda values: tuple(map(convert, values))
    return None


def _offset(row: Row) -> int:
    offset: int = row["offset"]
    return offset

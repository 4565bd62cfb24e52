"""The columns of decoded records: some that every record has, and a struct for each record type, filled in the rows of that type only.

Names are Spark's where Spark has one (`topic`, `partition`, `offset`, `timestamp`, as its Kafka
source has them), else Kafka's. The struct of a record type is its name in snake_case, and holds the
fields of key and value but the group, which is a column for all types. Topic ids are text in the
form in which Kafka shows them. All is derived from the declarations in `quorate.codecs`.
"""

import re
from collections.abc import Iterable
from functools import cache

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from quorate.codecs.columnar.schema import record_schema
from quorate.codecs.errors import QuorateError
from quorate.codecs.message import CONSUMER_OFFSETS, RecordType
from quorate.codecs.messages import RECORD_TYPES

__all__ = [
    "COMMON",
    "CONTROL",
    "ERROR",
    "LATEST_MS",
    "RAW",
    "OptionError",
    "arrow_schema",
    "column_of",
    "record_types",
    "spark_schema",
    "struct_of",
]

TEXT, BYTES, BOOL, DOUBLE = pa.string(), pa.binary(), pa.bool_(), pa.float64()
SHORT, INT, LONG = pa.int16(), pa.int32(), pa.int64()
TIME = pa.timestamp("us", "UTC")
"""The types of columns, by Spark's names."""

CONTROL = "Control"
"""The `type` of transaction markers and other control records, whose struct is `control`."""

GROUP_FIELDS = ("group", "group_id")

ERROR = pa.struct(
    {
        "reason": TEXT,
        "where": TEXT,
        "position": LONG,
        "field": TEXT,
        "detail": TEXT,
    }
)
"""What is wrong with a row: the reason in Kafka's and our terms, whether it is about the `key`, the
`value`, or a `file`, where in it, and the details.
"""

COMMON: pa.Schema = pa.schema(
    {
        "topic": TEXT,
        "partition": INT,
        "offset": LONG,
        "timestamp": TIME,
        "producer_id": LONG,
        "transactional": BOOL,
        "type": TEXT,
        "type_id": SHORT,
        "value_version": SHORT,
        "group": TEXT,
        "tombstone": BOOL,
        "unknown_tags": INT,
        "error": ERROR,
        "key": BYTES,
        "value": BYTES,
    }
)
"""The columns of every row. `producer_id` is null without one; `type` is null where the key does
not say a type that is known; `key` and `value` are the bytes of rows with an error.
"""

RAW = ("key", "value")

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999. Whatever is later is not a time that a broker wrote; neither Python
nor, later still, Spark has it.
"""

CONTROL_STRUCT = pa.struct({"name": TEXT, "coordinator_epoch": INT})


class OptionError(QuorateError, ValueError):
    """An option that cannot be; the message names it, and says what can."""


def column_of(name: str) -> str:
    """The struct of a record type: `OffsetCommit` → `offset_commit`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def record_types(topic: str = CONSUMER_OFFSETS, types: Iterable[str] | None = None) -> tuple[RecordType, ...]:
    """The record types of a topic in the order of their numbers, or those that are asked for by name.

    Raises `OptionError` for names that the topic has not.
    """
    if topic not in RECORD_TYPES:
        raise OptionError(f"{topic!r} is not a coordinator topic; use one of {', '.join(RECORD_TYPES)}")
    known = {record_type.name: record_type for record_type in RECORD_TYPES[topic].values()}
    wanted = set(known) if types is None else set(types) - {CONTROL}
    if unknown := sorted(wanted - known.keys()):
        raise OptionError(f"{topic} has no records of type {', '.join(unknown)}; it has {', '.join(sorted(known))}")
    return tuple(sorted((known[name] for name in wanted), key=lambda found: found.type_id))


@cache
def struct_of(record_type: RecordType) -> pa.DataType:
    """The fields of a record type's key and value but the group; all nullable."""
    left_out = {"row", "tombstone", "value_version", "unknown_tags"}
    keys = {field.name for field in record_type.key.fields if field.name in GROUP_FIELDS}
    fields = [
        pa.field(field.name, _in_spark(field.type))
        for field in record_schema(record_type)
        if field.name not in left_out | keys
    ]
    return pa.struct(fields)


def arrow_schema(
    topic: str = CONSUMER_OFFSETS, types: Iterable[str] | None = None, columns: Iterable[str] | None = None
) -> pa.Schema:
    """The columns in Arrow: see `spark_schema`."""
    wanted = None if types is None else list(types)
    families = [pa.field(column_of(found.name), struct_of(found)) for found in record_types(topic, wanted)]
    if wanted is None or CONTROL in wanted:
        families.append(pa.field(column_of(CONTROL), CONTROL_STRUCT))
    schema = pa.schema([*COMMON, *families])
    return schema if columns is None else _narrowed(schema, list(columns))


def spark_schema(
    topic: str = CONSUMER_OFFSETS, types: Iterable[str] | None = None, columns: Iterable[str] | None = None
) -> StructType:
    """The columns in Spark: those of `COMMON`, then a struct for each record type of the topic, or for those that are asked for (`"Control"`: transaction markers).

    `columns`: only these, by name; `offset_commit.offset` is a field of a struct, whose other
    fields are left out unless they are named, too. The order is always the same. Raises
    `OptionError` for a topic, type or column that is not known.
    """
    schema: StructType = from_arrow_schema(arrow_schema(topic, types, columns))
    return schema


def _narrowed(schema: pa.Schema, columns: list[str]) -> pa.Schema:
    """The columns that are named, with the fields that are."""
    fields: dict[str, set[str]] = {}
    whole = set()
    for name in columns:
        column, _, inner = name.partition(".")
        there = schema.names
        if column in there and inner:
            kind = schema.field(column).type
            column, there = inner, [field.name for field in kind] if pa.types.is_struct(kind) else []
        if column not in there:
            listed = ", ".join(there or schema.names)
            raise OptionError(f"there is no column {name!r}, or not with these types; there are {listed}")
        if inner:
            fields.setdefault(name.partition(".")[0], set()).add(inner)
        else:
            whole.add(name)
    found = []
    for field in schema:
        if field.name in whole:
            found.append(field)
        elif field.name in fields:
            found.append(pa.field(field.name, pa.struct([one for one in field.type if one.name in fields[field.name]])))
    if not found:
        raise OptionError("no column is named; leave the columns out to have all")
    return pa.schema(found)


def _in_spark(kind: pa.DataType) -> pa.DataType:
    """The type as Spark can have it: no fixed binaries, no unsigned numbers; ids are text."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _in_spark(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _in_spark(field.type)) for field in kind])
    if pa.types.is_fixed_size_binary(kind):
        return TEXT
    if pa.types.is_uint16(kind):
        return INT
    return kind

"""The columns of decoded records: common columns, and a struct for each record type.

A struct is filled only in rows of its type. Names are those of Spark's Kafka source where it has
the column (`topic`, `partition`, `offset`, `timestamp`), else Kafka's. The struct of a record type
is named like the type, in snake_case, and contains the fields of key and value except the group,
which is a common column. Topic ids are text, in Kafka's form. The schema is generated from the
declarations in `quorate.codecs`.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from quorate.codecs.columnar.schema import record_schema
from quorate.codecs.errors import QuorateError
from quorate.codecs.message import CONSUMER_OFFSETS, RecordType
from quorate.codecs.messages import RECORD_TYPES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TEXT, BYTES, BOOL, DOUBLE = pa.string(), pa.binary(), pa.bool_(), pa.float64()
SHORT, INT, LONG = pa.int16(), pa.int32(), pa.int64()
TIME = pa.timestamp("us", "UTC")
"""Types of columns, named as in Spark."""

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
"""The error of a row: reason, whether the `key`, the `value` or a `file` is damaged, the byte
position, the field, and the details.
"""

IN_FILE = "file"
"""`where` of the row for a damaged batch or file."""

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
"""The columns of every row. `producer_id` is null if the record has none; `type` is null if the key
has no known type; `key` and `value` are the bytes of rows with an error.
"""

RAW = ("key", "value")

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999. No broker wrote a later timestamp, and Python cannot represent it."""

CONTROL_STRUCT = pa.struct({"name": TEXT, "coordinator_epoch": INT})


class OptionError(QuorateError, ValueError):
    """An invalid option. The message names the option and its valid values."""


def column_of(name: str) -> str:
    """Return the name of a record type's struct: `OffsetCommit` → `offset_commit`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def record_types(topic: str = CONSUMER_OFFSETS, types: Iterable[str] | None = None) -> tuple[RecordType, ...]:
    """Return the record types of a topic in the order of their numbers, or the requested ones.

    Raises `OptionError` for topics without record types, and for types of other topics.
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
    """Return the fields of a record type's key and value except the group; all are nullable."""
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
    """Return the columns as an Arrow schema. Arguments and errors as of `spark_schema`."""
    wanted = None if types is None else list(types)
    families = [pa.field(column_of(found.name), struct_of(found)) for found in record_types(topic, wanted)]
    if wanted is None or CONTROL in wanted:
        families.append(pa.field(column_of(CONTROL), CONTROL_STRUCT))
    schema = pa.schema([*COMMON, *families])
    return schema if columns is None else _narrowed(schema, list(columns))


def spark_schema(
    topic: str = CONSUMER_OFFSETS, types: Iterable[str] | None = None, columns: Iterable[str] | None = None
) -> "StructType":
    """Return the columns in Spark: common columns, then a struct for each record type.

    `types`: the record types, by default all of the topic; `"Control"` is transaction markers.
    `columns`: only these columns, or fields of structs, such as `offset_commit.offset`. Their order
    in the schema does not depend on the order in `columns`. Raises `OptionError` for an unknown
    topic, type or column.
    """
    from pyspark.sql.pandas.types import from_arrow_schema  # the local engine has no pyspark

    schema: StructType = from_arrow_schema(arrow_schema(topic, types, columns))
    return schema


def _narrowed(schema: pa.Schema, columns: list[str]) -> pa.Schema:
    """Return the schema with only these columns and fields."""
    fields: dict[str, set[str]] = {}
    whole = set()
    for name in columns:
        column, _, inner = name.partition(".")
        existing = schema.names
        if column in existing and inner:
            kind = schema.field(column).type
            column, existing = inner, [field.name for field in kind] if pa.types.is_struct(kind) else []
        if column not in existing:
            listed = ", ".join(existing or schema.names)
            raise OptionError(f"no column {name!r} in the schema of these record types; use one of {listed}")
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
        raise OptionError("the list of columns is empty; omit it to read all columns")
    return pa.schema(found)


def _in_spark(kind: pa.DataType) -> pa.DataType:
    """Return Spark's type: it has no fixed-size binaries and no unsigned numbers; ids are text."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _in_spark(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _in_spark(field.type)) for field in kind])
    if pa.types.is_fixed_size_binary(kind):
        return TEXT
    if pa.types.is_uint16(kind):
        return INT
    return kind

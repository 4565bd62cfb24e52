"""Arrow schemas of record types, derived from the declarations.

Key and value fields are columns of the same table. No key has a field with the name of a value
field, nor with that of a column added by quorate. Every value field is nullable, because a
tombstone has none. Text is `string`, bytes `binary`, a uuid `fixed_size_binary[16]`.
"""

from functools import cache
from typing import Any

import pyarrow as pa

from quorate.codecs.message import FieldSpec, MessageSpec, RecordType
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, UuidType, WireType

PROBLEMS = "problems"
"""The name of the batch of rows that cannot be decoded, or have trailing bytes."""

PROBLEMS_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("type_id", pa.int16()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("where", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("field", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)

_FIXED = {"b": pa.int8(), "h": pa.int16(), "H": pa.uint16(), "i": pa.int32(), "q": pa.int64()}


def arrow_type(wire: WireType) -> pa.DataType:
    """Return the Arrow type of a wire type."""
    match wire:
        case FixedType(code=code):
            return _FIXED[code]
        case StringType():
            return pa.string()
        case BytesType():
            return pa.binary()
        case UuidType():
            return pa.binary(16)
        case ArrayType(element):
            return pa.list_(pa.field("element", arrow_type(element), nullable=False))
        case StructType(spec):
            return pa.struct([_field(f) for f in spec.fields])


def _field(f: FieldSpec, *, nullable: bool | None = None) -> Any:
    return pa.field(f.name, arrow_type(f.type), nullable=f.nullable if nullable is None else nullable)


def _key_field(f: FieldSpec, dictionary: bool) -> Any:
    if dictionary and isinstance(f.type, StringType):
        return pa.field(f.name, pa.dictionary(pa.int32(), pa.string()), nullable=False)
    return _field(f, nullable=False)


@cache
def message_schema(spec: MessageSpec, fields: frozenset[str] | None = None) -> pa.Schema:
    """Return one column per field of a message, or only those in `fields`."""
    return pa.schema([_field(f) for f in spec.fields if fields is None or f.name in fields])


@cache
def record_schema(
    record_type: RecordType, *, dictionary: bool = False, fields: frozenset[str] | None = None
) -> pa.Schema:
    """Return the columns of a record type.

    * `row`: the index of the record in the input;
    * the fields of the key; with `dictionary`, their text is dictionary-encoded;
    * `tombstone`, and `value_version`, which is null for a tombstone;
    * the fields of the value, null for a tombstone;
    * `unknown_tags`: the number of unknown tagged fields in the value and its structs.

    `fields`: the fields of key and value that are columns; `None` for all.
    """
    return pa.schema(
        [
            pa.field("row", pa.int64(), nullable=False),
            *(_key_field(f, dictionary) for f in record_type.key.fields if fields is None or f.name in fields),
            pa.field("tombstone", pa.bool_(), nullable=False),
            pa.field("value_version", pa.int16()),
            *(_field(f, nullable=True) for f in record_type.value.fields if fields is None or f.name in fields),
            pa.field("unknown_tags", pa.int32(), nullable=False),
        ]
    )

"""Columns before conversion to Arrow: numpy arrays, slices of the buffer, lists and structs."""

from typing import Any, TypeAlias

import numpy as np

from quorate.codecs.columnar.frame import Array, Bools, Ints
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import FieldSpec
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, UuidType, WireType


@dataclass(slots=True)
class Fixed:
    """Values of fixed width; `valid` is `None` without nulls."""

    values: Array
    valid: Bools | None = None


@dataclass(slots=True)
class Slices:
    """Text or bytes in the buffer.

    `even` is (first, step) if the starts are evenly spaced and all lengths equal.
    """

    start: Ints
    length: Ints
    valid: Bools | None = None
    even: tuple[int, int] | None = None


@dataclass(slots=True)
class Lists:
    """Lists with `counts` elements each; `child` has the elements of all lists."""

    counts: Ints
    child: "Column"
    valid: Bools | None = None


@dataclass(slots=True)
class Structs:
    """One column per field."""

    count: int
    fields: dict[str, "Column"]
    valid: Bools | None = None


Column: TypeAlias = Fixed | Slices | Lists | Structs


def default_column(wire: WireType, default: Any, count: int) -> Column:
    """Return a column of `count` defaults of a field."""
    absent = np.zeros(count, dtype=np.bool_) if default is None else None
    nothing = np.zeros(count, dtype=np.int64)
    match wire:
        case FixedType(code=code, size=size):
            kind = "u" if code.isupper() else "i"
            return Fixed(np.full(count, 0 if default is None else default, dtype=f"{kind}{size}"), absent)
        case UuidType():
            return Fixed(np.zeros(count, dtype="V16"), absent)
        case StringType() | BytesType():
            return Slices(nothing, nothing, absent)
        case ArrayType(element):
            return Lists(nothing, default_column(element, None, 0), absent)
        case StructType(spec):
            inner = {
                f.name: default_column(f.type, f.default if default is None else getattr(default, f.name), count)
                for f in spec.fields
            }
            return Structs(count, inner, absent)


def expand(column: Column, places: Ints, count: int) -> Column:
    """Return a column of `count` values: those of `column` at `places`, and null elsewhere."""
    valid = np.zeros(count, dtype=np.bool_)
    valid[places] = True if column.valid is None else column.valid
    match column:
        case Fixed(values):
            wide = np.zeros(count, dtype=values.dtype)
            wide[places] = values
            return Fixed(wide, valid)
        case Slices(start=start, length=length):
            starts = np.zeros(count, dtype=np.int64)
            lengths = np.zeros(count, dtype=np.int64)
            starts[places] = start
            lengths[places] = length
            return Slices(starts, lengths, valid)
        case Lists(counts, child):
            wide_counts = np.zeros(count, dtype=np.int64)
            wide_counts[places] = counts
            return Lists(wide_counts, child, valid)
        case Structs(_, fields):
            return Structs(count, {name: expand(inner, places, count) for name, inner in fields.items()}, valid)


def with_default(column: Column, field: FieldSpec, present: Bools) -> Column:
    """Replace nulls by the field's default where the field is not present."""
    if field.default is None:
        return column
    valid = column.valid
    assert valid is not None
    valid |= ~present
    match column:
        case Fixed(values) if isinstance(field.type, FixedType):
            values[~present] = field.default
        case Structs(_, fields) if isinstance(field.type, StructType):
            for f in field.type.spec.fields:
                inner = FieldSpec(
                    f.name,
                    f.json_name,
                    f.type,
                    f.nullable,
                    f.versions,
                    f.tag,
                    getattr(field.default, f.name),
                    f.ignorable,
                    f.release,
                )
                fields[f.name] = with_default(fields[f.name], inner, present)
    # Text, bytes, uuids and lists are empty there, which is the default of all of Kafka's fields.
    if bool(valid.all()):
        column.valid = None
    return column

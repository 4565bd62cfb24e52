"""Decode flat messages of many records to Arrow in one loop in C, if the accelerator is in use.

`read.py` does the same with NumPy for all messages, with a dozen passes over the positions of each
text field. It decodes all rows again if many are irregular; a few are decoded one by one.
"""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from quorate.codecs.accelerator import fields_of, flat_code, program
from quorate.codecs.columnar.assemble import from_parts
from quorate.codecs.columnar.frame import Array, Ints
from quorate.codecs.columnar.schema import message_schema
from quorate.codecs.columnar.slots import Slots
from quorate.codecs.extension import extension
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import MessageSpec
from quorate.codecs.wire import ArrayType, StructType

TEXT = "sy"
"""Codes of text and bytes."""

IRREGULAR = 64
"""At most one row of so many may be irregular; each takes as long as about 30 rows with NumPy."""

ANY, BY_VERSION = -1, -2
"""What the int16 before a message is, as in `codecs/native/columns.c`."""

LARGEST_BYTES = 0x7FFFFFFF
"""Arrow's offsets have 32 bits."""


@dataclass(slots=True)
class Flat:
    """Decoded messages: the int16 before each, and an array per field.

    `sound`: the indexes of the regular rows, `None` for all. Others have an arbitrary content.
    """

    numbers: Array
    columns: list[pa.Array]
    sound: Ints | None


@cache
def is_flat(spec: MessageSpec) -> bool:
    """Whether a message has only numbers, text, bytes and uuids."""
    return not any(isinstance(field.type, ArrayType | StructType) for field in spec.fields)


def decode_flat(
    spec: MessageSpec,
    slots: Slots,
    *,
    versioned: bool,
    fields: frozenset[str] | None = None,
    type_id: int | None = None,
) -> Flat | None:
    """Decode messages to columns of all fields, or of those in `fields`.

    With `versioned` the int16 is the message's version, otherwise the version is 0, and rows with
    another int16 than `type_id` are irregular. All fields of null slots are null. Returns `None` if
    many rows are irregular, or without the accelerator.
    """
    native = extension()
    size = int((slots.end - slots.start).sum())
    if native is None or not is_flat(spec) or size > LARGEST_BYTES:
        return None
    rows = len(slots)
    columns = tuple(
        (code, *_space(code, rows, size), np.empty(rows, np.bool_))
        if fields is None or field.name in fields
        else (code, None, None, None)
        for field, code in zip(spec.fields, _codes(spec), strict=True)
    )
    numbers = np.empty(rows, np.int16)
    null: Any = b"" if slots.null is None else np.ascontiguousarray(slots.null)
    start, end = (np.ascontiguousarray(places, np.int64) for places in (slots.start, slots.end))
    irregular = np.empty(rows, np.bool_)
    layouts, most = _layouts(spec, versioned), rows // IRREGULAR
    wanted = BY_VERSION if versioned else ANY if type_id is None else type_id
    facts = native.decode_columns(
        native.NativeCodec, layouts, wanted, slots.data, start, end, null, numbers, columns, irregular, most
    )
    if facts is None:
        return None
    arrays = []
    kinds = message_schema(spec).types
    for kind, (_, values, content, valid), (has_null, ascii_only, used) in zip(kinds, columns, facts, strict=True):
        if values is None:
            continue
        if content is not None:
            content.resize(used, shrink_to_fit=True)
        buffers = [values] if content is None else [values, content]
        arrays.append(from_parts(kind, rows, buffers, valid if has_null else None, is_ascii=bool(ascii_only)))
    return Flat(numbers, arrays, np.flatnonzero(~irregular) if bool(irregular.any()) else None)


def _codes(spec: MessageSpec) -> list[str]:
    return [flat_code(f.type) for f in spec.fields if not isinstance(f.type, ArrayType | StructType)]


@cache
def _layouts(spec: MessageSpec, versioned: bool) -> tuple[Any, ...]:
    """Return the program of each version, with the column of each of its fields."""
    known = spec.versions or range(1)
    place = {f.name: index for index, f in enumerate(spec.fields)}
    return tuple(
        (program(spec, version, spec.is_flexible(version)), bytes(place[f.name] for f in fields_of(spec, version)))
        if version in known
        else None
        for version in range(known.stop if versioned else 1)
    )


def _space(code: str, rows: int, size: int) -> tuple[pa.Buffer, pa.ResizableBuffer | None]:
    """Return space for values; or for offsets and content, at most all bytes of the messages.

    It is Arrow's, which reuses it: malloc returns NumPy's to the system, and a decoder of 300,000
    commits takes 1.3 times the CPU for the page faults (2026-11-27).
    """
    if code in TEXT:
        return pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(size, resizable=True)
    return pa.allocate_buffer(rows * (16 if code == "u" else np.dtype(code).itemsize)), None

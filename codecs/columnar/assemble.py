"""Convert columns to Arrow arrays. Only this module copies bytes out of the buffer."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from quorate.codecs.columnar.column import Column, Fixed, Lists, Slices, Structs
from quorate.codecs.columnar.frame import Array, Bools, Ints
from quorate.codecs.wire import readable


def _bitmap(valid: Bools | None) -> Any:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _nulls(valid: Bools | None) -> int:
    return 0 if valid is None else int(len(valid) - np.count_nonzero(valid))


def array_of(values: Array, null: Bools | None = None) -> pa.Array:
    """Return an Arrow array of numbers or booleans, with nulls where `null` is true.

    pyarrow's own conversions import pandas if it is installed, which takes 0.3 s.
    """
    valid = None if null is None else ~null
    content = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [_bitmap(valid), pa.py_buffer(content)], _nulls(valid)
    )


def numbers_of(array: pa.Array) -> Array:
    """Return an Arrow array of integers without nulls as a NumPy array, without a copy."""
    kind = np.dtype(str(array.type))
    return np.frombuffer(array.buffers()[1], kind, count=len(array), offset=array.offset * kind.itemsize)


def to_arrow(column: Column, kind: pa.DataType, data: Array) -> pa.Array:
    """Return the column as an Arrow array of type `kind`.

    `data` is the buffer that its slices refer to.
    """
    match column:
        case Fixed(values, valid):
            return pa.Array.from_buffers(
                kind, len(values), [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))], _nulls(valid)
            )
        case Slices():
            return _text(column, data) if pa.types.is_string(kind) else _binary(column, data)
        case Lists(counts, child, valid):
            offsets = np.zeros(len(counts) + 1, dtype=np.int32)
            np.cumsum(counts, out=offsets[1:])
            element = to_arrow(child, kind.value_type, data)
            return pa.Array.from_buffers(
                kind, len(counts), [_bitmap(valid), pa.py_buffer(offsets)], _nulls(valid), children=[element]
            )
        case Structs(count, fields, valid):
            children = [to_arrow(fields[kind.field(i).name], kind.field(i).type, data) for i in range(kind.num_fields)]
            return pa.Array.from_buffers(kind, count, [_bitmap(valid)], _nulls(valid), children=children)


def _binary(column: Slices, data: Array) -> pa.Array:
    """Return a binary array with copies of the slices."""
    count = len(column.start)
    if not count or not column.length.any():
        offsets = np.zeros(count + 1, dtype=np.int32)
        return pa.Array.from_buffers(
            pa.binary(), count, [_bitmap(column.valid), pa.py_buffer(offsets), pa.py_buffer(b"")], _nulls(column.valid)
        )
    if column.even is not None:
        first, step = column.even
        width = int(column.length[0])
        if first + step * (count - 1) + width <= len(data):
            rows = np.ndarray((count, width), np.uint8, data.data, first, (step, 1))
            offsets = np.arange(0, width * (count + 1), width, dtype=np.int32)
            buffers = [_bitmap(column.valid), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))]
            return pa.Array.from_buffers(pa.binary(), count, buffers, _nulls(column.valid))
    return _gathered(column, data, count)


def _gathered(column: Slices, data: Array, count: int) -> pa.Array:
    # Arrow's `take` is the fastest copy for slices of any length. Every second element of the array
    # passed to it is a slice to copy. The elements between them, and their lengths, are never read.
    wide = len(data) > 0x7FFFFFFF
    ends = np.empty(2 * count + 2, dtype=np.int64 if wide else np.int32)
    start = column.start
    length = column.length
    outside = start + length > len(data)
    if bool(outside.any()):  # in a message that is decoded again on its own; these values are not used
        start = np.where(outside, 0, start)
        length = np.where(outside, 0, length)
    ends[0] = 0
    ends[1:-1:2] = start
    np.add(start, length, out=ends[2:-1:2], casting="same_kind")
    ends[-1] = len(data)
    everything = pa.Array.from_buffers(
        pa.large_binary() if wide else pa.binary(), 2 * count + 1, [None, pa.py_buffer(ends), pa.py_buffer(data)], 0
    )
    wanted = np.arange(1, 2 * count + 1, 2, dtype=np.int64)
    taken = everything.take(array_of(wanted, None if column.valid is None else ~column.valid))
    return taken.cast(pa.binary()) if wide else taken


def from_parts(
    kind: pa.DataType, count: int, parts: list[pa.Buffer], valid: Bools | None, *, is_ascii: bool
) -> pa.Array:
    """Return an Arrow array of numbers; or of text or bytes, with their offsets before them."""
    buffers = [_bitmap(valid), *parts]
    if not pa.types.is_string(kind) or is_ascii:
        return pa.Array.from_buffers(kind, count, buffers, _nulls(valid))
    return _decoded(pa.Array.from_buffers(pa.binary(), count, buffers, _nulls(valid)))


def _text(column: Slices, data: Array) -> pa.Array:
    """Return a string array."""
    array = _binary(column, data)
    validity, offsets, content = array.buffers()
    if content is None or not (np.frombuffer(content, np.uint8) & 0x80).any():
        return pa.Array.from_buffers(
            pa.string(), len(array), [validity, offsets, content], array.null_count, array.offset
        )
    return _decoded(array)


def _decoded(array: pa.Array) -> pa.Array:
    """Return bytes as text. What is not UTF-8 becomes U+FFFD, as in Java."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if item is None else readable(item.decode("utf-8", "surrogateescape")) for item in array.to_pylist()],
            pa.string(),
        )


LONG_RUN = 1_000
"""From this mean length on, runs of rows are copied faster as such than one by one."""


def chosen(arrays: list[pa.Array], places: Ints) -> list[pa.Array]:
    """Return some rows of arrays of the same length."""
    breaks = np.flatnonzero(places[1:] - places[:-1] != 1) + 1
    if (len(breaks) + 1) * LONG_RUN > len(places):
        which = array_of(places)
        return [array.take(which) for array in arrays]
    runs = [(int(places[a]), int(b - a)) for a, b in pairwise([0, *breaks, len(places)])]
    return [pa.concat_arrays([array.slice(*run) for run in runs]) for array in arrays]


def positions_of(array: pa.Array) -> tuple[Array, Ints, Ints]:
    """Return the bytes of a binary array, and the start and end of each element in them.

    Nulls also have a start and an end.
    """
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    offsets = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32, count=len(array) + 1 + array.offset)[
        array.offset :
    ]
    content = array.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None and len(content) else np.zeros(0, np.uint8)
    return data, offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)

"""Keys and values as positions in a buffer, and decoding one message version at all of them."""

from typing import Any

import numpy as np
import pyarrow as pa

from quorate.codecs.columnar.assemble import positions_of, to_arrow
from quorate.codecs.columnar.column import Slices, Structs
from quorate.codecs.columnar.frame import Array, Bools, Buffer, Frame, Ints
from quorate.codecs.columnar.plan import plan_of
from quorate.codecs.columnar.read import read_message
from quorate.codecs.message import MessageSpec


class Slots:
    """Positions of keys or values in a buffer. `null` marks null ones."""

    __slots__ = ("data", "end", "null", "start")

    def __init__(self, data: Array, start: Ints, end: Ints, null: Bools | None = None) -> None:
        self.data = data
        self.start = start
        self.end = end
        self.null = null

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, rows: Any) -> "Slots":
        return Slots(self.data, self.start[rows], self.end[rows], None if self.null is None else self.null[rows])

    def bytes_at(self, row: int) -> bytes | None:
        """Return one key or value."""
        if self.null is not None and self.null[row]:
            return None
        return self.data[int(self.start[row]) : int(self.end[row])].tobytes()

    @staticmethod
    def of(array: pa.Array) -> "Slots":
        """Return the elements of a binary (or string) array, without a copy."""
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
            array = array.cast(pa.binary())
        data, start, end = positions_of(array)
        null = None
        if array.null_count:
            bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
            null = bits[array.offset : array.offset + len(array)] == 0
        return Slots(data, start, end, null)


NO_INT16 = 1 << 15
"""Replaces a record type or version if there are fewer than two bytes."""


def int16_at(slots: Slots) -> Ints:
    """Return the int16 at the start of each slot."""
    short = slots.end - slots.start < 2
    if slots.null is not None:
        short |= slots.null
    if not bool(short.any()):
        return _frame(Buffer(slots.data, slots.end), slots, 0).fetch([">i2"])[0].astype(np.int64)
    out = np.full(len(slots), NO_INT16, dtype=np.int64)
    full = np.flatnonzero(~short)
    if len(full):
        out[full] = Frame(Buffer(slots.data, slots.end[full]), slots.start[full]).fetch([">i2"])[0]
    return out


def values_in(numbers: Ints) -> list[int]:
    """Return the distinct numbers in a result of `int16_at`."""
    if not len(numbers):
        return []
    low, high = int(numbers.min()), int(numbers.max())
    # Counting is many times faster than sorting or hashing, and int16 have few values.
    return [low] if low == high else (np.flatnonzero(np.bincount(numbers - low)) + low).tolist()


def binary_array(slots: Slots) -> pa.Array:
    """Return a binary array with copies of the slots."""
    valid = None if slots.null is None else ~slots.null
    return to_arrow(Slices(slots.start, slots.end - slots.start, valid), pa.binary(), slots.data)


SPARSE = 3
"""With more bytes than this per byte in a slot, copying the slots is faster.

Otherwise the bytes between them are loaded into the processor's cache many times.
"""


def gathered(slots: Slots) -> Slots:
    """Return the slots, copied if they are far apart, as with one record per batch."""
    if not len(slots):
        return slots
    size = int((slots.end - slots.start).sum())
    return Slots.of(binary_array(slots)) if int(slots.end[-1] - slots.start[0]) > SPARSE * size else slots


def read_slots(spec: MessageSpec, version: int, slots: Slots) -> tuple[Structs, Bools, Ints, Array]:
    """Decode one message version after the int16 of each slot.

    Returns the columns, which rows are sound, and per message its end and its number of unknown
    tagged fields. A message that ends before its slot is sound: Kafka ignores the bytes after it.
    """
    buffer = Buffer(slots.data, slots.end)
    frame = _frame(buffer, slots, 2)
    columns = read_message(frame, plan_of(spec, version, spec.is_flexible(version)))
    ends = frame.positions()
    sound = (ends <= slots.end) & ~buffer.doubtful
    return columns, sound, ends, buffer.unknown_tags


def _frame(buffer: Buffer, slots: Slots, offset: int) -> Frame:
    """Return a frame `offset` bytes after the start of each slot, evenly spaced if possible."""
    count = len(slots)
    if count > 2:
        step = int(slots.start[1] - slots.start[0])
        if (
            step > 0
            and int(slots.start[-1] - slots.start[0]) == step * (count - 1)
            and bool((slots.start[1:] - slots.start[:-1] == step).all())
        ):
            return Frame(buffer, None, count=count, first=int(slots.start[0]) + offset, step=step)
    return Frame(buffer, slots.start + offset)

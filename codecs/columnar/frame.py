"""Reading the same field of many messages at once: positions in one buffer that move forward together.

A `Frame` is a set of places in the buffer, one per message (or per element of a nested list).
Fetching returns one numpy array for all places and moves them on. While the places are evenly
spaced, which they are for as long as all lengths are equal, fetching is a strided view and costs
next to nothing; otherwise it is one gather per run of fixed fields.

Nothing here raises on data. A place that leaves the buffer, or meets something that only a closer
look can judge, marks its message as `doubtful`; the caller has such messages looked at one by one.
That a message ends exactly where it should is also the caller's to check, and proves that nothing
inside it was read past its end: positions only grow. (That of a doubtful message may be anywhere;
it has no room for elements any more.)
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Bools", "Buffer", "Frame", "Ints", "bounds", "uniform"]

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]


def bounds(numbers: Ints) -> tuple[int, int]:
    """The least and the greatest of at least one number.

    Costs nothing where `uniform` found them equal.
    """
    if numbers.strides == (0,) and len(numbers):
        return int(numbers[0]), int(numbers[0])
    return int(numbers.min()), int(numbers.max())


def uniform(numbers: Array) -> Ints:
    """The numbers as 64-bit integers; where all are equal, as one number that only looks like many."""
    if len(numbers) and bool((numbers == numbers[0]).all()):
        return np.broadcast_to(np.int64(numbers[0]), len(numbers))
    return numbers.astype(np.int64)


class Buffer:
    """The bytes that frames read, where each message ends, and what was found out about it: whether it is `doubtful`, how many unknown tags it has."""

    def __init__(self, data: npt.NDArray[np.uint8], ends: Ints) -> None:
        self.data = data
        self.size = len(data)
        self.ends = ends
        self.doubtful = np.zeros(len(ends), dtype=np.bool_)
        self.unknown_tags = np.zeros(len(ends), dtype=np.int32)
        self._windows: dict[int, Array] = {}

    def window(self, width: int) -> Array:
        """All byte strings of this width in the buffer, overlapping, as one array."""
        found = self._windows.get(width)
        if found is None:
            found = np.lib.stride_tricks.as_strided(
                np.ndarray((1,), f"V{width}", self.data.data),
                shape=(self.size - width + 1,),
                strides=(1,),
                writeable=False,
            )
            self._windows[width] = found
        return found


class Frame:
    """Places in a buffer.

    `owner` is the message that each belongs to; `None` means place i belongs to message i.

    Either `at` holds the positions, or they are `first + i * step`.
    """

    __slots__ = ("at", "buffer", "count", "first", "owner", "step")

    def __init__(
        self,
        buffer: Buffer,
        at: Ints | None,
        owner: Ints | None = None,
        *,
        count: int = 0,
        first: int = 0,
        step: int = 0,
    ) -> None:
        self.buffer = buffer
        self.at = at
        self.owner = owner
        self.count = count if at is None else len(at)
        self.first = first
        self.step = step

    def positions(self) -> Ints:
        """The positions, not to be written to."""
        return self.first + self.step * np.arange(self.count, dtype=np.int64) if self.at is None else self.at

    def own_positions(self) -> Ints:
        """The positions as the frame keeps them from now on: writing to them moves the frame."""
        if self.at is None:
            self.at = self.positions()
        return self.at

    def fork(self) -> "Frame":
        """A frame at the same places, to be moved on its own."""
        at = None if self.at is None else self.at.copy()
        return Frame(self.buffer, at, self.owner, count=self.count, first=self.first, step=self.step)

    def moved_since(self, earlier: "Frame") -> int | Ints:
        """How far each place has moved since the frame was forked: one number if all moved alike."""
        if self.at is None and earlier.at is None:
            return self.first - earlier.first
        return self.positions() - earlier.positions()

    def owners(self) -> Ints:
        """The message of each place."""
        return np.arange(self.count, dtype=np.int64) if self.owner is None else self.owner

    def doubt(self, places: Bools) -> None:
        """Have the messages of these places looked at closely."""
        if self.owner is None:
            self.buffer.doubtful |= places
        else:
            self.buffer.doubtful[self.owner[places]] = True

    def ends(self) -> Ints:
        """Where each place's message ends."""
        return self.buffer.ends if self.owner is None else self.buffer.ends[self.owner]

    def room(self) -> Ints:
        """How many bytes each place's message still has: none if it is doubtful, so that damage is not followed any further."""
        doubtful = self.buffer.doubtful if self.owner is None else self.buffer.doubtful[self.owner]
        return np.where(doubtful, 0, self.ends() - self.positions())

    def select(self, places: Ints) -> "Frame":
        """A frame of some of the places."""
        return Frame(self.buffer, self.positions()[places], places if self.owner is None else self.owner[places])

    def fetch(self, codes: Sequence[str]) -> list[Array]:
        """The fixed-width values at each place, one array per numpy code, in native byte order; moves on behind them."""
        widths = [np.dtype(code).itemsize for code in codes]
        total = sum(widths)
        if not self.count:
            return [np.empty(0, dtype=np.dtype(code).newbyteorder("=")) for code in codes]
        data: Any
        if (
            self.at is None
            and self.first >= 0
            and self.first + self.step * (self.count - 1) + total <= self.buffer.size
        ):
            data, offset, stride = self.buffer.data.data, self.first, self.step
        else:
            data, offset, stride = self._gather(total).data, 0, total
        out = []
        for code, width in zip(codes, widths, strict=True):
            values = np.ndarray((self.count,), code, data, offset, (stride,))
            out.append(
                values.astype(values.dtype.newbyteorder("="), copy=False) if values.dtype.byteorder == ">" else values
            )
            offset += width
        self.advance(total)
        return out

    def _gather(self, width: int) -> Array:
        """The bytes at each place, one after the other."""
        at = self.own_positions()
        if self.buffer.size < width:
            self.doubt(np.ones(self.count, dtype=np.bool_))
            return np.zeros(self.count * width, dtype=np.uint8)
        window = self.buffer.window(width)
        try:
            found = window[at]
        except IndexError:
            outside = at >= len(window)
            self.doubt(outside)
            at[outside] = 0
            found = window[at]
        return found.view(np.uint8)

    def advance(self, by: int | Ints) -> None:
        """Move every place on, by one number or by one for each. Numbers must not be negative."""
        if isinstance(by, int):
            if self.at is None:
                self.first += by
            else:
                self.at += by
            return
        if self.at is None and self.count:
            low, high = bounds(by)
            if low == high:
                self.first += low
                return
        self.at = self.positions() + by

    def varint(self) -> Ints:
        """An unsigned varint of at most 5 bytes at each place, as a signed 32-bit number; moves on behind it."""
        (low,) = self.fetch(["u1"])
        return self.finish_varint(low)

    def finish_varint(self, low: Array) -> Ints:
        """The varint whose first byte was fetched."""
        value = uniform(low)
        if not self.count or bounds(value)[1] <= 127:
            return value
        value = value.copy()
        more = np.flatnonzero(value > 127)
        at = self.own_positions()
        value[more] &= 0x7F
        for shift in (7, 14, 21, 28):
            rest = self.select(more)
            (byte,) = rest.fetch(["u1"])
            at[more] += 1
            value[more] |= (byte.astype(np.int64) & 0x7F) << shift
            more = more[byte > 127]
            if not len(more):
                return value.astype(np.int32).astype(np.int64)  # Java's int: the highest bit is a sign
        too_long = np.zeros(self.count, dtype=np.bool_)
        too_long[more] = True
        self.doubt(too_long)
        return value.astype(np.int32).astype(np.int64)

    def length(self, flexible: bool, low: Array) -> Ints:
        """A length or count whose first fixed part was fetched: -1 or less for null."""
        if flexible:
            coded = self.finish_varint(low)
            return np.broadcast_to(coded[0] - 1, self.count) if self.count and coded.strides == (0,) else coded - 1
        return uniform(low)

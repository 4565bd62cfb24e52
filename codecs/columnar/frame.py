"""Read the same field of many messages at once, at positions that advance together.

A `Frame` is a set of positions in a buffer, one per message (or per element of a nested list).
Fetching returns one numpy array for all positions and advances them. While they are evenly spaced,
that is while all lengths are equal, fetching is a strided view and costs almost nothing. Otherwise
it is one gather per run of fixed fields.

Data never raises here. A position outside the buffer, or bytes that need the exact decoder, mark
their message as `doubtful`; the caller decodes such messages one by one. The caller also checks
that each message ends exactly where it should. Positions only grow, so this proves that nothing was
read past its end. (The position of a doubtful message is arbitrary; no elements are read there.)
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]


def bounds(numbers: Ints) -> tuple[int, int]:
    """Return the least and the greatest of at least one number.

    This is free if `uniform` found them equal.
    """
    if numbers.strides == (0,) and len(numbers):
        return int(numbers[0]), int(numbers[0])
    return int(numbers.min()), int(numbers.max())


def uniform(numbers: Array) -> Ints:
    """Return the numbers as 64-bit integers; equal ones as a broadcast of one number."""
    if len(numbers) and bool((numbers == numbers[0]).all()):
        return np.broadcast_to(np.int64(numbers[0]), len(numbers))
    return numbers.astype(np.int64)


class Buffer:
    """The bytes that frames read, with the end of each message.

    Frames set whether a message is `doubtful`, and its number of unknown tags.
    """

    def __init__(self, data: npt.NDArray[np.uint8], ends: Ints) -> None:
        self.data = data
        self.size = len(data)
        self.ends = ends
        self.doubtful = np.zeros(len(ends), dtype=np.bool_)
        self.unknown_tags = np.zeros(len(ends), dtype=np.int32)
        self._windows: dict[int, Array] = {}

    def window(self, width: int) -> Array:
        """Return all overlapping byte strings of this width in the buffer as one array."""
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
    """Positions in a buffer.

    `owner` is the message of each position; `None` means position i is in message i. Either `at`
    holds the positions, or they are `first + i * step`.
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
        """Return the positions, which must not be modified."""
        return self.first + self.step * np.arange(self.count, dtype=np.int64) if self.at is None else self.at

    def own_positions(self) -> Ints:
        """Return the frame's own array of positions: modifying it moves the frame."""
        if self.at is None:
            self.at = self.positions()
        return self.at

    def fork(self) -> "Frame":
        """Return an independent frame at the same positions."""
        at = None if self.at is None else self.at.copy()
        return Frame(self.buffer, at, self.owner, count=self.count, first=self.first, step=self.step)

    def moved_since(self, earlier: "Frame") -> int | Ints:
        """Return how far each position has moved since the fork: one number if all are equal."""
        if self.at is None and earlier.at is None:
            return self.first - earlier.first
        return self.positions() - earlier.positions()

    def owners(self) -> Ints:
        """Return the message of each position."""
        return np.arange(self.count, dtype=np.int64) if self.owner is None else self.owner

    def doubt(self, places: Bools) -> None:
        """Mark the messages at these positions as doubtful."""
        if self.owner is None:
            self.buffer.doubtful |= places
        else:
            self.buffer.doubtful[self.owner[places]] = True

    def ends(self) -> Ints:
        """Return the end of the message at each position."""
        return self.buffer.ends if self.owner is None else self.buffer.ends[self.owner]

    def bytes_left(self) -> Ints:
        """Return the number of bytes left in each message.

        It is 0 for doubtful messages, so that damage is not followed any further.
        """
        doubtful = self.buffer.doubtful if self.owner is None else self.buffer.doubtful[self.owner]
        return np.where(doubtful, 0, self.ends() - self.positions())

    def select(self, places: Ints) -> "Frame":
        """Return a frame of some of the positions."""
        return Frame(self.buffer, self.positions()[places], places if self.owner is None else self.owner[places])

    def fetch(self, codes: Sequence[str]) -> list[Array]:
        """Read the fixed-width values at each position, and advance past them.

        Returns one array per numpy code, in native byte order.
        """
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
        """Return the bytes at each position, concatenated."""
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
        """Advance all positions by one number, or each by its own; none may be negative."""
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
        """Read an unsigned varint of at most 5 bytes at each position, and advance past it.

        The result is a signed 32-bit number, as in Java.
        """
        (low,) = self.fetch(["u1"])
        return self.finish_varint(low)

    def finish_varint(self, low: Array) -> Ints:
        """Read the rest of a varint whose first byte was fetched."""
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
        """Read the rest of a length or count; a negative result is null."""
        if flexible:
            coded = self.finish_varint(low)
            return np.broadcast_to(coded[0] - 1, self.count) if self.count and coded.strides == (0,) else coded - 1
        return uniform(low)

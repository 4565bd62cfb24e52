"""Find the first byte of every batch in a block, following many chains at a time.

A batch has its own length, so batches can only be found one after the other. In Python this takes
as long as all the rest of the columnar reader. So the block is split into parts, a plausible first
batch is found in each, and all parts are followed at once. The first batch of a part is right if
following the previous part ends exactly there. Otherwise that part is followed again from its real
start. The result is therefore exact.
"""

from struct import Struct

import numpy as np

from quorate.codecs.batches.v2 import HEADER_BYTES, LOG_OVERHEAD
from quorate.codecs.columnar.frame import Array, Ints
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.log.walker import walker

CHAINS = 1024
"""Parts followed at once.

Enough to make numpy's overhead per call small, few enough to find their starts quickly.
"""

PART_WINDOWS = 16
"""A part is at least this many times as large as the window that is searched for its start."""

FEW = 64
"""With this many chains left or fewer, following each in Python is faster than numpy."""

LONG = 1024
"""With more bytes per batch than this on average, following them one by one is fast enough."""

MAGIC_OFFSET = 16
LENGTH_OFFSET = 8
_SMALLEST_LEGACY = 14
_LENGTH = Struct(">i")


def batch_starts(block: bytes, most_bytes: int = 0x7FFFFFFF) -> tuple[Ints, int]:
    """Return where the whole batches in `block` begin, the first at 0, and where the last one ends.

    Stops early at a length that is not valid, exceeds `most_bytes`, or exceeds the block. The
    caller handles the rest.
    """
    native = walker()
    if native is not None:
        return native.starts(block, most_bytes)
    starts, end = _follow(block, 0, len(block), most_bytes, 64)
    if end >= len(block) or len(starts) < 64 or end / len(starts) > LONG:
        more, end = _follow(block, end, len(block), most_bytes)
        return np.array(starts + more, dtype=np.int64), end
    chains = _follow_parts(block, end, 2 * end // len(starts), most_bytes)
    out = [np.array(starts, dtype=np.int64)]
    number = 0
    for broken in [*np.flatnonzero(chains.end != chains.last).tolist(), len(chains.first) - 1]:
        while number <= broken:
            if end == chains.first[number]:
                # From this chain to the broken one, each chain ends where the next one begins.
                out.append(chains.batches(number, broken))
                number, end = broken, int(chains.end[broken])
            last = int(chains.last[number])
            if end < last:
                # The assumed start was wrong, or the chain was stopped early.
                repaired, end = _follow(block, end, last, most_bytes)
                out.append(np.array(repaired, dtype=np.int64))
                if end < last:
                    return np.concatenate(out), end
            number += 1
    return np.concatenate(out), end


@dataclass(slots=True)
class _Chains:
    """Start, limit and end of each chain; the batches of all, and the index of each one's first."""

    first: Ints
    last: Ints
    end: Ints
    found: Ints
    borders: Ints

    def batches(self, number: int, upto: int) -> Ints:
        """Return the batches of the chains from `number` to `upto`, inclusive."""
        return self.found[self.borders[number] : self.borders[upto + 1]]


def _follow(block: bytes, start: int, until: int, most_bytes: int, most: int | None = None) -> tuple[list[int], int]:
    """Return at most `most` batches that begin from `start` to before `until`, and the last end."""
    unpack = _LENGTH.unpack_from
    size = len(block)
    out = []
    while start < until and start + LOG_OVERHEAD <= size:
        (length,) = unpack(block, start + LENGTH_OFFSET)
        end = start + LOG_OVERHEAD + length
        if length < _SMALLEST_LEGACY or end > size or end - start > most_bytes:
            break
        out.append(start)
        start = end
        if most is not None and len(out) >= most:
            break
    return out, start


def _follow_parts(block: bytes, start: int, window: int, most_bytes: int) -> _Chains:
    """Return the chains from `start` on.

    The first batch of a part is searched for in `window` bytes. If none is found, the previous
    chain continues.
    """
    data = np.frombuffer(block, np.uint8)
    size = len(data)
    part = max((size - start) // CHAINS, PART_WINDOWS * window)
    first = _plausible_starts(data, start, part, window)
    last = np.append(first[1:], size)
    lengths = _lengths(data)[LENGTH_OFFSET:]
    at = first
    active = np.ones(len(first), dtype=np.bool_)
    steps, actives = [], []
    while np.count_nonzero(active) > max(len(first) // 8, FEW):
        length = lengths[np.minimum(at, size - LOG_OVERHEAD)].astype(np.int64)
        end = at + (length + LOG_OVERHEAD)
        active = active & (length >= _SMALLEST_LEGACY) & (end <= size) & (length <= most_bytes - LOG_OVERHEAD)
        steps.append(at)
        actives.append(active)
        at = np.where(active, end, at)
        active = active & (at < last)
    # One row for each chain, also without any step.
    found = np.array(actives, dtype=np.bool_).reshape(-1, len(first)).T
    places = np.array(steps, dtype=np.int64).reshape(-1, len(first)).T
    borders = np.append(0, np.cumsum(np.count_nonzero(found, axis=1)))
    return _Chains(first, last, at, places[found], borders)


def _plausible_starts(data: Array, start: int, part: int, window: int) -> Ints:
    """Return `start`, and for each further part the first likely batch of magic 2."""
    count = (len(data) - start - window - HEADER_BYTES) // part
    if count < 2:
        return np.array([start], dtype=np.int64)
    shape, strides = (count - 1, window), (part, 1)
    windows = np.lib.stride_tricks.as_strided(data[start + part + MAGIC_OFFSET :], shape, strides, writeable=False)
    row, column = np.divmod(np.flatnonzero(windows == 2), window)
    at = start + part * (row + 1) + column
    # The high bytes of offset and length are zero, and the high byte of the attributes is unused.
    # The same holds at the next batch, to which the length leads.
    at, row = _plausible(data, at, row)
    following = at + LOG_OVERHEAD + _lengths(data)[at + LENGTH_OFFSET]
    inside = (following > at + HEADER_BYTES - 1) & (following <= len(data) - HEADER_BYTES)
    at, row, following = at[inside], row[inside], following[inside]
    good = data[following + MAGIC_OFFSET] == 2
    following, place = _plausible(data, following[good], np.flatnonzero(good))
    at, row = at[place], row[place]
    _, first = np.unique(row, return_index=True)
    return np.concatenate([np.array([start], dtype=np.int64), at[first]])


def _plausible(data: Array, at: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Keep the positions with zeros where all real batches have them, with their `other` values."""
    zero = data[at] | data[at + 1] | data[at + LENGTH_OFFSET] | data[at + 21]
    good = zero == 0
    return at[good], other[good]


def _lengths(data: Array) -> Array:
    """Return the int32 at every position of the block."""
    return np.lib.stride_tricks.as_strided(np.ndarray((1,), ">i4", data.data), (len(data) - 3,), (1,), writeable=False)

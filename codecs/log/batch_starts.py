"""Finding where the batches of a log begin, many chains at a time.

A batch says how long it is, so batches can only be found one after the other. Going from one to the
next in Python takes as long as all the rest of the columnar way together. So the block is cut into
parts, a plausible beginning is looked for in each, and all parts are followed at once. A part's
first batch is right if the part before it, followed from a beginning known to be right, arrives
exactly there; otherwise that part is followed again from where it really begins. What is found is
therefore never a guess.
"""

from dataclasses import dataclass
from struct import Struct

import numpy as np

from quorate.codecs.batches.v2 import HEADER_BYTES, LOG_OVERHEAD
from quorate.codecs.columnar.frame import Array, Ints

__all__ = ["batch_starts"]

CHAINS = 1024
"""Parts followed at once: enough that numpy's overhead per call does not count, few enough that
beginnings are quickly found.
"""

PART_WINDOWS = 16
"""A part has at least as many times the bytes in which its beginning is looked for."""

FEW = 64
"""With this many chains left or fewer, following each in Python is faster than numpy's overhead per
call.
"""

LONG = 1024
"""If batches have more bytes than this on average, finding them one after the other takes no time
worth saving.
"""

MAGIC_OFFSET = 16
LENGTH_OFFSET = 8
_SMALLEST_LEGACY = 14
_LENGTH = Struct(">i")


def batch_starts(block: bytes, most_bytes: int = 0x7FFFFFFF) -> tuple[Ints, int]:
    """Where the whole batches in `block` begin, the first at 0, and where the last one ends.

    Ends early where a length is impossible, more than `most_bytes`, or reaches beyond the block:
    what to make of that is the caller's to say.
    """
    starts, end = _follow(block, 0, len(block), most_bytes, 64)
    if end >= len(block) or len(starts) < 64 or end / len(starts) > LONG:
        more, end = _follow(block, end, len(block), most_bytes)
        return np.array(starts + more, dtype=np.int64), end
    chains = _followed_together(block, end, 2 * end // len(starts), most_bytes)
    out = [np.array(starts, dtype=np.int64)]
    number = 0
    for broken in [*np.flatnonzero(chains.end != chains.last).tolist(), len(chains.first) - 1]:
        while number <= broken:
            if end == chains.first[number]:
                # From here to the broken one, each chain leads to where the next one begins.
                out.append(chains.batches(number, broken))
                number, end = broken, int(chains.end[broken])
            last = int(chains.last[number])
            if end < last:
                # The beginning was none, or the chain was left or ended before.
                repaired, end = _follow(block, end, last, most_bytes)
                out.append(np.array(repaired, dtype=np.int64))
                if end < last:
                    return np.concatenate(out), end
            number += 1
    return np.concatenate(out), end


@dataclass(slots=True)
class _Chains:
    """Where each chain begins, where it may stop, where it ends; the batches of all, and where those of each begin among them."""

    first: Ints
    last: Ints
    end: Ints
    found: Ints
    borders: Ints

    def batches(self, number: int, upto: int) -> Ints:
        """The batches of some chains, the last included."""
        return self.found[self.borders[number] : self.borders[upto + 1]]


def _follow(block: bytes, start: int, until: int, most_bytes: int, most: int | None = None) -> tuple[list[int], int]:
    """The batches from `start` on that begin before `until`, at most `most`; and where the last of them ends."""
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


def _followed_together(block: bytes, start: int, window: int, most_bytes: int) -> _Chains:
    """Chains from `start` on.

    A part's first batch is looked for in `window` bytes; where there is none, the chain before goes
    on.
    """
    data = np.frombuffer(block, np.uint8)
    size = len(data)
    part = max((size - start) // CHAINS, PART_WINDOWS * window)
    first = _beginnings(data, start, part, window)
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
    # One row for each chain, also where there was no step.
    found = np.array(actives, dtype=np.bool_).reshape(-1, len(first)).T
    places = np.array(steps, dtype=np.int64).reshape(-1, len(first)).T
    borders = np.append(0, np.cumsum(np.count_nonzero(found, axis=1)))
    return _Chains(first, last, at, places[found], borders)


def _beginnings(data: Array, start: int, part: int, window: int) -> Ints:
    """`start`, and in each further part the first place that looks like the beginning of a batch of magic 2."""
    count = (len(data) - start - window - HEADER_BYTES) // part
    if count < 2:
        return np.array([start], dtype=np.int64)
    shape, strides = (count - 1, window), (part, 1)
    windows = np.lib.stride_tricks.as_strided(data[start + part + MAGIC_OFFSET :], shape, strides, writeable=False)
    row, column = np.divmod(np.flatnonzero(windows == 2), window)
    at = start + part * (row + 1) + column
    # Offset and length are far from filling their bytes, and the high byte of the attributes is
    # unused. And where the length leads, the same holds.
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
    """Those of the places at which a batch of magic 2 may begin, as far as bytes tell that are zero in all real ones; and what goes with them."""
    zero = data[at] | data[at + 1] | data[at + LENGTH_OFFSET] | data[at + 21]
    good = zero == 0
    return at[good], other[good]


def _lengths(data: Array) -> Array:
    """The int32 at every place of the block."""
    return np.lib.stride_tricks.as_strided(np.ndarray((1,), ">i4", data.data), (len(data) - 3,), (1,), writeable=False)

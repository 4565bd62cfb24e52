"""Read the zigzag varints of records at many positions at once.

Requires NumPy only: the embedded broker checks the records of producers with it.
"""

import numpy as np

from quorate.codecs.columnar.frame import Array, Frame, Ints


def zigzag(frame: Frame) -> Ints:
    """Read a zigzag varint (or varlong) at each position, and advance past it.

    One that has more bytes than necessary is doubtful.
    """
    (byte,) = frame.fetch(["u1"])
    value = byte.astype(np.int64)
    shift = 0
    while frame.count and int(byte.min()) > 127 and shift < 63:  # all continue, as with evenly spaced positions
        (byte,) = frame.fetch(["u1"])
        value &= (1 << shift + 7) - 1
        shift += 7
        value |= byte.astype(np.int64) << shift
        _doubt_padded(frame, byte)
    more = np.flatnonzero(byte > 127)
    if len(more):
        value[more] &= (1 << shift + 7) - 1
        at = frame.own_positions()
        while len(more) and shift < 63:
            shift += 7
            rest = frame.select(more)
            (byte,) = rest.fetch(["u1"])
            at[more] += 1
            value[more] |= (byte.astype(np.int64) & 0x7F) << shift
            _doubt_padded(rest, byte)
            more = more[byte > 127]
        frame.buffer.doubtful[more if frame.owner is None else frame.owner[more]] = True
    return (value >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)


def deltas(frame: Frame) -> tuple[Array, Ints, Ints, Ints]:
    """Read the attributes, timestamp delta, offset delta and key length of records.

    No release uses the attributes. Nearly always, each takes one byte.
    """
    ahead = frame.fork()
    attributes, *short = ahead.fetch(["u1", "u1", "u1", "u1"])
    if frame.count and max(int(values.max()) for values in short) < 0x80:
        frame.advance(4)
        timestamp_delta, offset_delta, key_length = (
            (values >> 1).astype(np.int64) ^ -(values & 1).astype(np.int64) for values in short
        )
        return attributes, timestamp_delta, offset_delta, key_length
    frame.advance(1)
    return attributes, zigzag(frame), zigzag(frame), zigzag(frame)


def _doubt_padded(frame: Frame, last: Array) -> None:
    """Mark varints with a superfluous last byte as doubtful."""
    if not int(last.min()):
        frame.doubt(last == 0)

"""Deltas and keys of the records in one decompressed batch, as columns.

A broker checks every record that it appends. This module reads records as Kafka's own producer
writes them. The first record in another form ends the columns; the caller continues there with
`quorate.codecs.batches.v2`. Knows nothing about batch headers and compression.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from quorate.codecs.columnar.frame import Array, Bools, Buffer, Frame, Ints
from quorate.codecs.columnar.varints import deltas, zigzag

_ALIKE = 16
"""After this many records of one size, the sizes of the next ones are compared at once."""
_SINGLES = 64
"""Number of records that are read one by one before their sizes are compared."""
_MANY = 4096
"""Number of evenly spaced records from which on separate columns are faster."""
_FEW = 12
"""With this many records with further headers or fewer, reading each in Python is faster."""
_INT32 = 1 << 31
_MOST_DELTA = 1 << 60


@dataclass(slots=True)
class RecordFacts:
    """Fields of the first records of a batch, one element for each.

    `end` is the position after the last one.
    """

    timestamp_delta: Ints
    offset_delta: Ints
    keyless: Bools
    end: int

    def __len__(self) -> int:
        return len(self.timestamp_delta)


def record_facts(body: bytes, position: int, end: int, count: int) -> RecordFacts:
    """Return the facts of at most `count` records between two positions.

    Stops before the first record that is cut off, inconsistent, or not encoded like those of
    Kafka's producer: shortest varints, null as -1, no attributes, header keys in ASCII.
    """
    data = np.frombuffer(body, np.uint8)
    found: list[RecordFacts] = []
    for places in _places(body, data, position, end, count):
        facts, whole = _facts(data, places, position, end)
        found.append(facts)
        position = facts.end
        if not whole:
            break
    if len(found) == 1:
        return found[0]
    nothing = np.empty(0, dtype=np.int64)
    return RecordFacts(
        np.concatenate([nothing, *(one.timestamp_delta for one in found)]),
        np.concatenate([nothing, *(one.offset_delta for one in found)]),
        np.concatenate([np.empty(0, dtype=np.bool_), *(one.keyless for one in found)]),
        position,
    )


@dataclass(slots=True)
class _Spaced:
    """Evenly spaced positions."""

    first: int
    step: int
    count: int


def _facts(data: Array, places: Ints | _Spaced, position: int, end: int) -> tuple[RecordFacts, bool]:
    """Return the facts of the records at `places`, and whether all were read.

    `position` is the first of the places.
    """
    if isinstance(places, _Spaced):
        count = places.count
        buffer = Buffer(data, np.full(count, end, dtype=np.int64))
        frame = Frame(buffer, None, count=count, first=places.first, step=places.step)
    else:
        count = len(places)
        buffer = Buffer(data, np.full(count, end, dtype=np.int64))
        frame = Frame(buffer, places)
    size = zigzag(frame)
    record_end = frame.positions() + size
    attributes, timestamp_delta, offset_delta, key_size = deltas(frame)
    frame.advance(_bounded(key_size, len(data)))
    value_size = zigzag(frame)
    frame.advance(_bounded(value_size, len(data)))
    headers = zigzag(frame)
    doubtful = buffer.doubtful
    for number, least in ((size, 1), (offset_delta, -_INT32), (key_size, -1), (value_size, -1), (headers, 0)):
        if int(number.min()) < least or int(number.max()) >= _INT32:
            doubtful |= (number < least) | (number >= _INT32)
    doubtful |= np.abs(timestamp_delta) > _MOST_DELTA
    if bool(attributes.any()):
        doubtful |= attributes != 0
    if bool(headers.any()):
        _skip_headers(frame, np.where(doubtful, 0, headers))
    doubtful |= (frame.positions() != record_end) | (record_end > end)
    sound = int(doubtful.argmax()) if bool(doubtful.any()) else count
    after = int(record_end[sound - 1]) if sound else position
    facts = RecordFacts(timestamp_delta[:sound], offset_delta[:sound], key_size[:sound] < 0, after)
    return facts, sound == count


def _bounded(sizes: Ints, most: int) -> Ints:
    """Return the sizes limited to 0 to `most`.

    `np.clip` takes ten times as long for few numbers.
    """
    return np.minimum(np.maximum(sizes, 0), most)


def _places(body: bytes, data: Array, position: int, end: int, count: int) -> Iterator[Ints | _Spaced]:
    """Yield where at most `count` records begin, while their sizes are inside the bytes."""
    parts: list[Ints] = []
    while count > 0 and position < end:
        singles: list[int] = []
        try:
            for _ in range(min(count, _SINGLES)):
                if position >= end:
                    break
                singles.append(position)
                size = body[position]
                width = 1
                if size > 0x7F:
                    byte = body[position + 1]
                    size = size & 0x7F | (byte & 0x7F) << 7
                    width = 2
                    while byte > 0x7F and width < 5:
                        byte = body[position + width]
                        size |= (byte & 0x7F) << 7 * width
                        width += 1
                position += width + (size >> 1)
        except IndexError:  # a size is cut off
            position = end
        count -= len(singles)
        parts.append(np.array(singles, dtype=np.int64))
        step = position - singles[-1]
        if len(singles) > _ALIKE and singles[-1] - singles[-1 - _ALIKE] == _ALIKE * step:
            alike = _alike(data, singles[-1], width, step, min(count, (end - position) // step))
            if alike >= _MANY:
                yield np.concatenate(parts)
                parts = []
                yield _Spaced(position, step, alike)
            else:
                parts.append(position + step * np.arange(alike, dtype=np.int64))
            position += step * alike
            count -= alike
    if parts:
        yield np.concatenate(parts)


def _alike(data: Array, position: int, width: int, step: int, most: int) -> int:
    """Return how many records after the one at `position`, at most `most`, have the same size.

    The size takes `width` bytes.
    """
    size = data[position : position + width]
    found, look = 0, _SINGLES
    while found < most:
        look = min(look, most - found)
        first = position + step * (1 + found)
        sizes = data[first : first + look * step].reshape(look, step)[:, :width]
        same = (sizes == size).all(axis=1)
        if not bool(same.all()):
            return found + int(same.argmin())
        found += look
        look *= 8
    return found


def _skip_headers(frame: Frame, counts: Ints) -> None:
    """Advance the frame, with one position per record, past the headers.

    A record whose headers are not in the usual form becomes doubtful.
    """
    data, doubtful = frame.buffer.data, frame.buffer.doubtful
    at = frame.own_positions()
    places = np.flatnonzero(counts > 0)
    number = 0
    while len(places) > _FEW:
        step = Frame(frame.buffer, at[places], places)
        key_size = zigzag(step)
        key_start = step.positions().copy()
        step.advance(_bounded(key_size, len(data)))
        value_size = zigzag(step)
        step.advance(_bounded(value_size, len(data)))
        at[places] = step.positions()
        wrong = (key_size < 0) | (value_size < -1) | (at[places] > frame.buffer.ends[places])
        wrong |= (key_size >= _INT32) | (value_size >= _INT32)
        doubtful[places[wrong]] = True
        sound = ~doubtful[places]
        _mark_non_ascii(frame.buffer, key_start[sound], key_size[sound], places[sound])
        number += 1
        places = places[sound & (counts[places] > number)]
    view, end = data.data, int(frame.buffer.ends[0])
    for place in places.tolist():
        at[place] = _after_headers(view, int(at[place]), end, int(counts[place]) - number)
        doubtful[place] |= at[place] < 0


def _mark_non_ascii(buffer: Buffer, start: Ints, size: Ints, owner: Ints) -> None:
    """Mark records with header keys that are not ASCII as doubtful, as they may not be UTF-8."""
    total = int(size.sum())
    if not total:
        return
    ends = np.cumsum(size)
    where = np.arange(total) + np.repeat(start - (ends - size), size)
    high = buffer.data[where] > 0x7F
    if bool(high.any()):
        buffer.doubtful[np.repeat(owner, size)[high]] = True


def _after_headers(view: memoryview, position: int, end: int, count: int) -> int:
    """Return the position after `count` headers; -1 if they are not in the usual form."""
    try:
        for _ in range(count):
            size = view[position]
            position += 1
            if size > 0x7F:
                size, position = _two_bytes(view, position, size)
            key = position
            position += size >> 1
            if size & 1 or position > end or not bytes(view[key:position]).isascii():
                return -1
            size = view[position]
            position += 1
            if size > 0x7F:
                size, position = _two_bytes(view, position, size)
            if size & 1 and size != 1:
                return -1
            position += size >> 1
            if position > end:
                return -1
    except (IndexError, ValueError):
        return -1
    return position


def _two_bytes(view: memoryview, position: int, first: int) -> tuple[int, int]:
    """Read the rest of a varint of two or three bytes, and return the position after it.

    Raises `ValueError` for other lengths.
    """
    second = view[position]
    if second < 0x80:
        if not second:
            raise ValueError(second)
        return first & 0x7F | second << 7, position + 1
    third = view[position + 1]
    if not 0 < third < 0x80:
        raise ValueError(third)
    return first & 0x7F | (second & 0x7F) << 7 | third << 14, position + 2

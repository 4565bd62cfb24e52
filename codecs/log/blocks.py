"""Read the records of all batches in a block at once: positions of keys and values, offsets, times.

Ordinary batches of magic 2 are read as columns, compressed ones after decompressing each. Unusual
batches (older formats, record headers, inconsistent lengths) are read one by one with
`quorate.codecs.batches`, which also reports their problems. The module is longer than others,
because it has the loops in C and their twins in NumPy next to each other.
"""

from typing import Any

import google_crc32c
import numpy as np

from quorate.codecs.batches import v2
from quorate.codecs.batches.model import BatchProblem, BatchRecord
from quorate.codecs.batches.reader import Batch, check, header_at, payload
from quorate.codecs.columnar.frame import Array, Bools, Buffer, Frame, Ints
from quorate.codecs.columnar.slots import Slots, int16_at
from quorate.codecs.columnar.varints import deltas, zigzag
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.log.crc import all_intact
from quorate.codecs.log.walker import Walker, walker


@dataclass(slots=True)
class Batches:
    """Header fields of the batches in a block, one element per batch.

    `plain` marks batches of magic 2 that are long enough for a header.
    """

    block: bytes
    start: Ints
    end: Ints
    plain: Bools
    base_offset: Ints
    attributes: Array
    last_offset_delta: Array
    base_timestamp: Ints
    max_timestamp: Ints
    producer_id: Ints
    producer_epoch: Array
    count: Array
    crc: Array

    def __len__(self) -> int:
        return len(self.start)

    def last_offsets(self) -> Ints:
        """Return the last offset of each batch by its header, at most the largest int64."""
        last = self.base_offset + self.last_offset_delta
        wrapped = (last < 0) & (self.base_offset >= 0) & (self.last_offset_delta > 0)
        return np.where(wrapped, np.iinfo(np.int64).max, last)

    def select(self, which: Array | slice) -> "Batches":
        """Return some of the batches."""
        names = [name for name in self.__slots__ if name != "block"]
        return Batches(self.block, **{name: getattr(self, name)[which] for name in names})


def headers_of(block: bytes, start: Ints, end: int) -> Batches:
    """Return the headers of the batches that begin at `start`; the last one ends at `end`."""
    ends = np.append(start[1:], end)
    native = walker()
    if native is not None:
        plain, base, crc, attributes, delta, base_timestamp, max_timestamp, producer, epoch, count = native.headers(
            block, start, ends
        )
        return Batches(
            block,
            start,
            ends,
            plain != 0,
            base,
            attributes,
            delta,
            base_timestamp,
            max_timestamp,
            producer,
            epoch,
            count,
            crc,
        )
    data = np.frombuffer(block, np.uint8)
    plain = (data[start + 16] == 2) & (ends - start >= v2.HEADER_BYTES)
    # A shorter frame is not plain. Bytes after it are ignored, but must be inside the block.
    places = np.minimum(start, max(len(block) - v2.HEADER_BYTES, 0))
    frame = Frame(Buffer(data, ends), places)
    codes = [">i8", "V9", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i2", "V4", ">i4"]
    base, _, crc, attributes, delta, base_timestamp, max_timestamp, producer, epoch, _, count = frame.fetch(codes)
    if not bool(plain.all()):
        # The other fields do not exist in older formats. Only the offset is used from here.
        (base,) = Frame(Buffer(data, ends), start.copy()).fetch([">i8"])
        attributes, delta = (np.where(plain, fact, 0) for fact in (attributes, delta))
        producer, epoch = (np.where(plain, fact, -1) for fact in (producer, epoch))
    return Batches(
        block, start, ends, plain, base, attributes, delta, base_timestamp, max_timestamp, producer, epoch, count, crc
    )


CRC_BYTES = 1 << 20
"""Bytes of batches that are checked together; they stay in the processor's cache."""


def crc_mismatches(batches: Batches) -> Ints:
    """Return the batches with a wrong CRC, magic or length, or a negative base offset.

    No CRC covers the base offset.
    """
    suspicious = ~batches.plain | (batches.base_offset < 0)
    native = walker()
    if native is not None:
        suspicious |= native.crcs(batches.block, batches.start, batches.end) != batches.crc
        return _damaged(batches, suspicious)
    borders = np.searchsorted(batches.start, np.arange(int(batches.start[0]), int(batches.end[-1]), CRC_BYTES)).tolist()
    for first, last in zip(borders, [*borders[1:], len(batches)], strict=True):
        part = slice(first, last)
        if first == last:
            continue
        start, end, claimed = batches.start[part], batches.end[part], batches.crc[part]
        if bool(suspicious[part].any()) or not all_intact(batches.block, start, end, claimed, v2.CRC_START):
            suspicious[part] |= computed_crcs(batches.block, start, end) != claimed
    return _damaged(batches, suspicious)


def _damaged(batches: Batches, suspicious: Bools) -> Ints:
    found = [
        index
        for index in np.flatnonzero(suspicious).tolist()
        if check(batches.block, int(batches.start[index]), int(batches.end[index]), 0) is not None
    ]
    return np.array(found, dtype=np.int64)


def computed_crcs(block: bytes, start: Ints, end: Ints) -> Array:
    """Return the CRC of each batch."""
    native = walker()
    if native is not None:
        return native.crcs(block, start, end)
    first = (start + v2.CRC_START).tolist()
    return np.array(
        [google_crc32c.value(block[a:b]) for a, b in zip(first, end.tolist(), strict=True)], dtype=np.uint32
    )


FEW = 32
"""With this many batches or fewer, reading record by record in Python is faster than numpy."""


@dataclass(slots=True)
class Records:
    """Records in the order of the log: positions of keys and values, offsets and timestamps.

    `batch` is the index of each record's batch.
    """

    keys: Slots
    values: Slots
    batch: Ints
    offset: Ints
    timestamp: Ints

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, which: Any) -> "Records":
        """Return some of the records, by their indexes, or by a slice without a copy."""
        return Records(
            self.keys[which], self.values[which], self.batch[which], self.offset[which], self.timestamp[which]
        )


ARENA_BYTES = 16 << 20
"""Once the batches of a block decompress to this much, the rest is left for the next call."""


def some_records_of(
    batches: Batches, limit_bytes: int, left_out: bytes = b""
) -> tuple[Records, list[BatchProblem], int]:
    """Return the records of the first batches, their problems, and the number of batches used.

    Byte n of `left_out` is 1 if records of type n, the int16 at the start of a key, are left out.
    `limit_bytes` limits what one batch may decompress to, `ARENA_BYTES` what all of them may
    before the rest is left.
    """
    used = len(batches)
    arena = _Arena(batches.block)
    body, body_end = batches.start + v2.HEADER_BYTES, batches.end.copy()
    unusual = ~batches.plain | (batches.count < 0)
    for index in np.flatnonzero(
        (batches.attributes & v2.COMPRESSION_MASK != 0) & ~unusual & (batches.count > 0)
    ).tolist():
        name = v2.compression_of(int(batches.attributes[index]))
        try:
            inside, first, last = payload(
                batches.block,
                int(batches.start[index]),
                int(batches.end[index]),
                name,
                int(batches.count[index]),
                limit_bytes,
            )
        except ValueError:
            unusual[index] = True  # reported when it is read as a single batch
            continue
        body[index] = arena.add(inside[first:last])
        body_end[index] = body[index] + last - first
        if arena.size > len(batches.block) + ARENA_BYTES:
            used = index + 1
            break
    if used < len(batches):
        first_ones = np.arange(used)
        batches, body, body_end, unusual = batches.select(first_ones), body[:used], body_end[:used], unusual[:used]
    counts = np.where(unusual, 0, batches.count).astype(np.int64)
    # A record takes at least 7 bytes; a batch with too large a count is read as a single batch.
    crowded = counts * 7 > body_end - body
    unusual |= crowded
    counts = np.where(crowded, 0, counts)
    data = arena.data()
    native = walker()
    if native is not None:
        usual = ~unusual  # the bodies of others may begin after their end
        sound, not_read = _walk(native, data, body * usual, body_end * usual, counts, batches, left_out)
        unusual |= not_read
    else:
        sound = _without(_read(data, body, body_end, counts, batches, unusual), left_out)
    if not bool(unusual.any()):
        return sound, [], used
    records, problems = _with_unusual(sound, batches, np.flatnonzero(unusual), arena, limit_bytes)
    return _without(records, left_out), problems, used


def _without(records: Records, left_out: bytes) -> Records:
    """Return the records without those of some types."""
    if not left_out:
        return records
    types = int16_at(records.keys)
    known = (types >= 0) & (types < len(left_out))
    return records[np.flatnonzero(~known | (np.frombuffer(left_out, np.uint8)[types * known] == 0))]


def _read(data: Array, body: Ints, body_end: Ints, counts: Ints, batches: Batches, unusual: Bools) -> Records:
    """Return the records of the usual batches; marks those that must be read one by one."""
    if alone := bool((counts == 1).all()):
        start, owner = body, np.arange(len(batches))
    else:
        start, reached = _record_starts(data, body, body_end, counts)
        unusual |= (reached != body_end) & ~unusual & (counts > 0)
        unusual |= (counts == 0) & (body_end > body) & batches.plain
        owner = np.repeat(np.arange(len(batches)), counts)
    records, doubtful = _fields(data, start, owner, body_end, batches, alone=alone)
    unusual[owner[doubtful]] = True
    return records if not bool(unusual.any()) else records[np.flatnonzero(~unusual[owner])]


def _walk(
    native: Walker, data: Array, body: Ints, body_end: Ints, counts: Ints, batches: Batches, left_out: bytes
) -> tuple[Records, Bools]:
    """Return the records of the usual batches, and which are unusual, from the loops in C."""
    found = native.records(data, body, body_end, counts, batches.base_offset, batches.base_timestamp, left_out)
    alone = bool((found.kept == 1).all())
    owner = np.arange(len(batches)) if alone else np.repeat(np.arange(len(batches)), found.kept)
    timestamp, append = found.timestamp, batches.attributes & v2.LOG_APPEND_TIME != 0
    if bool(append.any()):
        timestamp = np.where(append[owner], batches.max_timestamp[owner], timestamp)
    null_key, null_value = (null if bool(null.any()) else None for null in (found.null_key, found.null_value))
    keys = Slots(data, found.key_start, found.key_end, null_key)
    values = Slots(data, found.value_start, found.value_end, null_value)
    return Records(keys, values, owner, found.offset, timestamp), found.unusual


class _Arena:
    """The block, followed by decompressed or copied bytes."""

    def __init__(self, block: bytes) -> None:
        self.parts = [block]
        self.size = len(block)

    def add(self, data: bytes) -> int:
        """Append `data` and return where it begins."""
        place = self.size
        self.parts.append(data)
        self.size += len(data)
        return place

    def data(self) -> Array:
        """Return all bytes."""
        return np.frombuffer(self.parts[0] if len(self.parts) == 1 else b"".join(self.parts), np.uint8)


def _record_starts(data: Array, body: Ints, body_end: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return where each record begins, and where the last one of each batch ends."""
    total = int(counts.sum())
    starts = np.zeros(total, dtype=np.int64)
    first = np.cumsum(counts) - counts
    at = body.copy()
    places = np.flatnonzero(counts > 0)
    number = 0
    pairs = (
        np.lib.stride_tricks.as_strided(np.ndarray((1,), "<u2", data.data), (len(data) - 1,), (1,), writeable=False)
        if len(data) > 1
        else None
    )
    while len(places) > FEW or (len(places) and number == 0):
        here, limit = at[places], body_end[places]
        starts[first[places] + number] = here
        two = (
            pairs[np.minimum(here, len(data) - 2)].astype(np.int64)
            if pairs is not None
            else np.zeros(len(here), dtype=np.int64)
        )
        if bool(((two & 0x8080) == 0x8080).any()):
            frame = Frame(Buffer(data, limit), here)
            size = zigzag(frame)
            following = frame.positions() + np.clip(size, 0, len(data))
        else:  # a size of one or two bytes, as of nearly all records
            longer = two >> 7 & 1
            following = here + 1 + longer + ((two & 0x7F | (two >> 1 & 0x3F80) * longer) >> 1)
        at[places] = np.minimum(following, limit)
        number += 1
        places = places[counts[places] > number]
    view = data.data
    for place in places.tolist():
        position, base, stop = int(at[place]), int(first[place]), int(body_end[place])
        for index in range(number, int(counts[place])):
            starts[base + index] = position
            shift = length = 0
            while position < stop:
                byte = view[position]
                position += 1
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            position = min(position + (length >> 1), stop)
        at[place] = position
    return starts, at


def _fields(
    data: Array, start: Ints, owner: Ints, body_end: Ints, batches: Batches, *, alone: bool
) -> tuple[Records, Ints]:
    """Return the fields of the records at `start`, and the indexes of those to read one by one.

    `alone`: each record is the only one of its batch.
    """

    def of(facts: Array) -> Array:
        return facts if alone else facts[owner]

    buffer = Buffer(data, of(body_end))
    frame = Frame(buffer, start.copy())
    size = zigzag(frame)
    record_end = frame.positions() + size
    _, timestamp_delta, offset_delta, key_length = deltas(frame)
    key_start = frame.positions().copy()
    frame.advance(np.clip(key_length, 0, len(data)))
    value_length = zigzag(frame)
    value_start = frame.positions().copy()
    frame.advance(np.clip(value_length, 0, len(data)))
    (headers,) = frame.fetch(["u1"])
    doubtful = buffer.doubtful | (headers != 0) | (frame.positions() != record_end)
    doubtful |= record_end != buffer.ends if alone else record_end > buffer.ends
    # Java adds deltas in 64 bits. If that may overflow, the single-batch reader is used.
    base, append = of(batches.base_timestamp), of(batches.attributes & v2.LOG_APPEND_TIME) != 0
    doubtful |= (np.abs(timestamp_delta) > 1 << 60) | (np.abs(base) > 1 << 60) | (np.abs(offset_delta) > 1 << 31)
    timestamp = base + np.where(doubtful, 0, timestamp_delta)
    if bool(append.any()):
        timestamp = np.where(append, of(batches.max_timestamp), timestamp)
    null_key, null_value = key_length < 0, value_length < 0
    records = Records(
        Slots(data, key_start, key_start + np.maximum(key_length, 0), null_key if bool(null_key.any()) else None),
        Slots(
            data, value_start, value_start + np.maximum(value_length, 0), null_value if bool(null_value.any()) else None
        ),
        owner,
        of(batches.base_offset) + offset_delta,
        timestamp,
    )
    return records, np.flatnonzero(doubtful)


def _with_unusual(
    sound: Records, batches: Batches, unusual: Ints, arena: _Arena, limit_bytes: int
) -> tuple[Records, list[BatchProblem]]:
    """Read the unusual batches one by one and insert their records among the others."""
    problems: list[BatchProblem] = []
    rows: list[tuple[int, BatchRecord]] = []
    for index in unusual.tolist():
        start, end = int(batches.start[index]), int(batches.end[index])
        batch = Batch(header_at(batches.block, start, start, True), batches.block[start:end], limit_bytes)
        for found in batch.records():
            if isinstance(found, BatchProblem):
                problems.append(found)
            else:
                rows.append((index, found))
    keys = _placed(arena, [record.key for _, record in rows])
    values = _placed(arena, [record.value for _, record in rows])
    batch_of = np.concatenate([sound.batch, np.array([index for index, _ in rows], dtype=np.int64)])
    order = np.argsort(batch_of, kind="stable")
    data = arena.data()
    return (
        Records(
            _joined(sound.keys, keys, data, order),
            _joined(sound.values, values, data, order),
            batch_of[order],
            np.concatenate([sound.offset, np.array([record.offset for _, record in rows], dtype=np.int64)])[order],
            np.concatenate([sound.timestamp, np.array([record.timestamp_ms for _, record in rows], dtype=np.int64)])[
                order
            ],
        ),
        problems,
    )


def _placed(arena: _Arena, items: list[bytes | None]) -> tuple[Ints, Ints, Bools]:
    """Copy the items to the arena; return where they begin and end, and which are null."""
    starts = np.array([arena.add(item or b"") for item in items], dtype=np.int64)
    sizes = np.array([len(item or b"") for item in items], dtype=np.int64)
    return starts, starts + sizes, np.array([item is None for item in items], dtype=np.bool_)


def _joined(slots: Slots, more: tuple[Ints, Ints, Bools], data: Array, order: Ints) -> Slots:
    null = np.zeros(len(slots), dtype=np.bool_) if slots.null is None else slots.null
    nulls = np.concatenate([null, more[2]])[order]
    start, end = (np.concatenate(pair)[order] for pair in ((slots.start, more[0]), (slots.end, more[1])))
    return Slots(data, start, end, nulls if bool(nulls.any()) else None)

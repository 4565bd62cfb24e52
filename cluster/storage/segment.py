"""`LogSegment`: batches in a store, with indexes by offset and by time as in Kafka.

Indexes have an entry for each `index.interval.bytes`. To find an offset, the index is searched, and
a few batch headers are read.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from struct import Struct

from quorate.cluster.storage.stores import Store
from quorate.codecs.batches.v2 import CONTROL, HEADER, HEADER_BYTES, LOG_OVERHEAD, TRANSACTIONAL
from quorate.codecs.lazy_dataclass import dataclass

_WALK_BYTES = 8192
_LARGEST_BYTES = 0x7FFF_FFFF
"""Positions and relative offsets in indexes are int32."""
_BASE_OFFSET_AND_LENGTH = Struct(">qi")
_LAST_DELTA = Struct(">i")
_LAST_DELTA_AT = 23


@dataclass(slots=True)
class BatchFacts:
    """Fields of a batch header that the log needs."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    count: int

    @classmethod
    def of(cls, buffer: bytes | bytearray, start: int = 0) -> "BatchFacts":
        """Read the header at `start`."""
        return BatchFacts(*_facts(buffer, start))


def _facts(buffer: bytes | bytearray, start: int) -> tuple[int, int, int, int, int, int, int, bool, bool, int]:
    base, _, leader_epoch, _, _, attributes, last_delta, _, newest, producer, epoch, sequence, count = (
        HEADER.unpack_from(buffer, start)
    )
    transactional, control = attributes & TRANSACTIONAL != 0, attributes & CONTROL != 0
    return base, base + last_delta, newest, leader_epoch, producer, epoch, sequence, transactional, control, count


@dataclass(slots=True)
class StoredBatch(BatchFacts):
    """A batch with its bytes."""

    data: bytes


class LogSegment:
    """A segment of a log, created at `created_ms`.

    `last_offset`: last offset of its last batch; `base_offset` - 1 while it is empty.
    """

    __slots__ = (
        "base_offset",
        "created_ms",
        "first_timestamp_ms",
        "interval_bytes",
        "last_offset",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offsets",
        "positions",
        "store",
        "time_offsets",
        "times",
        "unindexed",
    )

    def __init__(self, base_offset: int, store: Store, *, created_ms: int, interval_bytes: int = 4096) -> None:
        self.base_offset = base_offset
        self.store = store
        self.created_ms = created_ms
        self.interval_bytes = interval_bytes
        self.forget()

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.store.size

    def forget(self) -> None:
        """Reset the indexes and everything else that was derived from batches."""
        self.last_offset = self.base_offset - 1
        self.offsets = array("q")
        self.positions = array("q")
        self.times = array("q")
        self.time_offsets = array("q")
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = -1
        self.first_timestamp_ms = -1
        self.unindexed = 0

    # ---- writing

    def must_roll(
        self, size: int, last_offset: int, timestamp_ms: int, now_ms: int, *, most: int, roll_ms: int
    ) -> bool:
        """Return whether a batch needs a new segment, as in Kafka.

        Criteria are size, age by the timestamps of records, and the range of relative offsets.
        """
        if not self.size:
            return False
        age_ms = timestamp_ms - self.first_timestamp_ms if self.first_timestamp_ms >= 0 and timestamp_ms >= 0 else None
        if age_ms is None:
            age_ms = now_ms - self.created_ms
        return (
            self.size > min(most, _LARGEST_BYTES) - size
            or age_ms > roll_ms
            or last_offset - self.base_offset > _LARGEST_BYTES
        )

    def append(
        self, data: bytes, last_offset: int, max_timestamp_ms: int, sync: Callable[[], object] | None = None
    ) -> None:
        """Append a batch, then call `sync`. After an `OSError` the segment is unchanged."""
        position = self.store.size
        self.store.append(data, sync)
        self.note(position, len(data), last_offset, max_timestamp_ms)

    def note(self, position: int, size: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Add a batch that is in the store to the indexes."""
        if self.last_offset < self.base_offset:
            self.first_timestamp_ms = max_timestamp_ms
        self.last_offset = last_offset
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = max_timestamp_ms, last_offset
        if self.unindexed > self.interval_bytes:
            self.offsets.append(last_offset)
            self.positions.append(position)
            self._add_time_entry()
            self.unindexed = 0
        self.unindexed += size

    def close_time_index(self) -> None:
        """Add the greatest timestamp as the last entry, when the segment is closed."""
        self._add_time_entry()

    def _add_time_entry(self) -> None:
        if self.max_timestamp_ms > (self.times[-1] if self.times else -1):
            self.times.append(self.max_timestamp_ms)
            self.time_offsets.append(self.max_timestamp_offset)

    # ---- reading

    def position_of(self, offset: int) -> int:
        """Return the position of the first batch whose last offset is at least `offset`.

        It is the segment's size if there is no such batch.
        """
        if offset > self.last_offset:
            return self.size
        entry = bisect_right(self.offsets, offset) - 1
        for position, chunk, at in self._walk(self.positions[entry] if entry >= 0 else 0):
            (base,) = _OFFSET.unpack_from(chunk, at)
            if base + _LAST_DELTA.unpack_from(chunk, at + _LAST_DELTA_AT)[0] >= offset:
                return position
        return self.size

    def read(self, position: int, stop: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Return whole batches from `position` to at most `stop`, in at most `max_bytes`.

        Both positions are at the start of a batch, or the end of the last one. With `at_least_one`
        the first batch is returned even if it is larger.
        """
        end = stop
        if position + max_bytes < stop:
            end = self._boundary(position, position + max_bytes)
            if end == position and at_least_one:
                _, length = _BASE_OFFSET_AND_LENGTH.unpack(self.store.read(position, _BASE_OFFSET_AND_LENGTH.size))
                end = position + LOG_OVERHEAD + length
        return self.store.read(position, end - position) if end > position else b""

    def entry_from(self, position: int) -> int | None:
        """Return the offset of the first index entry at or after a position, or `None`."""
        entry = bisect_left(self.positions, position)
        return self.offsets[entry] if entry < len(self.offsets) else None

    def batches(self, position: int = 0) -> Iterator[StoredBatch]:
        """Yield the batches from a position on, up to the first that is not whole."""
        read = self.store.read
        for position_of_batch, chunk, at in self._walk(position, _WALK_BYTES * 16):
            size = LOG_OVERHEAD + _BASE_OFFSET_AND_LENGTH.unpack_from(chunk, at)[1]
            data = chunk[at : at + size] if at + size <= len(chunk) else read(position_of_batch, size)
            if not HEADER_BYTES <= size == len(data):
                return  # not a batch
            yield StoredBatch(*_facts(data, 0), data)

    def time_entry(self, timestamp_ms: int) -> int:
        """Return a position at or before the first record with at least this timestamp."""
        entry = bisect_right(self.times, timestamp_ms - 1) - 1
        return 0 if entry < 0 else self.position_of(self.time_offsets[entry])

    def _boundary(self, position: int, limit: int) -> int:
        """Return the last end of a batch up to `limit`."""
        entry = bisect_right(self.positions, limit) - 1
        end = max(position, self.positions[entry]) if entry >= 0 else position
        for position_of_batch, chunk, at in self._walk(end):
            next_position = position_of_batch + LOG_OVERHEAD + _BASE_OFFSET_AND_LENGTH.unpack_from(chunk, at)[1]
            if next_position > limit:
                break
            end = next_position
        return end

    def _walk(self, position: int, step: int = _WALK_BYTES) -> Iterator[tuple[int, bytes, int]]:
        """Yield the headers from a batch's position on: position, buffer and index in it."""
        size = self.size
        unpack = _BASE_OFFSET_AND_LENGTH.unpack_from
        while position + HEADER_BYTES <= size:
            chunk = self.store.read(position, min(step, size - position))
            at, last = 0, len(chunk) - HEADER_BYTES
            while at <= last:
                yield position + at, chunk, at
                length = unpack(chunk, at)[1]
                if length < HEADER_BYTES - LOG_OVERHEAD:
                    return  # not a batch: the index is wrong
                at += LOG_OVERHEAD + length
            position += at


_OFFSET = Struct(">q")

"""`LogSegment`: batches one behind the other in a store, and indexes of them by offset and by time as Kafka makes them; in memory and in files alike.

An index has an entry each time that `index.interval.bytes` came since the last one, so finding an
offset is a search in the index and a walk over a few headers.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct

from quorate.cluster.storage.stores import Store
from quorate.codecs.batches.v2 import CONTROL, HEADER, HEADER_BYTES, LOG_OVERHEAD, TRANSACTIONAL

__all__ = ["BatchFacts", "LogSegment", "StoredBatch"]

_WALK_BYTES = 8192
_LARGEST_BYTES = 0x7FFF_FFFF
"""Positions and relative offsets in indexes are int32."""
_PLACE = Struct(">qi")
_LAST_DELTA = Struct(">i")
_LAST_DELTA_AT = 23


@dataclass(slots=True)
class BatchFacts:
    """What the log must know of a batch: its header's fields, without those about bytes."""

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
        """From the header at `start`."""
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
    """The part of a log from `base_offset` on, whose oldest batch came at `created_ms`.

    `last_offset`: of its last batch, one below `base_offset` while it is empty.
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
        """In bytes."""
        return self.store.size

    def forget(self) -> None:
        """Know nothing of what is in the store."""
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
        """Whether a batch belongs into a new segment, as Kafka decides it: by size, by age in the time of records, or because its offset is too far away."""
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
        """Add a batch, then `sync`. Raises `OSError`, and then nothing has changed."""
        position = self.store.size
        self.store.append(data, sync)
        self.note(position, len(data), last_offset, max_timestamp_ms)

    def note(self, position: int, size: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Enter a batch that is in the store into the indexes."""
        if self.last_offset < self.base_offset:
            self.first_timestamp_ms = max_timestamp_ms
        self.last_offset = last_offset
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms, self.max_timestamp_offset = max_timestamp_ms, last_offset
        if self.unindexed > self.interval_bytes:
            self.offsets.append(last_offset)
            self.positions.append(position)
            self._note_time()
            self.unindexed = 0
        self.unindexed += size

    def close_time_index(self) -> None:
        """The greatest timestamp is the last entry once nothing more comes."""
        self._note_time()

    def _note_time(self) -> None:
        if self.max_timestamp_ms > (self.times[-1] if self.times else -1):
            self.times.append(self.max_timestamp_ms)
            self.time_offsets.append(self.max_timestamp_offset)

    # ---- reading

    def position_of(self, offset: int) -> int:
        """Where the first batch is that ends at this offset or behind it; the segment's size if there is none."""
        if offset > self.last_offset:
            return self.size
        entry = bisect_right(self.offsets, offset) - 1
        for position, chunk, at in self._walk(self.positions[entry] if entry >= 0 else 0):
            (base,) = _OFFSET.unpack_from(chunk, at)
            if base + _LAST_DELTA.unpack_from(chunk, at + _LAST_DELTA_AT)[0] >= offset:
                return position
        return self.size

    def read(self, position: int, stop: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Whole batches from `position` on, where one begins, up to `stop`, where one ends; the first even if it is larger, with `at_least_one`."""
        end = stop
        if position + max_bytes < stop:
            end = self._boundary(position, position + max_bytes)
            if end == position and at_least_one:
                _, length = _PLACE.unpack(self.store.read(position, _PLACE.size))
                end = position + LOG_OVERHEAD + length
        return self.store.read(position, end - position) if end > position else b""

    def entry_from(self, position: int) -> int | None:
        """The offset of the first entry of the index for this position or one behind it; `None` if there is none."""
        entry = bisect_left(self.positions, position)
        return self.offsets[entry] if entry < len(self.offsets) else None

    def batches(self, position: int = 0) -> Iterator[StoredBatch]:
        """The batches from a position on, up to the first that is not whole."""
        read = self.store.read
        for place, chunk, at in self._walk(position, _WALK_BYTES * 16):
            size = LOG_OVERHEAD + _PLACE.unpack_from(chunk, at)[1]
            data = chunk[at : at + size] if at + size <= len(chunk) else read(place, size)
            if not HEADER_BYTES <= size == len(data):
                return  # what is here is no batch
            yield StoredBatch(*_facts(data, 0), data)

    def time_entry(self, timestamp_ms: int) -> int:
        """A position from which on the first record at or after a time is found."""
        entry = bisect_right(self.times, timestamp_ms - 1) - 1
        return 0 if entry < 0 else self.position_of(self.time_offsets[entry])

    def _boundary(self, position: int, limit: int) -> int:
        """The last place up to `limit` where a batch ends."""
        entry = bisect_right(self.positions, limit) - 1
        end = max(position, self.positions[entry]) if entry >= 0 else position
        for place, chunk, at in self._walk(end):
            following = place + LOG_OVERHEAD + _PLACE.unpack_from(chunk, at)[1]
            if following > limit:
                break
            end = following
        return end

    def _walk(self, position: int, step: int = _WALK_BYTES) -> Iterator[tuple[int, bytes, int]]:
        """The headers from a batch's position on: position, and a buffer with where the header is in it."""
        size = self.size
        unpack = _PLACE.unpack_from
        while position + HEADER_BYTES <= size:
            chunk = self.store.read(position, min(step, size - position))
            at, last = 0, len(chunk) - HEADER_BYTES
            while at <= last:
                yield position + at, chunk, at
                length = unpack(chunk, at)[1]
                if length < HEADER_BYTES - LOG_OVERHEAD:
                    return  # no batch: an index that is wrong led here
                at += LOG_OVERHEAD + length
            position += at


_OFFSET = Struct(">q")

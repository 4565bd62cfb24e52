"""`read_raw`: log segments as positions of keys and values, with transaction markers, not decoded.

For callers that need the keys of most records and few values, such as a coordinator that loads
committed offsets.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from quorate.codecs.batches.control import control_record
from quorate.codecs.batches.frames import MAX_BATCH_BYTES
from quorate.codecs.batches.v2 import TRANSACTIONAL
from quorate.codecs.columnar.frame import Bools, Ints
from quorate.codecs.columnar.slots import Slots, binary_array
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.log.block_reader import BLOCK_BYTES
from quorate.codecs.log.blocks import Batches, Records, some_records_of
from quorate.codecs.log.columns import FoundRecords, PartitionColumns, prefetch
from quorate.codecs.log.files import PartitionFiles
from quorate.codecs.log.model import LogEntry, LogError, LogProblem
from quorate.codecs.records import CONSUMER_OFFSETS, decode_record

__all__ = ["Markers", "RawBlock", "block_of_batches", "read_raw"]


def _no_ints() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """Transaction markers: the row before which each stands, ascending, and whether it commits.

    Rows are those of the block; the number of rows stands for its end.
    """

    row: Ints = field(default_factory=_no_ints)
    offset: Ints = field(default_factory=_no_ints)
    timestamp_ms: Ints = field(default_factory=_no_ints)
    producer_id: Ints = field(default_factory=_no_ints)
    commit: Bools = field(default_factory=lambda: np.empty(0, np.bool_))

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, which: Any) -> "Markers":
        return Markers(
            row=self.row[which],
            offset=self.offset[which],
            timestamp_ms=self.timestamp_ms[which],
            producer_id=self.producer_id[which],
            commit=self.commit[which],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBlock:
    """Records of one partition, one row each, and the markers among them.

    `producer_id` is that of the transaction of each record, -1 outside of one.
    """

    keys: Slots
    values: Slots
    offset: Ints
    timestamp_ms: Ints
    producer_id: Ints
    markers: Markers = field(default_factory=Markers)
    problems: tuple[LogProblem, ...] = ()
    topic: str = CONSUMER_OFFSETS
    partition: int | None = None

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def size_bytes(self) -> int:
        """The size of all keys and values."""
        return sum(int((slots.end - slots.start).sum()) for slots in (self.keys, self.values))

    @classmethod
    def of(
        cls,
        keys: Any,
        values: Any,
        *,
        offset: Any = None,
        timestamp_ms: Any = None,
        producer_id: Any = None,
        markers: Markers | None = None,
    ) -> "RawBlock":
        """Create a block from two binary Arrow arrays of equal length; a null value is a tombstone.

        The other columns are integers, by default -1 in each row. Raises `ValueError` if lengths
        differ.
        """
        facts = [
            np.full(len(keys), -1, np.int64) if given is None else np.asarray(given, np.int64)
            for given in (offset, timestamp_ms, producer_id)
        ]
        if any(len(column) != len(keys) for column in (values, *facts)):
            raise ValueError(f"{len(keys)} keys, {len(values)} values, {', '.join(str(len(fact)) for fact in facts)}")
        return cls(
            keys=Slots.of(keys),
            values=Slots.of(values),
            offset=facts[0],
            timestamp_ms=facts[1],
            producer_id=facts[2],
            markers=markers or Markers(),
        )

    def entries(self) -> Iterator[LogEntry]:
        """Yield the records, decoded, without the markers."""
        for row in range(len(self)):
            key, value = self.keys.bytes_at(row), self.values.bytes_at(row)
            yield LogEntry.of(
                decode_record(key, value, topic=self.topic),
                topic=self.topic,
                partition=self.partition,
                offset=int(self.offset[row]),
                timestamp_ms=int(self.timestamp_ms[row]),
                producer_id=int(self.producer_id[row]),
                key_bytes=key,
                value_bytes=value,
            )

    def since(self, offset: int) -> "RawBlock":
        """Return the part from an offset on."""
        row, marker = (int((of < offset).sum()) for of in (self.offset, self.markers.offset))
        markers = self.markers[marker:]
        return self._part(slice(row, None), replace(markers, row=markers.row - row))

    def upto(self, *, offset: int | None = None, timestamp_ms: int | None = None) -> tuple["RawBlock", bool]:
        """Return the part before the first record or marker after `offset` or `timestamp_ms`.

        The second value says whether there was such a record or marker.
        """
        row, marker = len(self), len(self.markers)
        for given, of_rows, of_markers in (
            (offset, self.offset, self.markers.offset),
            (timestamp_ms, self.timestamp_ms, self.markers.timestamp_ms),
        ):
            if given is not None:
                row = min(row, _first(of_rows > given))
                marker = min(marker, _first(of_markers > given))
        if marker < len(self.markers):
            row = min(row, int(self.markers.row[marker]))
        marker = min(marker, int(np.searchsorted(self.markers.row, row, side="right")))
        if row == len(self) and marker == len(self.markers):
            return self, False
        return self._part(slice(0, row), self.markers[:marker]), True

    def rows(self, which: slice | Ints) -> "RawBlock":
        """Return some of the rows, without the markers."""
        return self._part(which, Markers())

    def _part(self, rows: slice | Ints, markers: Markers) -> "RawBlock":
        return replace(
            self,
            keys=self.keys[rows],
            values=self.values[rows],
            offset=self.offset[rows],
            timestamp_ms=self.timestamp_ms[rows],
            producer_id=self.producer_id[rows],
            markers=markers,
        )


def read_raw(
    files: PartitionFiles,
    *,
    skip_corrupt: bool = False,
    use_threads: bool = True,
    block_bytes: int = BLOCK_BYTES,
    markers: bool = True,
) -> Iterator[RawBlock]:
    """Read the records of a partition block by block, with the rules of `read_log` for damage.

    With `use_threads` the next block is read in advance. Without `markers` the blocks have none.
    """
    reader = PartitionColumns(
        files,
        read_committed=False,
        skip_corrupt=skip_corrupt,
        dictionary=False,
        limit_bytes=MAX_BATCH_BYTES,
        block_bytes=block_bytes,
    )
    blocks = (
        replace(block, topic=files.topic, partition=files.partition)
        for block in _blocks(reader.found(), markers=markers)
    )
    return prefetch(blocks) if use_threads else blocks


def block_of_batches(batches: Batches) -> RawBlock:
    """Return the records of intact batches without control batches. Raises `LogError`."""
    parts: list[RawBlock] = []
    while len(batches):
        records, problems, used = some_records_of(batches, MAX_BATCH_BYTES)
        if problems:
            raise LogError(f"a batch cannot be decoded: {problems[0]}")
        parts.append(_block(FoundRecords([], batches, records, used), None))
        batches = batches.select(np.arange(used, len(batches)))
    return parts[0] if len(parts) == 1 else concatenated(parts)


def concatenated(parts: list[RawBlock]) -> RawBlock:
    """Return one block with the records of all, which have no markers, topic or partition."""
    keys, values = (
        pa.concat_arrays([binary_array(slots) for slots in column])
        for column in ([part.keys for part in parts], [part.values for part in parts])
    )
    offset, timestamp_ms, producer_id = (
        np.concatenate(column)
        for column in zip(*((part.offset, part.timestamp_ms, part.producer_id) for part in parts), strict=True)
    )
    return RawBlock.of(keys, values, offset=offset, timestamp_ms=timestamp_ms, producer_id=producer_id)


def _blocks(found: Iterable[FoundRecords], *, markers: bool) -> Iterator[RawBlock]:
    """Yield blocks with their markers; in `found` the markers of a file block come first."""
    waiting: Batches | None = None
    for part in found:
        if part.records is None or part.data is None:
            if waiting is not None:
                yield _block(part, waiting)
            elif part.problems:
                yield _block(part, None)
            waiting = part.control if markers else None
            continue
        now = waiting
        if waiting is not None:
            border = int(part.data.start[part.used]) if part.used < len(part.data) else int(waiting.end[-1])
            now, waiting = waiting.select(waiting.start < border), waiting.select(waiting.start >= border)
            waiting = waiting if len(waiting) else None
        yield _block(part, now)
    if waiting is not None:
        yield _block(FoundRecords([]), waiting)


def _block(part: FoundRecords, control: Batches | None) -> RawBlock:
    records, data = part.records, part.data
    if records is None or data is None:
        nothing = np.empty(0, np.int64)
        slots = Slots(np.empty(0, np.uint8), nothing, nothing)
        records = Records(slots, slots, nothing, nothing, nothing)
        starts, producers = nothing, nothing
    else:
        starts = data.start
        producers = np.where(data.attributes & TRANSACTIONAL != 0, data.producer_id, -1)
    quiet = not len(producers) or bool((producers == -1).all())
    return RawBlock(
        keys=records.keys,
        values=records.values,
        offset=records.offset,
        timestamp_ms=records.timestamp,
        producer_id=np.full(len(records), -1, np.int64) if quiet else producers[records.batch],
        markers=Markers() if control is None or not len(control) else _markers(control, starts, records.batch),
        problems=tuple(part.problems),
    )


def _markers(control: Batches, starts: Ints, batch: Ints) -> Markers:
    """Return the markers of control batches, among records of batches that begin at `starts`."""
    found: list[tuple[int, int, int, int, bool]] = []
    while len(control):
        records, _, used = some_records_of(control, MAX_BATCH_BYTES)
        producers = np.where(control.attributes & TRANSACTIONAL != 0, control.producer_id, -1)
        rows = np.searchsorted(starts[batch], control.start)
        for place, of in enumerate(records.batch.tolist()):
            marker = control_record(records.keys.bytes_at(place), records.values.bytes_at(place)).commits
            if marker is not None:  # leaders also write other control records
                at = int(records.offset[place]), int(records.timestamp[place])
                found.append((int(rows[of]), *at, int(producers[of]), marker))
        control = control.select(np.arange(used, len(control)))
    if not found:
        return Markers()
    row, offset, timestamp_ms, producer_id, commit = (np.array(column) for column in zip(*found, strict=True))
    return Markers(row=row, offset=offset, timestamp_ms=timestamp_ms, producer_id=producer_id, commit=commit)


def _first(which: Bools) -> int:
    """Return the index of the first true element, or the length if there is none."""
    place = int(which.argmax()) if len(which) else 0
    return place if len(which) and which[place] else len(which)

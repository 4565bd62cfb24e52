"""Compaction of closed segments: of each key the last record stays, at its offset, as the cleaner of Kafka's brokers keeps it for a compacted topic.

- Records of aborted transactions go. Nothing is touched from the segment on in which the first open transaction begins: how it ends is not known (KIP-98).
- A tombstone stays for the pass that first meets it, which writes a delete horizon into its batch (KIP-534), and goes with the first pass at or after that time.
  So does a transaction's marker once no record of the transaction is left; before, it is needed.
- Segments are replaced one by one, oldest first: after a crash in between, what a tombstone has deleted is gone before the tombstone is.

Segments are not joined; one of which nothing is left is deleted. Memory: the keys, and one batch.
"""

import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path

from quorate.codecs import LogError
from quorate.codecs.batches import Batch, BatchProblem, BatchRecord, control_record, encode_like
from quorate.coordinator.log_segments import Fsync, batches, sync_folder

__all__ = ["Compaction", "compact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What a pass did: `segments` that were looked at, records (markers included) and bytes in them before and after."""

    segments: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


def compact(
    closed: Sequence[Path],
    newest: Path,
    newest_end: int | None = None,
    *,
    now_ms: int,
    tombstone_retention_ms: int = 0,
    fsync: Fsync = "always",
) -> Compaction:
    """Compact the closed segments of a partition, oldest first; `newest`, up to byte `newest_end`, only tells how transactions ended.

    Raises `LogError` for damage, before anything is changed, and `OSError`. Nobody may read the log meanwhile.
    """
    transactions = _Transactions()
    for path in closed:
        transactions.take(batches(path))
    transactions.take(batches(newest, newest_end))
    ends = [int(path.stem) for path in (*closed, newest)][1:]
    first_open = transactions.first_open()
    paths = [path for path, end in zip(closed, ends, strict=True) if first_open is None or end <= first_open]
    cleaner = _Cleaner(transactions, now_ms, now_ms + tombstone_retention_ms)
    for path in paths:
        cleaner.look(path)
    sizes = [path.stat().st_size for path in paths]
    left = [_replace(path, cleaner.cleaned(path), fsync) for path in paths]
    return Compaction(
        segments=len(paths),
        records_before=cleaner.met,
        records_after=cleaner.kept,
        bytes_before=sum(sizes),
        bytes_after=sum(left),
    )


class _Transactions:
    """Which transactions were aborted, and which are open, by producer."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._aborted: dict[int, list[tuple[int, int]]] = defaultdict(list)  # first offset, offset of the marker

    def take(self, found: Iterable[Batch]) -> None:
        for batch in found:
            header = batch.header
            if not header.transactional:
                continue
            if not header.control:
                self._open.setdefault(header.producer_id, header.base_offset)
                continue
            first = self._open.pop(header.producer_id, None)
            if first is not None and _control_name(batch) == "ABORT":
                self._aborted[header.producer_id].append((first, header.base_offset))

    def first_open(self) -> int | None:
        """Where the first transaction begins that has no marker yet."""
        return min(self._open.values(), default=None)

    def aborted(self, producer_id: int, offset: int) -> bool:
        ranges = self._aborted.get(producer_id, [])
        at = bisect_right(ranges, offset, key=itemgetter(0)) - 1
        return at >= 0 and offset < ranges[at][1]


@dataclass
class _Cleaner:
    """First look at every segment, then clean each, in the order of the log."""

    transactions: _Transactions
    now_ms: int
    horizon_ms: int
    last: dict[bytes, int] = field(default_factory=dict)
    with_records: set[int] = field(default_factory=set)
    met: int = 0
    kept: int = 0

    def look(self, path: Path) -> None:
        """Note the last offset of each key."""
        for batch in batches(path):
            records = _records(path, batch)
            self.met += len(records)
            if not batch.header.control and not self._aborted(batch):
                self.last.update((record.key, record.offset) for record in records if record.key is not None)

    def cleaned(self, path: Path) -> Iterator[bytes]:
        """The batches that stay."""
        for batch in batches(path):
            records = _records(path, batch)
            kept = self._marker(batch, records) if batch.header.control else self._data(batch, records)
            if kept is not None:
                self.kept += len(kept[1])
                yield _encoded(batch, len(records), *kept)

    def _data(self, batch: Batch, records: list[BatchRecord]) -> tuple[int | None, list[BatchRecord]] | None:
        """The delete horizon and the records that stay; nothing if none does."""
        if self._aborted(batch):
            return None
        horizon = batch.header.delete_horizon_ms
        over = horizon is not None and horizon <= self.now_ms
        kept = [
            record
            for record in records
            if record.key is not None and self.last[record.key] == record.offset and not (record.value is None and over)
        ]
        if not kept:
            return None
        if batch.header.transactional:
            self.with_records.add(batch.header.producer_id)
        if horizon is None and any(record.value is None for record in kept):
            horizon = self.horizon_ms
        return horizon, kept

    def _marker(self, batch: Batch, records: list[BatchRecord]) -> tuple[int | None, list[BatchRecord]] | None:
        """The same for a control batch; what is no marker stays."""
        header = batch.header
        horizon = header.delete_horizon_ms
        if not header.transactional or header.producer_id in self.with_records:
            self.with_records.discard(header.producer_id)
            return horizon, records
        if horizon is not None and horizon <= self.now_ms:
            return None
        return self.horizon_ms if horizon is None else horizon, records

    def _aborted(self, batch: Batch) -> bool:
        header = batch.header
        return header.transactional and self.transactions.aborted(header.producer_id, header.base_offset)


def _encoded(batch: Batch, count: int, horizon_ms: int | None, kept: list[BatchRecord]) -> bytes:
    """The batch with what stays, in the offsets it had; its own bytes if nothing changes."""
    header = batch.header
    if len(kept) == count and horizon_ms == header.delete_horizon_ms:
        return batch.data
    changed = replace(
        header,
        delete_horizon_ms=horizon_ms,
        base_timestamp_ms=header.base_timestamp_ms if horizon_ms is None else horizon_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in kept),
    )
    return encode_like(changed, kept)


def _records(path: Path, batch: Batch) -> list[BatchRecord]:
    records: list[BatchRecord] = []
    for record in batch.records():
        if isinstance(record, BatchProblem):
            raise LogError(f"{path}, position {record.position:,}: {record.detail}; restore the file from a copy")
        records.append(record)
    return records


def _control_name(batch: Batch) -> str | None:
    for record in batch.records():
        if isinstance(record, BatchRecord):
            return control_record(record.key, record.value).name
    return None


def _replace(path: Path, content: Iterator[bytes], fsync: Fsync) -> int:
    """Write the segment anew beside it, and put that in its place; returns its bytes."""
    cleaned = path.with_name(path.name + ".cleaned")  # a rest of this, from a crash, is overwritten by the next pass
    size = 0
    with cleaned.open("wb") as file:
        for batch in content:
            size += file.write(batch)
        file.flush()
        if fsync == "always":
            os.fsync(file.fileno())
    if size:
        cleaned.replace(path)
    else:
        cleaned.unlink()
        path.unlink()
    if fsync == "always":
        sync_folder(path.parent)
    return size

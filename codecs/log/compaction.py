"""Compaction of closed segments: the rule by which the cleaner of Kafka's brokers keeps the last record of each key, at its offset.

- Records of aborted transactions go. Nothing is touched from the segment on in which the first open
  transaction begins: how it ends is not known (KIP-98).
- A tombstone stays for the pass that first meets it, which writes a delete horizon into its batch
  (KIP-534), and goes with the first pass at or after that time. So does a transaction's marker once
  no record of the transaction is left; before, it is needed.
- Whoever replaces segments does it one by one, oldest first: after a crash in between, what a
  tombstone has deleted is gone before the tombstone is.

Segments are not joined. Memory: the keys, and one batch. Where segments are, and how they are
replaced, is not known here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Generic, Protocol, TypeVar

from quorate.codecs.batches import Batch, BatchHeader, BatchProblem, BatchRecord, encode_like
from quorate.codecs.log.model import LogError
from quorate.codecs.log.transactions import TransactionIndex, Transactions

__all__ = ["BatchWork", "Cleaning", "ClosedSegment"]

T = TypeVar("T")

_MANY_RECORDS = 2_000
"""More than a few milliseconds' worth; 300,000 take a second."""


class ClosedSegment(Protocol):
    """A segment that nobody writes to any more."""

    @property
    def base_offset(self) -> int:
        """Where it begins."""

    @property
    def place(self) -> str:
        """Its file, or whatever leads to it."""

    def batches(self) -> Iterator[Batch]:
        """Its batches, in their order."""


class BatchWork(Generic[T]):
    """What a pass does with one batch.

    `run` may be called in another thread while the pass waits, which is for one that is `large`, as
    far as its header says.
    """

    __slots__ = ("_error", "_function", "_result", "large")

    def __init__(self, header: BatchHeader, function: Callable[[], T]) -> None:
        self.large = header.count is None or header.count > _MANY_RECORDS or header.compression != "none"
        self._function: Callable[[], T] | None = function
        self._result: T | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        """Do it, once."""
        function, self._function = self._function, None
        if function is None:
            return
        try:
            self._result = function()
        except Exception as error:  # noqa: BLE001  # the pass raises it
            self._error = error

    def result(self) -> T | None:
        """What it gave; it is done now if it was not. Raises `LogError`."""
        self.run()
        if self._error is not None:
            raise self._error
        return self._result


class Cleaning:
    """One pass: first look at everything, batch by batch, then clean each of `segments`, in the order of the log.

    `retain`: of which batches the header stays even if no record does, so that it is known what
    their producer wrote last. `met`, `kept`: records.
    """

    def __init__(
        self, *, now_ms: int, tombstone_retention_ms: int, retain: Callable[[Batch], bool] = lambda batch: False
    ) -> None:
        self.segments: Sequence[ClosedSegment] = ()
        self.met = self.kept = 0
        self._now_ms = now_ms
        self._horizon_ms = now_ms + tombstone_retention_ms
        self._retain = retain
        self._transactions = Transactions()
        self._last: dict[bytes, int] = {}
        self._with_records: set[int] = set()

    def look(
        self, closed: Sequence[ClosedSegment], newest: Iterable[Batch], newest_base: int
    ) -> Iterator[BatchWork[None] | None]:
        """Find out which records count, a step for each batch.

        `newest`: what follows the closed segments, from an offset on. Raises `LogError`.
        """
        index = TransactionIndex()
        for batch in chain(chain.from_iterable(segment.batches() for segment in closed), newest):
            index.add(batch)
            yield None
        self._transactions = index.settled()
        first_open = self._transactions.last_stable_offset
        ends = [*(one.base_offset for one in closed), newest_base][1:]
        self.segments = [one for one, end in zip(closed, ends, strict=True) if first_open is None or end <= first_open]
        for segment in self.segments:
            for batch in segment.batches():
                work = BatchWork(batch.header, partial(self._look, segment, batch))
                yield work
                work.result()

    def _look(self, segment: ClosedSegment, batch: Batch) -> None:
        records = _records(segment, batch)
        self.met += len(records)
        if not batch.header.control and not self._aborted(batch):
            self._last.update((record.key, record.offset) for record in records if record.key is not None)

    def cleaned(self, segment: ClosedSegment) -> Iterator[BatchWork[bytes | None]]:
        """What gives the batches that stay, one after the other; nothing for others."""
        for batch in segment.batches():
            retain = not batch.header.control and self._retain(batch)
            yield BatchWork(batch.header, partial(self._cleaned, segment, batch, retain))

    def _cleaned(self, segment: ClosedSegment, batch: Batch, retain: bool) -> bytes | None:
        records = _records(segment, batch)
        kept = self._marker(batch, records) if batch.header.control else self._data(batch, records)
        if kept is None and retain:
            kept = batch.header.delete_horizon_ms, []
        if kept is None:
            return None
        self.kept += len(kept[1])
        return _encoded(batch, len(records), *kept)

    def _data(self, batch: Batch, records: list[BatchRecord]) -> tuple[int | None, list[BatchRecord]] | None:
        """The delete horizon and the records that stay; nothing if none does."""
        if self._aborted(batch):
            return None
        horizon = batch.header.delete_horizon_ms
        over = horizon is not None and horizon <= self._now_ms
        kept = [
            record
            for record in records
            if record.key is not None
            and self._last[record.key] == record.offset
            and not (record.value is None and over)
        ]
        if not kept:
            return None
        if batch.header.transactional:
            self._with_records.add(batch.header.producer_id)
        if horizon is None and any(record.value is None for record in kept):
            horizon = self._horizon_ms
        return horizon, kept

    def _marker(self, batch: Batch, records: list[BatchRecord]) -> tuple[int | None, list[BatchRecord]] | None:
        """The same for a control batch; what is no marker stays."""
        header = batch.header
        horizon = header.delete_horizon_ms
        if not header.transactional or header.producer_id in self._with_records:
            self._with_records.discard(header.producer_id)
            return horizon, records
        if horizon is not None and horizon <= self._now_ms:
            return None
        return self._horizon_ms if horizon is None else horizon, records

    def _aborted(self, batch: Batch) -> bool:
        header = batch.header
        return header.transactional and self._transactions.is_aborted(header.producer_id, header.base_offset)


def _encoded(batch: Batch, count: int, horizon_ms: int | None, kept: list[BatchRecord]) -> bytes:
    """The batch with what stays, in the offsets it had; its own bytes if nothing changes."""
    header = batch.header
    if len(kept) == count and horizon_ms == header.delete_horizon_ms:
        return batch.data
    changed = replace(
        header,
        delete_horizon_ms=horizon_ms,
        base_timestamp_ms=header.base_timestamp_ms if horizon_ms is None else horizon_ms,
        max_timestamp_ms=max((record.timestamp_ms for record in kept), default=header.max_timestamp_ms),
    )
    return encode_like(changed, kept)


def _records(segment: ClosedSegment, batch: Batch) -> list[BatchRecord]:
    records: list[BatchRecord] = []
    for record in batch.records():
        if isinstance(record, BatchProblem):
            raise LogError(
                f"{segment.place}, position {record.position:,}: {record.detail}; restore the file from a copy"
            )
        records.append(record)
    return records

"""Compaction of closed segments: keep the last record of each key, as Kafka's log cleaner.

- Records of aborted transactions are removed. Compaction stops before the segment in which the
  first open transaction begins, because its outcome is not known (KIP-98).
- The pass that first meets a tombstone keeps it and writes a delete horizon into its batch
  (KIP-534). The first pass at or after that time removes it. A transaction marker is treated
  likewise once no record of its transaction is left; until then it is kept.
- The caller replaces segments one by one, oldest first. After a crash in between, the records that
  a tombstone deletes are removed before the tombstone is.

Segments are not merged. Memory holds the keys, and one batch. Where segments are stored and how
they are replaced is not known here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Generic, Protocol, TypeVar

from quorate.codecs.batches import Batch, BatchHeader, BatchProblem, BatchRecord, encode_like
from quorate.codecs.log.model import LogError
from quorate.codecs.log.transactions import TransactionIndex, Transactions

T = TypeVar("T")

_MANY_RECORDS = 2_000
"""More than a few milliseconds of work; 300,000 take a second."""


class ClosedSegment(Protocol):
    """A segment that is no longer written to."""

    @property
    def base_offset(self) -> int:
        """The offset at which it begins."""

    @property
    def place(self) -> str:
        """Its file, or another text that identifies it in messages."""

    def batches(self) -> Iterator[Batch]:
        """Return its batches in order."""


class BatchWork(Generic[T]):
    """The work of a pass on one batch.

    If `large` (judged by the header), `run` may be called in another thread while the pass waits.
    """

    __slots__ = ("_error", "_function", "_result", "large")

    def __init__(self, header: BatchHeader, function: Callable[[], T]) -> None:
        self.large = header.count is None or header.count > _MANY_RECORDS or header.compression != "none"
        self._function: Callable[[], T] | None = function
        self._result: T | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        """Do the work, once."""
        function, self._function = self._function, None
        if function is None:
            return
        try:
            self._result = function()
        except Exception as error:  # noqa: BLE001  # the pass raises it
            self._error = error

    def result(self) -> T | None:
        """Return the result, after doing the work if necessary. Raises `LogError`."""
        self.run()
        if self._error is not None:
            raise self._error
        return self._result


class Cleaning:
    """One pass: `scan` all batches first, then clean each of `segments`, in the order of the log.

    `retain` selects batches whose header stays even without records, because it has the last
    sequence number of their producer. `records_read` and `records_kept` count records,
    `bytes_read` and `bytes_kept` their batches' bytes.
    """

    def __init__(
        self, *, now_ms: int, tombstone_retention_ms: int, retain: Callable[[Batch], bool] = lambda batch: False
    ) -> None:
        self.segments: Sequence[ClosedSegment] = ()
        self.records_read = self.records_kept = 0
        self.bytes_read = self.bytes_kept = 0
        self._now_ms = now_ms
        self._horizon_ms = now_ms + tombstone_retention_ms
        self._retain = retain
        self._transactions = Transactions()
        self._last: dict[bytes, int] = {}
        self._with_records: set[int] = set()

    def scan(
        self, closed: Sequence[ClosedSegment], newest: Iterable[Batch], newest_base: int
    ) -> Iterator[BatchWork[None] | None]:
        """Find the records to keep, yielding once per batch.

        `newest` has the batches after the closed segments, from `newest_base` on. Raises
        `LogError`.
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
                work = BatchWork(batch.header, partial(self._scan, segment, batch))
                yield work
                work.result()

    def _scan(self, segment: ClosedSegment, batch: Batch) -> None:
        records = _records(segment, batch)
        self.records_read += len(records)
        self.bytes_read += len(batch.data)
        if not batch.header.control and not self._aborted(batch):
            self._last.update((record.key, record.offset) for record in records if record.key is not None)

    def cleaned(self, segment: ClosedSegment) -> Iterator[BatchWork[bytes | None]]:
        """Yield the work that returns each cleaned batch, or `None` if it is removed."""
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
        cleaned = _encoded(batch, len(records), *kept)
        self.records_kept += len(kept[1])
        self.bytes_kept += len(cleaned)
        return cleaned

    def _data(self, batch: Batch, records: list[BatchRecord]) -> tuple[int | None, list[BatchRecord]] | None:
        """Return the delete horizon and the records to keep; `None` if there are none."""
        if self._aborted(batch):
            return None
        horizon = batch.header.delete_horizon_ms
        expired = horizon is not None and horizon <= self._now_ms
        kept = [
            record
            for record in records
            if record.key is not None
            and self._last[record.key] == record.offset
            and not (record.value is None and expired)
        ]
        if not kept:
            return None
        if batch.header.transactional:
            self._with_records.add(batch.header.producer_id)
        if horizon is None and any(record.value is None for record in kept):
            horizon = self._horizon_ms
        return horizon, kept

    def _marker(self, batch: Batch, records: list[BatchRecord]) -> tuple[int | None, list[BatchRecord]] | None:
        """Return the same for a control batch; one that is not a marker is kept."""
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
    """Encode the batch with the kept records; an unchanged batch keeps its bytes."""
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

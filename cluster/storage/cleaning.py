"""Compaction of a partition's log, in memory or in files (`quorate.codecs.log.compaction`).

Closed segments before the first open transaction are compacted, unless they are younger than
`min.compaction.lag.ms`. A log is compacted when the part that was never compacted exceeds
`min.cleanable.dirty.ratio`, or is older than `max.compaction.lag.ms`.
"""

from collections.abc import Generator, Iterator
from typing import Any

from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import NEVER
from quorate.cluster.storage.segment import BatchFacts, LogSegment
from quorate.cluster.storage.stores import FileStore, MemoryStore
from quorate.codecs.batches import Batch, BatchProblem, read_batches
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.log.compaction import BatchWork, Cleaning
from quorate.codecs.log.model import LogError


def _cleanable(log: PartitionLog, now_ms: int) -> list[LogSegment]:
    closed = log.segments[:-1]
    stable = log.last_stable_offset
    found = []
    for segment in closed:
        young = now_ms - segment.max_timestamp_ms < log.config.min_compaction_lag_ms
        if segment.last_offset >= stable or (log.config.min_compaction_lag_ms and young):
            break
        found.append(segment)
    return found


def is_due(log: PartitionLog, now_ms: int) -> bool:
    """Return whether a log should be compacted now (in Kafka: LogToClean).

    Rolls the active segment if it is older than `max.compaction.lag.ms`. Raises `AppendError`.
    """
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms < NEVER and log.active.size and now_ms - log.active.first_timestamp_ms > lag_ms:
        log.roll(now_ms)
    cleanable = _cleanable(log, now_ms)
    dirty = [one for one in cleanable if one.last_offset >= log.first_dirty_offset and one.size]
    if not dirty:
        return False
    if lag_ms < NEVER and now_ms - dirty[0].first_timestamp_ms > lag_ms:
        return True
    total = sum(one.size for one in cleanable)
    return sum(one.size for one in dirty) > log.config.min_cleanable_dirty_ratio * total


@dataclass(frozen=True, slots=True)
class _Closed:
    """A closed segment, for `Cleaning`."""

    segment: LogSegment

    @property
    def base_offset(self) -> int:
        return self.segment.base_offset

    @property
    def place(self) -> str:
        return f"segment {self.base_offset}"

    def batches(self) -> Iterator[Batch]:
        position = 0
        for batch in _read(self.segment):
            position += len(batch.data)
            yield batch
        if position < self.segment.size:
            raise _damaged(self.segment, position, "the following bytes are no batch")


def _read(segment: LogSegment) -> Iterator[Batch]:
    for one in segment.batches():
        batch = next(read_batches(one.data))
        if isinstance(batch, BatchProblem):
            raise _damaged(segment, segment.position_of(one.base_offset), batch.detail)
        yield batch


def _damaged(segment: LogSegment, position: int, detail: str) -> LogError:
    return LogError(f"segment {segment.base_offset}, position {position:,}: {detail}; restore the file from a copy")


def clean(log: PartitionLog, *, now_ms: int) -> Generator[BatchWork[Any] | None, None, Cleaning | None]:
    """Compact a log in steps, between which it may be written to.

    Each step yields work that the caller may run elsewhere, or `None`. Work that the caller has not
    run is run here. Returns the finished pass, or `None` if it stops early, because the oldest
    segments are deleted meanwhile, or a coordinator begins to load the log: it would miss records
    whose tombstones are removed. Raises `LogError` and `OSError`.
    """
    closed = _cleanable(log, now_ms)
    if not closed or _must_stop(log, closed):
        return None
    following = log.segments[len(closed) :]
    cleaning = Cleaning(
        now_ms=now_ms, tombstone_retention_ms=log.config.delete_retention_ms, retain=lambda batch: _is_last(log, batch)
    )
    newest = (batch for segment in following for batch in _read(segment))
    for step in cleaning.scan([_Closed(one) for one in closed], newest, following[0].base_offset):
        yield step
        if _must_stop(log, closed):
            return None
    for one in cleaning.segments:
        assert isinstance(one, _Closed)
        store = MemoryStore() if log.files is None else log.files.cleaned(one.segment)
        cleaned = LogSegment(
            one.base_offset, store, created_ms=one.segment.created_ms, interval_bytes=one.segment.interval_bytes
        )
        for batch in cleaning.cleaned(one):
            yield batch
            data = batch.result()
            if data is not None:
                facts = BatchFacts.of(data)
                cleaned.append(data, facts.last_offset, facts.max_timestamp_ms)
            if _must_stop(log, closed):
                _discard(log, cleaned)
                return None
        if isinstance(store, FileStore) and log.files is not None:  # flush the new segment before it replaces the old
            try:
                log.files.unseal_on_disk(log, one.segment)
                if cleaned.size:
                    store.sync()
            except OSError:
                _discard(log, cleaned)
                raise
        _put(log, one.segment, cleaned)
    log.first_dirty_offset = max(log.first_dirty_offset, following[0].base_offset)
    return cleaning


def _must_stop(log: PartitionLog, closed: list[LogSegment]) -> bool:
    """Return whether segments were deleted, or the log is being loaded."""
    return log.loading > 0 or log.segments[0].base_offset != closed[0].base_offset


def _is_last(log: PartitionLog, batch: Batch) -> bool:
    """Return whether a batch is the last of an active producer.

    Its producer epoch and sequence must not be lost (KIP-98).
    """
    header = batch.header
    producer = log.producers.by_id.get(header.producer_id)
    return (
        producer is not None
        and bool(producer.batches)
        and producer.batches[-1].last_offset == header.base_offset + header.last_offset_delta
    )


def _put(log: PartitionLog, old: LogSegment, cleaned: LogSegment) -> None:
    """Replace a segment with its compacted one.

    An empty segment is deleted, except the first: compaction does not change where the log starts.
    """
    place = log.segments.index(old)
    cleaned.last_offset = max(cleaned.last_offset, cleaned.base_offset - 1)
    cleaned.close_time_index()
    gone = not cleaned.size and place > 0
    if log.files is not None:
        if gone:
            _discard(log, cleaned)
            old.store.delete()
            log.files.delete_segment(old.base_offset)
        else:
            aborted = [
                one for one in log.producers.aborted if old.base_offset <= one.last_offset <= cleaned.last_offset
            ]
            log.files.replace_segment(old, cleaned, aborted)
            log.files.seal(cleaned)
    log.replace_segments([*log.segments[:place], *([] if gone else [cleaned]), *log.segments[place + 1 :]])
    if log.files is not None:
        log.files.write_checksums(log)


def _discard(log: PartitionLog, cleaned: LogSegment) -> None:
    if log.files is not None:
        log.files.tidy()
    cleaned.store.delete()

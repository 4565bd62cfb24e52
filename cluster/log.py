"""`PartitionLog`: the log of one partition, in memory or in a folder.

It stores batches as producers sent them (`quorate.cluster.batch_validation`), with offsets assigned
by the broker. `quorate.cluster.producers` checks sequences and epochs (KIP-98). All replicas of a
partition share one log, so its high watermark is its end.

The module is longer than others, because append, delete, compact and flush must agree on the same
few offsets.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from quorate.cluster.batch_validation import assign_offset, check_batch
from quorate.cluster.epochs import end_offset_for, truncate_start, with_epoch
from quorate.cluster.log_config import LogConfig
from quorate.cluster.producers import Producers
from quorate.cluster.storage.files import AbortedTransaction
from quorate.cluster.storage.segment import BatchFacts, LogSegment, StoredBatch
from quorate.cluster.storage.stores import FileStore, MemoryStore
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.writer import encode_marker
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.log import AppendError

if TYPE_CHECKING:
    from quorate.cluster.storage.log_files import LogFiles

__all__ = ["Appended", "Fetched", "PartitionLog", "StoredBatch"]


@dataclass(slots=True)
class Appended:
    """The result of an append.

    `timestamp_ms`: log-append time; for a duplicate, the timestamp of the original batch, as in
    Kafka; else -1.
    """

    base_offset: int
    timestamp_ms: int = -1
    duplicate: bool = False


@dataclass(slots=True)
class Fetched:
    """Whole batches from a log.

    `looked_until`: the offset up to which brokers search for aborted transactions: the next entry
    of the offset index, or the log end; -1 if they do not search.
    """

    records: bytes
    looked_until: int


class PartitionLog:
    """The log of one partition.

    It contains offsets from `start_offset` to `next_offset`, exclusive. `waiting`: callbacks for
    appended data. `loading`: number of coordinators that are loading the log, whose segments are
    then neither deleted nor compacted.

    `files`: the files of the log; `None` if it is in memory. `flushed_offset`: the first offset
    that may not be on disk. `on_unflushed`: called after a write that is not flushed. `on_failure`:
    called with the reason of a failed write.
    """

    def __init__(self, config: LogConfig | None = None, files: "LogFiles | None" = None, *, now_ms: int = 0) -> None:
        self.config = config or LogConfig()
        self.files = files
        self.segments: list[LogSegment] = []
        self._bases: list[int] = []
        self.start_offset = 0
        self.next_offset = 0
        self.flushed_offset = 0
        self.first_dirty_offset = 0
        self.producers = Producers()
        self.epochs: list[tuple[int, int]] = []
        self.waiting: dict[Callable[[], object], None] = {}  # called in this order
        self.loading = 0
        self.on_unflushed: Callable[[PartitionLog], object] | None = None
        self.on_failure: Callable[[str], object] | None = None
        self._unflushed = 0  # records
        if files is None:
            self.add_segment(LogSegment(0, MemoryStore(), created_ms=now_ms))

    # ---- segments

    def add_segment(self, segment: LogSegment) -> None:
        """Add a segment at the end."""
        segment.interval_bytes = self.config.index_interval_bytes
        self.segments.append(segment)
        self._bases.append(segment.base_offset)

    def replace_segments(self, segments: list[LogSegment]) -> None:
        """Replace the segments, after some were deleted or compacted."""
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]

    @property
    def active(self) -> LogSegment:
        """The active segment, to which batches are appended."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.size for segment in self.segments)

    def roll(self, now_ms: int) -> None:
        """Roll a new segment, unless the active one is empty.

        Raises `AppendError` if it cannot be written.
        """
        if self.active.size:
            try:
                self._roll(now_ms)
            except OSError as error:
                raise self._cannot_write(error) from None

    def _roll(self, now_ms: int) -> None:
        old = self.active
        if self.files is None:
            self.add_segment(LogSegment(self.next_offset, MemoryStore(), created_ms=now_ms))
        else:
            self.add_segment(self.files.new_segment(self.next_offset, now_ms))
        old.close_time_index()
        if self.files is not None:
            self.files.write_indexes(old)
            self.files.write_producers(self.next_offset, self.producers)
            self.files.seal(old)
            self.files.write_checksums(self)

    # ---- reading

    @property
    def high_watermark(self) -> int:
        """The end of the log, as all replicas share it."""
        return self.next_offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the earliest open transaction, else the end of the log (KIP-98).

        Of a transaction from before the log start offset, it is the base offset of the first batch.
        That can be before the log start offset, too, as in Kafka since 4.0.
        """
        if not self.producers.open:
            return self.next_offset
        first = min(self.next_offset, *self.producers.open.values())
        return first if first >= self.start_offset else self._base_offset_of(self.start_offset)

    def _base_offset_of(self, offset: int) -> int:
        """Return the base offset of the batch with an offset, or the end of the log."""
        for segment in self.segments[max(bisect_right(self._bases, offset) - 1, 0) :]:
            batch = next(segment.batches(segment.position_of(offset)), None)
            if batch is not None:
                return batch.base_offset
        return self.next_offset

    def read(self, offset: int, max_bytes: int, *, until: int, at_least_one: bool) -> Fetched:
        """Read whole batches of one segment, from the one with `offset`, up to `max_bytes`.

        Only batches that end before `until` are read. With `at_least_one`, the first batch may
        exceed `max_bytes` (KIP-74).
        """
        if offset >= until:
            return Fetched(b"", -1)
        for index in range(max(bisect_right(self._bases, offset) - 1, 0), len(self.segments)):
            segment = self.segments[index]
            if segment.base_offset >= until:
                break
            position = segment.position_of(offset)
            stop = segment.size if segment.last_offset < until else segment.position_of(until)
            if position >= segment.size:
                continue
            found = segment.read(position, stop, max_bytes, at_least_one=at_least_one) if position < stop else b""
            end = position + len(found)
            looked_until = segment.entry_from(end)
            if looked_until is None:
                looked_until = self._bases[index + 1] if index + 1 < len(self._bases) else self.next_offset
            return Fetched(found, looked_until)
        return Fetched(b"", -1)

    def aborted_between(self, first: int, until: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of aborted transactions, as in a fetch response."""
        return self.producers.aborted_between(first, until)

    def offset_for(self, timestamp_ms: int, *, until: int) -> StoredBatch | None:
        """Return the first batch with a record at or after a time.

        As in Kafka, only the first segment with such a timestamp is searched, even if the record
        was deleted.
        """
        for segment in self.segments:
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            for batch in segment.batches(segment.time_entry(timestamp_ms)):
                if batch.base_offset >= until:
                    return None
                if batch.max_timestamp_ms >= timestamp_ms and batch.last_offset >= self.start_offset:
                    return batch
            return None
        return None

    def greatest_timestamp(self) -> StoredBatch | None:
        """Return the first batch with the maximum timestamp."""
        newest = max(self.segments, key=lambda segment: segment.max_timestamp_ms)
        if newest.max_timestamp_ms < 0:
            return None
        return next(newest.batches(newest.position_of(newest.max_timestamp_offset)), None)

    def end_of_epoch(self, epoch: int, current: int) -> tuple[int, int]:
        """Return the largest leader epoch up to `epoch` and its end offset.

        (-1, -1) for an epoch after `current`, the partition's leader epoch.
        """
        return end_offset_for(with_epoch(self.epochs, current, self.next_offset), epoch, self.next_offset)

    def epoch_of(self, offset: int, current: int) -> int:
        """Return the leader epoch of an offset, -1 if unknown.

        `current`: the partition's leader epoch, in which new records are written.
        """
        epochs = with_epoch(self.epochs, current, self.next_offset)
        return next((epoch for epoch, start in reversed(epochs) if start <= offset), -1)

    def __iter__(self) -> Iterator[StoredBatch]:
        """Yield all batches, oldest first, without those appended during the iteration."""
        end = self.next_offset
        for segment in list(self.segments):
            for batch in segment.batches():
                if batch.base_offset >= end:
                    return
                if batch.last_offset >= self.start_offset:
                    yield batch

    # ---- appending

    def append(
        self,
        data: bytes,
        facts: BatchFacts | None = None,
        *,
        leader_epoch: int,
        now_ms: int,
        append_time: bool | None = None,
        max_batch_bytes: int | None = None,
    ) -> Appended:
        """Append the batch of a produce request.

        `facts`: the result of `check_batch`, if it was called. `append_time`, `max_batch_bytes`:
        override the log's configs.

        Raises `AppendError`.
        """
        if facts is None:
            facts = check_batch(data, self.config.max_message_bytes if max_batch_bytes is None else max_batch_bytes)
        if facts.producer_id >= 0:
            if (known := self.producers.known(facts)) is not None:
                return Appended(known.base_offset, known.timestamp_ms, duplicate=True)
            self.producers.check(facts)
        count = facts.last_offset - facts.base_offset
        facts.base_offset = self.next_offset
        facts.last_offset = facts.base_offset + count
        facts.leader_epoch = leader_epoch
        stamped = self.config.append_time if append_time is None else append_time
        if stamped:
            facts.max_timestamp_ms = now_ms
        placed = assign_offset(
            data, facts.base_offset, leader_epoch, now_ms if stamped else None, facts.max_timestamp_ms
        )
        self._add(facts, placed, now_ms)
        return Appended(facts.base_offset, now_ms if stamped else -1)

    def append_own(self, data: bytes, now_ms: int) -> None:
        """Append a batch of the broker itself, whose offsets begin at `next_offset`.

        Raises `AppendError`.
        """
        if len(data) > self.config.max_message_bytes:
            raise AppendError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(data)} bytes")
        self._add(BatchFacts.of(data), data, now_ms)

    def append_marker(
        self,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        now_ms: int,
        leader_epoch: int,
        coordinator_epoch: int = 0,
    ) -> int:
        """Append the marker of a transaction; return its offset. Raises `AppendError`."""
        data = encode_marker(
            commit=commit,
            offset=self.next_offset,
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            partition_leader_epoch=leader_epoch,
        )
        if self.config.append_time:
            data = assign_offset(data, self.next_offset, leader_epoch, now_ms)
        facts = BatchFacts.of(data)
        self._write(facts, data, now_ms, None if commit else self.producers.aborted_by(facts))
        self.producers.take_marker(facts, commit=commit, coordinator_epoch=coordinator_epoch)
        self._notify()
        return facts.base_offset

    def _add(self, facts: BatchFacts, data: bytes, now_ms: int) -> None:
        self._write(facts, data, now_ms)
        if facts.producer_id >= 0:
            self.producers.take(facts)
        self._notify()

    def _write(self, facts: BatchFacts, data: bytes, now_ms: int, aborted: AbortedTransaction | None = None) -> None:
        """Write a batch completely or not at all, and flush if due; does not change `producers`.

        `aborted`: the transaction that the batch aborts.
        """
        config = self.config
        unflushed = self._unflushed + facts.last_offset - facts.base_offset + 1
        sync = self._sync if self.files is not None and unflushed >= config.flush_messages else None
        begins_epoch = not self.epochs or self.epochs[-1][0] < facts.leader_epoch
        epochs = [*self.epochs, (facts.leader_epoch, facts.base_offset)] if begins_epoch else self.epochs
        try:
            active = self.active
            if active.must_roll(
                len(data),
                facts.last_offset,
                facts.max_timestamp_ms,
                now_ms,
                most=config.segment_bytes,
                roll_ms=config.segment_ms,
            ):
                self._roll(now_ms)
                active = self.active
            if not active.size:
                active.created_ms = now_ms
            if self.files is not None:  # before the batch: without it, these entries have no effect
                if begins_epoch:
                    self.files.write_epochs(epochs)
                    self.files.write_checksums(self, epochs)
                if aborted is not None:
                    self.files.add_aborted(active, aborted, self.producers.aborted_from(active.base_offset))
            active.append(data, facts.last_offset, facts.max_timestamp_ms, sync)
        except OSError as error:
            if aborted is not None and self.files is not None:
                self.files.cut_aborted(self.active, self.producers.aborted_from(self.active.base_offset))
            raise self._cannot_write(error) from None
        self.next_offset = facts.last_offset + 1
        self.epochs = epochs
        if self.files is None:
            return
        self.files.appended(active)
        if sync is not None:
            self._unflushed, self.flushed_offset = 0, self.next_offset
            return
        self._unflushed = unflushed
        if self.on_unflushed is not None:
            self.on_unflushed(self)

    def _notify(self) -> None:
        for listener in list(self.waiting):
            listener()

    # ---- deleting

    def delete_before(self, offset: int) -> None:
        """Advance the start offset, and delete segments before it (DeleteRecords, KIP-107).

        Raises `AppendError`.
        """
        if offset <= self.start_offset:
            return
        was, self.start_offset = self.start_offset, offset
        try:
            if self.files is not None:
                self.files.start_offset_changed(self)
        except OSError as error:  # else deleted records would reappear after a restart
            self.start_offset = was
            raise self._cannot_write(error) from None
        try:
            if offset >= self.next_offset and self.active.size:
                self._roll(self.active.created_ms)
            ends = self._bases[1:]
            self.drop([one for one, following in zip(self.segments, ends, strict=False) if following <= offset])
        except OSError as error:
            raise self._cannot_write(error) from None

    def drop(self, segments: list[LogSegment]) -> None:
        """Delete the oldest segments, which must not include the active one."""
        if not segments:
            return
        left = self.segments[len(segments) :]
        assert left
        assert segments == self.segments[: len(segments)]
        self.replace_segments(left)
        self.start_offset = max(self.start_offset, left[0].base_offset)
        self.first_dirty_offset = max(self.first_dirty_offset, left[0].base_offset)
        self.producers.forget_aborted(left[0].base_offset)
        self.epochs = truncate_start(self.epochs, self.start_offset)
        if self.files is not None:
            self.files.dropped(self, segments)

    # ---- disk

    def flush(self) -> None:
        """Flush all written data to disk. Raises `AppendError`."""
        if self.files is None or self.files.deleted or self.flushed_offset >= self.next_offset:
            return
        try:
            self._sync()
        except OSError as error:
            raise self._cannot_write(error) from None
        self._unflushed, self.flushed_offset = 0, self.next_offset

    def _sync(self) -> None:
        assert self.files is not None
        for segment in self.segments[max(bisect_right(self._bases, self.flushed_offset) - 1, 0) :]:
            assert isinstance(segment.store, FileStore)
            segment.store.sync()
            self.files.sync_aborted(segment)  # else aborted records would look committed
        self.files.sync_folders()

    def close(self) -> None:
        """Flush, and write indexes and producer state, so that no recovery is needed.

        Raises `AppendError`.
        """
        self.flush()
        if self.files is not None:
            try:
                self.active.close_time_index()
                self.files.write_indexes(self.active)
                if self.next_offset > self.start_offset or self.producers.by_id:
                    self.files.write_producers(self.next_offset, self.producers)
                    self.files.seal(self.active)
                    self.files.write_checksums(self)
            except OSError as error:
                raise self._cannot_write(error) from None

    def _cannot_write(self, error: OSError) -> AppendError:
        if self.files is not None and self.files.deleted:
            return AppendError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted")
        why = f"the log cannot be written: {error.strerror or error}"
        if self.on_failure is not None and self.files is not None:
            self.on_failure(f"{self.files.home}: {why}")
        return AppendError(ErrorCode.KAFKA_STORAGE_ERROR, why)

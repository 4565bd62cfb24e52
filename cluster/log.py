"""`PartitionLog`: the batches of one partition, as producers sent them, with the offsets that the broker gives; in memory, or in a folder.

Batches stay bytes (`quorate.cluster.batch_validation`). What a producer may append, and when, is decided
there and in `quorate.cluster.producers` (KIP-98). All replicas of a partition share one log, so its
high watermark is its end.

A little longer than a module should be: what is appended, deleted, compacted and flushed has to
agree on the same few numbers.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quorate.cluster.batch_validation import check_batch, in_place
from quorate.cluster.epochs import begun_at, end_of, up_to
from quorate.cluster.log_config import LogConfig
from quorate.cluster.producers import Producers
from quorate.cluster.storage.files import AbortedTransaction
from quorate.cluster.storage.segment import BatchFacts, LogSegment, StoredBatch
from quorate.cluster.storage.stores import FileStore, MemoryStore
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches.writer import encode_marker
from quorate.coordinator.log import AppendError

if TYPE_CHECKING:
    from quorate.cluster.storage.log_files import LogFiles

__all__ = ["Appended", "Fetched", "PartitionLog", "StoredBatch"]


@dataclass(slots=True)
class Appended:
    """Where a batch is.

    `timestamp_ms`: the broker's, with log-append time; of one that came before its own, as Kafka
    has it; else -1.
    """

    base_offset: int
    last_offset: int
    timestamp_ms: int = -1
    duplicate: bool = False


@dataclass(slots=True)
class Fetched:
    """Whole batches, and how far brokers look for transactions that were aborted: to the next entry of the index behind them, or the end of the log; -1: nowhere."""

    records: bytes
    looked_until: int


class PartitionLog:
    """The log of one partition.

    Offsets begin at `start_offset` and go up to `next_offset`, excluded. `waiting`: called whenever
    something is appended.

    `files`: where it is on the disk; without, it is in memory. `flushed_offset`: what is before it
    is on the disk for sure. `on_unflushed`: called when something was written that need not be on
    the disk yet; `on_failure`: receives why nothing can be written.
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
        self.waiting: set[Callable[[], object]] = set()
        self.on_unflushed: Callable[[PartitionLog], object] | None = None
        self.on_failure: Callable[[str], object] | None = None
        self._unflushed = 0  # records
        if files is None:
            self.add_segment(LogSegment(0, MemoryStore(), created_ms=now_ms))

    # ---- segments

    def add_segment(self, segment: LogSegment) -> None:
        """A segment behind the others."""
        segment.interval_bytes = self.config.index_interval_bytes
        self.segments.append(segment)
        self._bases.append(segment.base_offset)

    def replace_segments(self, segments: list[LogSegment]) -> None:
        """Other segments than before: some were deleted or compacted."""
        self.segments = segments
        self._bases = [one.base_offset for one in segments]

    @property
    def active(self) -> LogSegment:
        """The segment that is written to."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return sum(one.size for one in self.segments)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless nothing is in this one.

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

    # ---- what consumers may see

    @property
    def high_watermark(self) -> int:
        """All replicas have everything."""
        return self.next_offset

    @property
    def last_stable_offset(self) -> int:
        """Where the first open transaction begins (KIP-98)."""
        if not self.producers.open:
            return self.next_offset
        return max(min(self.next_offset, *self.producers.open.values()), self.start_offset)

    def read(self, offset: int, max_bytes: int, *, until: int, at_least_one: bool) -> Fetched:
        """Whole batches from the one that has `offset` on, up to `max_bytes`, of those that end before `until`; as in Kafka, of one segment.

        The first one is given even if it is larger, with `at_least_one` (KIP-74).
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
            behind = segment.entry_from(end)
            if behind is None:
                behind = self._bases[index + 1] if index + 1 < len(self._bases) else self.next_offset
            return Fetched(found, behind)
        return Fetched(b"", -1)

    def aborted_between(self, first: int, until: int) -> list[tuple[int, int]]:
        """Producer id and first offset of the transactions that were aborted in a range of offsets, as a fetch response has them."""
        return self.producers.aborted_between(first, until)

    def offset_for(self, timestamp_ms: int, *, until: int) -> StoredBatch | None:
        """The first batch with a record at or after a time.

        As brokers do, only the first segment with such a time is looked at, even if the record was
        deleted.
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
        """The batch with the latest timestamp, the first of them."""
        newest = max(self.segments, key=lambda one: one.max_timestamp_ms)
        if newest.max_timestamp_ms < 0:
            return None
        return next(newest.batches(newest.position_of(newest.max_timestamp_offset)), None)

    def end_of_epoch(self, epoch: int, led: int) -> tuple[int, int]:
        """The largest leader epoch up to `epoch`, and where it ended; (-1, -1) for an epoch later than `led`, in which the log is led now."""
        return end_of(up_to(self.epochs, led, self.next_offset), epoch, self.next_offset)

    def epoch_of(self, offset: int, led: int) -> int:
        """The leader epoch that an offset was or will be written in, if the log is led in `led` now; -1 if that is not known."""
        return next(
            (epoch for epoch, start in reversed(up_to(self.epochs, led, self.next_offset)) if start <= offset), -1
        )

    def __iter__(self) -> Iterator[StoredBatch]:
        """All batches, oldest first; those that are appended meanwhile are left out."""
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
        """Take the one batch of a produce request; `facts`: of it, if `check_batch` has said them; `append_time` and `max_batch_bytes` as the log's settings have them, unless said.

        Raises `AppendError`.
        """
        if facts is None:
            facts = check_batch(data, self.config.max_message_bytes if max_batch_bytes is None else max_batch_bytes)
        if facts.producer_id >= 0:
            if (known := self.producers.known(facts)) is not None:
                return Appended(known.base_offset, known.last_offset, known.timestamp_ms, duplicate=True)
            self.producers.check(facts)
        count = facts.last_offset - facts.base_offset
        facts.base_offset = self.next_offset
        facts.last_offset = facts.base_offset + count
        facts.leader_epoch = leader_epoch
        stamped = self.config.append_time if append_time is None else append_time
        if stamped:
            facts.max_timestamp_ms = now_ms
        placed = in_place(data, facts.base_offset, leader_epoch, now_ms if stamped else None, facts.max_timestamp_ms)
        self._add(facts, placed, now_ms)
        return Appended(facts.base_offset, facts.last_offset, now_ms if stamped else -1)

    def append_own(self, data: bytes, now_ms: int) -> None:
        """Take a batch that the broker itself made, whose offsets are `next_offset` and on.

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
        """End a producer's transaction; returns the marker's offset. Raises `AppendError`."""
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
            data = in_place(data, self.next_offset, leader_epoch, now_ms)
        facts = BatchFacts.of(data)
        self._write(facts, data, now_ms, None if commit else self.producers.aborted_by(facts))
        self.producers.take_marker(facts, commit=commit, coordinator_epoch=coordinator_epoch)
        self._tell()
        return facts.base_offset

    def _add(self, facts: BatchFacts, data: bytes, now_ms: int) -> None:
        self._write(facts, data, now_ms)
        if facts.producer_id >= 0:
            self.producers.take(facts)
        self._tell()

    def _write(self, facts: BatchFacts, data: bytes, now_ms: int, aborted: AbortedTransaction | None = None) -> None:
        """Everything of a batch, or nothing, to the disk where that is due: what is known of producers is not changed yet.

        `aborted`: the transaction that it ends so.
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
            if self.files is not None:  # first, as what they say of a batch that is not there counts for nothing
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

    def _tell(self) -> None:
        for listener in list(self.waiting):
            listener()

    # ---- what goes

    def delete_before(self, offset: int) -> None:
        """The oldest records may go (DeleteRecords, KIP-107): segments that have only such go at once.

        Raises `AppendError`.
        """
        if offset <= self.start_offset:
            return
        was, self.start_offset = self.start_offset, offset
        try:
            if self.files is not None:
                self.files.start_offset_changed(self)
        except OSError as error:  # what is deleted would be there again after a restart
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
        """Some of the oldest segments go, not the one that is written to."""
        if not segments:
            return
        left = self.segments[len(segments) :]
        assert left
        assert segments == self.segments[: len(segments)]
        self.replace_segments(left)
        self.start_offset = max(self.start_offset, left[0].base_offset)
        self.first_dirty_offset = max(self.first_dirty_offset, left[0].base_offset)
        self.producers.forget_aborted(left[0].base_offset)
        self.epochs = begun_at(self.epochs, self.start_offset)
        if self.files is not None:
            self.files.dropped(self, segments)

    # ---- the disk

    def flush(self) -> None:
        """Bring what was written to the disk. Raises `AppendError`."""
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
            self.files.sync_aborted(segment)  # without them aborted records would be taken for committed
        self.files.sync_folders()

    def close(self) -> None:
        """Stop writing in order: everything is on the disk, with indexes and producers, and nothing has to be recovered.

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

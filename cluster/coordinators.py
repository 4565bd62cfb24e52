"""The embedded cluster as host of coordinators: partitions, logs, clock and turns.

Coordinators append real batches to a real topic. When a partition's leader changes, the coordinator
on the new leader loads the log, as in Kafka.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic

from quorate.cluster.clock import Handle
from quorate.cluster.log import PartitionLog
from quorate.cluster.services import Services
from quorate.cluster.storage.file_log import blocks_of
from quorate.cluster.topics import PartitionState
from quorate.cluster.turns import turn_of_timers
from quorate.codecs import CoordinatorRecord, LogError
from quorate.codecs.batches import BatchProblem, read_batches
from quorate.coordinator.log import StoredMarker, StoredRecord, batch_of, in_batches, stored_in
from quorate.coordinator.partition_runtime import S
from quorate.coordinator.partitioning import partition_for

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = ["PartitionCoordinatorLog", "TopicHost"]

_WORTH_COLUMNS_BYTES = 1 << 20


class PartitionCoordinatorLog:
    """A `CoordinatorLog` in the log of a partition.

    `base_sequence`: that of batches; group coordinators write 0, with and without a producer id,
    transaction coordinators -1. `coordinator_epoch`: the transaction coordinator's epoch, for
    markers.
    """

    def __init__(self, partition: PartitionState, *, base_sequence: int = 0) -> None:
        self.partition = partition
        self.base_sequence = base_sequence
        self.coordinator_epoch = 0

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        """Append one batch; return the offset of its first record. Raises `AppendError`."""
        log = self.partition.log
        first = log.next_offset
        data = batch_of(
            records,
            first_offset=first,
            timestamp_ms=timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            leader_epoch=self.partition.leader_epoch,
            base_sequence=self.base_sequence,
        )
        log.append_own(data, timestamp_ms)
        return first

    def parts(self, records: Sequence[CoordinatorRecord]) -> Iterable[Sequence[CoordinatorRecord]]:
        """Split records into batches of at most the topic's `max.message.bytes`."""
        return in_batches(records, self.partition.log.config.max_message_bytes)

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Append a transaction marker; return its offset. Raises `AppendError`."""
        return self.partition.log.append_marker(
            producer_id,
            producer_epoch,
            commit=commit,
            now_ms=timestamp_ms,
            leader_epoch=self.partition.leader_epoch,
            coordinator_epoch=self.coordinator_epoch,
        )

    def read(self) -> Iterator[StoredRecord | StoredMarker]:
        """Yield all records and markers, oldest first. Raises `LogError` for a damaged batch."""
        place = f"{self.partition.topic}-{self.partition.index}"
        with _loading(self.partition.log):
            for stored in self.partition.log:
                batch = next(read_batches(stored.data))
                if isinstance(batch, BatchProblem):
                    raise LogError(
                        f"{place}, offset {stored.base_offset:,}: {batch.detail}; "
                        "restore the partition's folder from a copy"
                    )
                yield from stored_in(batch, topic=self.partition.topic, place=place)

    def blocks(self) -> Iterator["RawBlock"] | None:
        """Return the log as columns, or `None` if it is in memory or too small for that."""
        log = self.partition.log
        if log.files is None or log.size_bytes < _WORTH_COLUMNS_BYTES or log.start_offset > log.segments[0].base_offset:
            return None
        if blocks_of(self.partition.topic, self.partition.index, ()) is None:
            return None
        return self._held_blocks()

    def _held_blocks(self) -> Iterator["RawBlock"]:
        """Yield the log as columns; its segments are those of when the first block is read."""
        log = self.partition.log
        assert log.files is not None
        with _loading(log):
            segments = [(log.files.path(segment), segment.size) for segment in log.segments]
            yield from blocks_of(self.partition.topic, self.partition.index, segments) or ()


@contextmanager
def _loading(log: PartitionLog) -> Iterator[None]:
    """Keep the segments of a log as they are, while it is read in several turns."""
    log.loading += 1
    try:
        yield
    finally:
        log.loading -= 1


class TopicHost(Generic[S]):
    """The host (`quorate.coordinator.runtime.Host`) of the coordinators of one internal topic.

    `what`: "groups" or "transactions", for messages. `loads_all`: leaders load logs before the
    first request. `base_sequence`: that of batches.
    """

    def __init__(
        self,
        services: Services,
        topic: str,
        what: str,
        new_shard: Callable[[PartitionState], S],
        *,
        loads_all: bool = False,
        base_sequence: int = 0,
    ) -> None:
        self._services = services
        self.topic = topic
        self.what = what
        self._new_shard = new_shard
        self._loads_all = loads_all
        self._base_sequence = base_sequence

    def partition_for(self, key: str) -> PartitionState | None:
        """Return the partition of a group or transactional id; `None` without the topic."""
        partitions = self.partitions()
        return partitions[partition_for(key, len(partitions))] if partitions else None

    def partitions(self) -> Sequence[PartitionState]:
        """Return the topic's partitions, by index; none while it does not exist."""
        topic = self._services.state.topics.get(self.topic)
        return () if topic is None else topic.partitions

    def new_shard(self, partition: PartitionState) -> S:
        """Return an empty shard."""
        return self._new_shard(partition)

    def log(self, partition: PartitionState) -> PartitionCoordinatorLog:
        """Return a partition's log."""
        return PartitionCoordinatorLog(partition, base_sequence=self._base_sequence)

    def loads_early(self, partition: PartitionState) -> bool:
        """Return whether to load a log before the first request; empty logs are not loaded."""
        return self._loads_all and partition.log.next_offset > 0

    def unreadable(self, partition: PartitionState, error: Exception) -> None:
        """Report a log that cannot be loaded."""
        self._services.reports.note(
            f"the {self.what} of {partition.topic}-{partition.index} have no coordinator: {error}"
        )

    def now_ms(self) -> int:
        """Return the current time in ms."""
        return self._services.clock.now_ms()

    def stepped_ms(self) -> int:
        """Return how far the clock has been set, in ms."""
        return self._services.clock.stepped_ms

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` at a time."""
        return self._services.clock.call_at(at_ms, action)

    def turn(self) -> Callable[[], bool]:
        """Begin a turn in which timers fire; the result returns whether it is over."""
        return turn_of_timers()

    def run_work(
        self,
        work: Generator[None, None, None],
        done: Callable[[Any], object],
        failed: Callable[[BaseException], object],
    ) -> bool:
        """Run long work in turns."""
        return self._services.turns.run(work, done, failed)

    def task_failed(self, error: BaseException) -> None:
        """Report an internal error of a coordinator."""
        self._services.reports.failed("a coordinator's task", error)

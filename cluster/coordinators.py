"""What a cluster gives the coordinators of its internal topics: partitions, their logs, its clock and turns.

What a coordinator appends are real batches in a real topic. When the partition's leader moves, the
coordinator there loads the log, as Kafka's does.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic

from quorate.cluster.clock import Handle
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

    `base_sequence`: of the batches; group coordinators write 0, with and without a producer,
    transaction coordinators -1. `coordinator_epoch`: that of the transaction coordinator, for the
    markers that it has written.
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
        """Write one batch; returns the offset of its first record. Raises `AppendError`."""
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
        """The records in batches of at most the topic's `max.message.bytes`."""
        return in_batches(records, self.partition.log.config.max_message_bytes)

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Write the end of a transaction; returns its offset. Raises `AppendError`."""
        return self.partition.log.append_marker(
            producer_id,
            producer_epoch,
            commit=commit,
            now_ms=timestamp_ms,
            leader_epoch=self.partition.leader_epoch,
            coordinator_epoch=self.coordinator_epoch,
        )

    def read(self) -> Iterator[StoredRecord | StoredMarker]:
        """Everything, oldest first. Raises `LogError` for damage."""
        place = f"{self.partition.topic}-{self.partition.index}"
        for stored in self.partition.log:
            batch = next(read_batches(stored.data))
            if isinstance(batch, BatchProblem):
                raise LogError(
                    f"{place}, offset {stored.base_offset:,}: {batch.detail}; restore the partition's folder from a copy"
                )
            yield from stored_in(batch, topic=self.partition.topic, place=place)

    def blocks(self) -> Iterator["RawBlock"] | None:
        """The same as columns, where that is worth it: in files, and of some size."""
        log = self.partition.log
        if log.files is None or log.size_bytes < _WORTH_COLUMNS_BYTES or log.start_offset > log.segments[0].base_offset:
            return None
        segments = [(log.files.path(one), one.size) for one in log.segments]
        return blocks_of(self.partition.topic, self.partition.index, segments)


class TopicHost(Generic[S]):
    """The host (`quorate.coordinator.runtime.Host`) of the coordinators of one internal topic.

    `what`: it coordinates, as messages call it; `loads_all`: leaders load logs before anybody asks
    for them; `base_sequence`: of batches.
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
        """The partition that a group or transactional id is in; `None` while the topic does not exist."""
        partitions = self.partitions()
        return partitions[partition_for(key, len(partitions))] if partitions else None

    def partitions(self) -> Sequence[PartitionState]:
        """Those of the topic, by index; none while it does not exist."""
        topic = self._services.state.topics.get(self.topic)
        return () if topic is None else topic.partitions

    def new_shard(self, partition: PartitionState) -> S:
        """A shard that knows nothing yet."""
        return self._new_shard(partition)

    def log(self, partition: PartitionState) -> PartitionCoordinatorLog:
        """A partition's log."""
        return PartitionCoordinatorLog(partition, base_sequence=self._base_sequence)

    def loads_early(self, partition: PartitionState) -> bool:
        """Whether a log is loaded before its coordinator is first asked for something; an empty one never is."""
        return self._loads_all and partition.log.next_offset > 0

    def unreadable(self, partition: PartitionState, error: Exception) -> None:
        """Tell the owner."""
        self._services.reports.note(
            f"the {self.what} of {partition.topic}-{partition.index} have no coordinator: {error}"
        )

    def now_ms(self) -> int:
        """The time."""
        return self._services.clock.now_ms()

    def stepped_ms(self) -> int:
        """How far the clock has been set."""
        return self._services.clock.stepped_ms

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Do something at a time."""
        return self._services.clock.call_at(at_ms, action)

    def turn(self) -> Callable[[], bool]:
        """A turn in which timers fire."""
        return turn_of_timers()

    def run_work(
        self,
        work: Generator[None, None, None],
        done: Callable[[Any], object],
        failed: Callable[[BaseException], object],
    ) -> bool:
        """Do long work in turns."""
        return self._services.turns.run(work, done, failed)

    def task_failed(self, error: BaseException) -> None:
        """Report a fault of ours."""
        self._services.reports.failed("a coordinator's task", error)

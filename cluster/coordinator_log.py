"""A coordinator's log in the log of a partition: real batches, read by records or by columns."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from quorate.cluster.log import PartitionLog
from quorate.cluster.topics import PartitionState
from quorate.codecs import CoordinatorRecord, LogError
from quorate.codecs.batches import BatchProblem, ProblemReason, read_batches
from quorate.codecs.log.files import PartitionFiles, Segment
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.coordinator.log import StoredMarker, StoredRecord, batch_of, in_batches, stored_in

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

REMEDY = "restore the file from a copy, or read the intact batches with read_log(skip_corrupt=True)"


class PartitionCoordinatorLog:
    """A `CoordinatorLog` in the log of a partition.

    `base_sequence`: that of batches; group coordinators write 0, with and without a producer id,
    transaction coordinators -1. `coordinator_epoch`: the transaction coordinator's epoch, for
    markers.
    """

    min_columns_bytes: ClassVar[int] = 1 << 20

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
        """Return the log as columns, in blocks of some MB.

        `None` for a log in memory or too small for that, for topics other than
        `__consumer_offsets`, and without pyarrow. Reading raises `LogError` for damage.
        """
        log = self.partition.log
        if (
            log.files is None
            or log.size_bytes < self.min_columns_bytes
            or log.start_offset > log.segments[0].base_offset
            or self.partition.topic != CONSUMER_OFFSETS
            or find_spec("pyarrow") is None
        ):
            return None
        return self._blocks()

    def _blocks(self) -> Iterator["RawBlock"]:
        """Yield the log as columns; its segments are those of when the first block is read."""
        from quorate.codecs.log.raw import read_raw

        log = self.partition.log
        with _loading(log):
            assert log.files is not None
            segments = tuple(Segment(log.files.path(segment), segment.size) for segment in log.segments)
            for block in read_raw(PartitionFiles(self.partition.topic, self.partition.index, segments)):
                for problem in block.problems:
                    if problem.reason is not ProblemReason.OFFSET_ORDER:
                        raise LogError(f"{problem.path}, position {problem.position:,}: {problem.detail}; {REMEDY}")
                yield block


@contextmanager
def _loading(log: PartitionLog) -> Iterator[None]:
    """Keep the segments of a log as they are, while it is read in several turns."""
    log.loading += 1
    try:
        yield
    finally:
        log.loading -= 1

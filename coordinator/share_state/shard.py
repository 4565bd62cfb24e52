"""The share coordinator of one partition of `__share_group_state` (KIP-932).

It stores what share consumers have done with the records of a partition: start offset and state
batches. A write is an update record; after a number of updates, the next write is a snapshot.
Readers and writers have the leader epoch of the partition, and the state epoch, which a reset of
the state increments. Those with an older epoch are fenced.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from quorate.assignors.java_order import JavaHashSet, TimelineMap
from quorate.codecs import CoordinatorRecord, MalformedRecord, UnknownRecord
from quorate.codecs.api.delete_share_group_state import PartitionData as DeleteData
from quorate.codecs.api.delete_share_group_state import PartitionResult as DeleteResult
from quorate.codecs.api.initialize_share_group_state import PartitionData as InitializeData
from quorate.codecs.api.initialize_share_group_state import PartitionResult as InitializeResult
from quorate.codecs.api.read_share_group_state import PartitionData as ReadData
from quorate.codecs.api.read_share_group_state import PartitionResult as ReadResult
from quorate.codecs.api.read_share_group_state_summary import PartitionData as SummaryData
from quorate.codecs.api.read_share_group_state_summary import PartitionResult as SummaryResult
from quorate.codecs.api.write_share_group_state import PartitionData as WriteData
from quorate.codecs.api.write_share_group_state import PartitionResult as WriteResult
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from quorate.codecs.record_model import as_kafka_reads
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.results import Result, Task
from quorate.coordinator.share_state import records as write
from quorate.coordinator.share_state.batches import combined
from quorate.coordinator.share_state.key import SharePartitionKey, hash_of
from quorate.coordinator.share_state.redundant import RedundantOffsets
from quorate.coordinator.timers import Timers

_STATE_EPOCH_UNTIL_4_3: Final = (
    "The share coordinator rejected the request because the share-group state epoch did not match."
)
_UNCHECKED: Final = -1
"""An epoch that coordinators until 4.3 do not check. Newer ones reject it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinatorConfig:
    """Configs of share coordinators, named as Kafka's. `is_strict`: as `strict_share_state`."""

    is_strict: bool = Behaviour.NEWEST.strict_share_state
    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_cold_partition_snapshot_interval_ms: int = 300_000


class ShareCoordinatorShard:
    """The state of share-partitions. Requests are about one partition each.

    `states`: the last snapshots, with the updates since then. Epochs and counts of updates are kept
    apart, as in Kafka: `leader_epochs` and `state_epochs` never decrease. `redundant`: which
    records can be deleted.
    """

    def __init__(self, config: ShareCoordinatorConfig | None = None, *, image: MetadataImage = MetadataImage.EMPTY):
        self.config = config or ShareCoordinatorConfig()
        self.image = image
        self.timers = Timers()
        self.tasks: deque[Task] = deque()
        self.states: TimelineMap[SharePartitionKey, ShareSnapshotValue] = TimelineMap(hash_of)
        self.leader_epochs: dict[SharePartitionKey, int] = {}
        self.state_epochs: dict[SharePartitionKey, int] = {}
        self.updates: dict[SharePartitionKey, int] = {}
        self.redundant = RedundantOffsets()

    # ---- requests

    def initialize_state(self, key: SharePartitionKey, data: InitializeData, now_ms: int) -> Result[InitializeResult]:
        """Create or reset the state, unless the state epoch is older. Raises `ApiError`."""
        self._check(key, state_epoch=data.state_epoch)
        self._check_state_epoch(key, data.state_epoch)
        self._check_exists(key)
        state = self.states.get(key)
        initial = ShareSnapshotValue(
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=data.state_epoch,
            leader_epoch=0,
            start_offset=data.start_offset,
            delivery_complete_count=-1 if data.start_offset == -1 else 0,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=(),
        )
        return Result(records=[write.snapshot(key, initial)], response=InitializeResult(partition=key.partition))

    def read_state(self, key: SharePartitionKey, data: ReadData, now_ms: int) -> Result[ReadResult]:
        """Return the state. A new leader epoch is written, so that older ones are fenced.

        Raises `ApiError`.
        """
        self._check(key, leader_epoch=data.leader_epoch)
        state = self.states.get(key)
        if state is None:
            raise _invalid("Read operation on uninitialized share partition not allowed.")
        self._check_leader_epoch(key, data.leader_epoch)
        self._check_exists(key)
        response = ReadResult(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=state.state_batches,
        )
        if data.leader_epoch in (_UNCHECKED, self.leader_epochs.get(key)):
            return Result(response=response)
        same = WriteData(
            partition=key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=data.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )
        return Result(records=[self._changed(key, state, same, data.leader_epoch, now_ms)], response=response)

    def write_state(self, key: SharePartitionKey, data: WriteData, now_ms: int) -> Result[WriteResult]:
        """Change the state; its leader epoch stays that of the last reader. Raises `ApiError`."""
        self._check(key, leader_epoch=data.leader_epoch, state_epoch=data.state_epoch)
        state = self.states.get(key)
        if state is None:
            raise _invalid("Write operation on uninitialized share partition not allowed.")
        self._check_leader_epoch(key, data.leader_epoch)
        self._check_state_epoch(key, data.state_epoch)
        self._check_exists(key)
        record = self._changed(key, state, data, state.leader_epoch, now_ms)
        return Result(records=[record], response=WriteResult(partition=key.partition))

    def delete_state(self, key: SharePartitionKey, data: DeleteData, now_ms: int) -> Result[DeleteResult]:
        """Delete the state, if there is any. Raises `ApiError`."""
        self._check(key)
        self._check_exists(key)
        records = [write.tombstone(key)] if key in self.states else []
        return Result(records=records, response=DeleteResult(partition=key.partition))

    def read_summary(self, key: SharePartitionKey, data: SummaryData, now_ms: int) -> Result[SummaryResult]:
        """Return offsets and epochs; a start offset of -1 without state. Raises `ApiError`."""
        self._check(key)
        self._check_exists(key)
        state = self.states.get(key)
        if state is None:
            return Result(response=SummaryResult(partition=key.partition, start_offset=-1, delivery_complete_count=-1))
        return Result(
            response=SummaryResult(
                partition=key.partition,
                state_epoch=state.state_epoch,
                leader_epoch=state.leader_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.delivery_complete_count,
            )
        )

    def _changed(
        self, key: SharePartitionKey, state: ShareSnapshotValue, data: WriteData, leader_epoch: int, now_ms: int
    ) -> CoordinatorRecord:
        """Return the record of a write: an update, or the snapshot after many of them."""
        start_offset, count = data.start_offset, data.delivery_complete_count
        if self.config.is_strict:
            start_offset, count = _progress(state, data)
        if self.updates.get(key, 0) < self.config.share_coordinator_snapshot_update_records_per_snapshot:
            change = ShareUpdateValue(
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=count,
                state_batches=combined((), data.state_batches, start_offset),
            )
            if any(batch.last_offset < batch.first_offset for batch in (*state.state_batches, *change.state_batches)):
                write.merged(state, change)  # fails here instead of after the append
            return write.update(key, change)
        start_offset = state.start_offset if start_offset == -1 else start_offset
        whole = replace(
            state,
            snapshot_epoch=state.snapshot_epoch + 1,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=combined(state.state_batches, data.state_batches, start_offset),
        )
        return write.snapshot(key, whole)

    # ---- checks

    def _check(self, key: SharePartitionKey, *, leader_epoch: int = 0, state_epoch: int = 0) -> None:
        """Raise `ApiError` for a negative number, in Kafka's order."""
        epochs = ((leader_epoch, "leader epoch"), (state_epoch, "state epoch")) if self.config.is_strict else ()
        for number, name in ((key.partition, "partition id"), *epochs):
            if number < 0:
                raise _invalid(f"The {name} cannot be a negative number.")

    def _check_leader_epoch(self, key: SharePartitionKey, leader_epoch: int) -> None:
        if leader_epoch != _UNCHECKED and self.leader_epochs.get(key, leader_epoch) > leader_epoch:
            raise _error(ErrorCode.FENCED_LEADER_EPOCH)

    def _check_state_epoch(self, key: SharePartitionKey, state_epoch: int) -> None:
        if state_epoch != _UNCHECKED and self.state_epochs.get(key, state_epoch) > state_epoch:
            text = None if self.config.is_strict else _STATE_EPOCH_UNTIL_4_3
            raise _error(ErrorCode.FENCED_STATE_EPOCH, text)

    def _check_exists(self, key: SharePartitionKey) -> None:
        topic = self.image.topics_by_id.get(key.topic_id)
        if topic is None or topic.partitions <= key.partition:
            raise _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # ---- the interface of `Shard`

    def replay(
        self,
        record: CoordinatorRecord | UnknownRecord | MalformedRecord,
        *,
        offset: int = -1,
        producer_id: int | None = -1,
        strict: bool = False,
    ) -> None:
        """Apply a record of the log, skipping unknown ones as Kafka does."""
        known = as_kafka_reads(record)
        if known is None or not isinstance(known.key, ShareSnapshotKey | ShareUpdateKey):
            return
        key = SharePartitionKey(known.key.group_id, known.key.topic_id, known.key.partition)
        value = known.value
        if isinstance(value, ShareUpdateValue):
            self._raise_epoch(self.leader_epochs, key, value.leader_epoch)
            state = self.states.get(key)
            self.states[key] = write.only_update(value) if state is None else write.merged(state, value)
            self.updates[key] = self.updates.get(key, 0) + 1
            return
        if isinstance(value, ShareSnapshotValue):
            self._raise_epoch(self.leader_epochs, key, value.leader_epoch)
            self._raise_epoch(self.state_epochs, key, value.state_epoch)
            self.states[key] = value
            # Not after other snapshots: Kafka continues to count.
            if self.updates.get(key, 0) >= self.config.share_coordinator_snapshot_update_records_per_snapshot:
                self.updates[key] = 0
        else:
            for of_partitions in (self.states, self.leader_epochs, self.state_epochs, self.updates):
                of_partitions.pop(key, None)
        self.redundant.snapshot_at(key, offset, deleted=value is None)

    @staticmethod
    def _raise_epoch(epochs: dict[SharePartitionKey, int], key: SharePartitionKey, epoch: int) -> None:
        epochs[key] = max(epochs.get(key, epoch), epoch)

    def written(self) -> None:
        """Do nothing, as no state depends on writes."""

    def not_written(self, records: Sequence[CoordinatorRecord]) -> None:
        """Do nothing: the operation handles a failed write."""

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Do nothing, as no transaction writes to this topic."""

    def loaded(self, now_ms: int) -> Result[None]:
        """Do nothing: there are no timers."""
        return Result()

    def unloaded(self) -> None:
        """Do nothing: no request is pending."""

    def take_image(
        self, image: MetadataImage, now_ms: int, delta: MetadataDelta | None = None
    ) -> tuple[MetadataDelta, list[Result[None]]]:
        """Take new metadata, and delete the state of deleted topics."""
        if delta is None:
            delta = MetadataDelta.between(self.image, image)
        self.image = image
        deleted = {topic.id for topic in delta.deleted}
        if not deleted:
            return delta, []
        gone: JavaHashSet[SharePartitionKey] = JavaHashSet(hash_of=hash_of)
        for key, _ in self.states.ordered():
            if key.topic_id in deleted:
                gone.add(key)
        return delta, [Result(records=[write.tombstone(key) for key in gone])]

    def clean_up(self, now_ms: int) -> Result[None]:
        """Write snapshots of partitions that are not updated, so that old records are redundant.

        If all of them have such a snapshot, there is nothing to do.
        """
        if all(state.create_timestamp != state.write_timestamp for state in self.states.values()):
            return Result()
        before_ms = now_ms - self.config.share_coordinator_cold_partition_snapshot_interval_ms
        return Result(
            records=[
                write.snapshot(key, replace(state, snapshot_epoch=state.snapshot_epoch + 1, write_timestamp=now_ms))
                for key, state in self.states.ordered()
                if state.write_timestamp <= before_ms
            ]
        )


def _progress(state: ShareSnapshotValue, data: WriteData) -> tuple[int, int]:
    """Return the start offset and the count of completed deliveries (KIP-1226) after a write.

    The start offset never decreases. The count belongs to the higher start offset, and never
    decreases for the same one.
    """
    count = data.delivery_complete_count
    if data.start_offset == state.start_offset:
        count = max(count, state.delivery_complete_count)
    elif data.start_offset < state.start_offset:
        count = state.delivery_complete_count
    return max(data.start_offset, state.start_offset), count


def _error(code: ErrorCode, message: str | None = None) -> ApiError:
    return ApiError(code, message or code.text)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)

"""Events of share-partitions, from the records of `__share_group_state` (KIP-932).

The share coordinator's own shard replays the records. Consecutive writes of a group that only move
start offsets form one event, and so do consecutive writes that archive records.
"""

from collections.abc import Callable, Iterator
from dataclasses import field

from quorate.codecs import SHARE_GROUP_STATE, LogEntry, as_kafka_reads
from quorate.codecs.errors import InputError
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    StateBatch,
)
from quorate.coordinator.errors import ApiError
from quorate.coordinator.history.events import Event
from quorate.coordinator.history.facts import Fact
from quorate.coordinator.history.labels import Partition
from quorate.coordinator.history.share_facts import (
    RecordsArchived,
    ShareStateDeleted,
    ShareStateInitialized,
    ShareStateReset,
    StartOffsetMoved,
)
from quorate.coordinator.share_state.key import SharePartitionKey
from quorate.coordinator.share_state.shard import ShareCoordinatorShard

ARCHIVED = frozenset({3, 4})
"""Delivery states of records that are never delivered again, and were not acknowledged.

3 is archiving: the record is being written to a dead letter queue (KIP-1191).
"""


@dataclass(slots=True)
class _Write:
    """Consecutive writes of a group, of one kind."""

    entry: LogEntry
    last: LogEntry
    kind: str
    moves: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    more: list[Fact] = field(default_factory=list)

    def facts(self) -> Iterator[Fact]:
        yield from self.more
        for partition, (before, after) in self.moves.items():
            yield StartOffsetMoved(partition=partition, before=before, after=after)


class ShareHistory:
    """The history of one partition of `__share_group_state`.

    `shard`: its state. `written_ms`: when each share-partition was last written. Events are those
    of the groups that `groups` accepts, by default of all.
    """

    def __init__(self, groups: Callable[[str], bool] | None = None) -> None:
        self.shard = ShareCoordinatorShard()
        self.written_ms: dict[SharePartitionKey, int] = {}
        self._wanted = groups
        self._writes: dict[str, _Write] = {}

    def take(self, entry: LogEntry) -> list[Event]:
        """Replay the next record. Returns the events that are complete.

        Raises `InputError` for an update that a share coordinator cannot apply.
        """
        known = as_kafka_reads(entry.record)
        if known is None or not isinstance(known.key, ShareSnapshotKey | ShareUpdateKey):
            return []
        key = SharePartitionKey(known.key.group_id, known.key.topic_id, known.key.partition)
        before = self.shard.states.get(key)
        try:
            self.shard.replay(known, offset=entry.offset)
        except ApiError as error:
            raise InputError(
                f"{SHARE_GROUP_STATE}-{entry.partition}, offset {entry.offset:,}: the batches of the update are "
                "invalid: the last offset of one is before its first",
                "no share coordinator can load this log; read only the folders of __consumer_offsets",
            ) from error
        after = self.shard.states.get(key)
        if after is None:
            self.written_ms.pop(key, None)
        else:
            self.written_ms[key] = entry.timestamp_ms
        if self._wanted is not None and not self._wanted(key.group_id):
            return []
        return self._note(entry, key, before, after)

    def finish(self) -> list[Event]:
        """Return the pending events at the end of the log."""
        return [event for group_id in list(self._writes) for event in self._flush(group_id)]

    def _note(
        self,
        entry: LogEntry,
        key: SharePartitionKey,
        before: ShareSnapshotValue | None,
        after: ShareSnapshotValue | None,
    ) -> list[Event]:
        place = (key.topic_id, key.partition)
        fact: Fact | None = None
        archived: list[RecordsArchived] = []
        if after is None:
            fact = None if before is None else ShareStateDeleted(partition=place)
        elif before is None:
            seen_before = bool(after.snapshot_epoch or self.shard.updates.get(key))
            fact = ShareStateInitialized(partition=place, start_offset=after.start_offset, from_snapshot=seen_before)
        elif after.state_epoch > before.state_epoch:
            fact = ShareStateReset(
                partition=place,
                before=before.start_offset,
                after=after.start_offset,
                state_epoch=after.state_epoch,
            )
        else:
            archived = _archived(place, before, after)
        moved = before is not None and after is not None and fact is None and before.start_offset != after.start_offset
        if fact is None and not archived and not moved:
            return []
        kind = "state" if fact is not None else "archived" if archived else "moved"
        found, write = self._write(key.group_id, entry, kind)
        if moved and before is not None and after is not None:
            first, _ = write.moves.get(place, (before.start_offset, 0))
            write.moves[place] = first, after.start_offset
        write.more += archived if fact is None else [fact]
        return found

    def _write(self, group_id: str, entry: LogEntry, kind: str) -> tuple[list[Event], _Write]:
        """Return the group's pending write, and events that are complete before it."""
        found: list[Event] = []
        write = self._writes.get(group_id)
        if write is not None and (
            write.kind != kind or (kind == "state" and write.last.timestamp_ms != entry.timestamp_ms)
        ):
            found, write = self._flush(group_id), None
        if write is None:
            write = self._writes[group_id] = _Write(entry, entry, kind)
        write.last = entry
        return found, write

    def _flush(self, group_id: str) -> list[Event]:
        write = self._writes.pop(group_id)
        return [
            Event(
                topic=SHARE_GROUP_STATE,
                partition=write.entry.partition,
                offset=write.entry.offset,
                last_offset=write.last.offset,
                timestamp_ms=write.entry.timestamp_ms,
                until_ms=write.last.timestamp_ms,
                group_id=group_id,
                facts=tuple(write.facts()),
            )
        ]


def _archived(place: Partition, before: ShareSnapshotValue, after: ShareSnapshotValue) -> list[RecordsArchived]:
    """Return the records that are archived after, and were not before, by delivery count."""
    if before.state_batches == after.state_batches:
        return []
    known = [batch for batch in before.state_batches if batch.delivery_state in ARCHIVED]
    new: dict[int, list[tuple[int, int]]] = {}
    for batch in after.state_batches:
        if batch.delivery_state in ARCHIVED:
            new.setdefault(batch.delivery_count, []).extend(_without(batch, known))
    return [
        RecordsArchived(partition=place, runs=tuple(runs), delivery_count=count)
        for count, runs in sorted(new.items())
        if runs
    ]


def _without(batch: StateBatch, known: list[StateBatch]) -> Iterator[tuple[int, int]]:
    """Yield the offsets of a batch that are in none of the known ones, which are in order."""
    first = batch.first_offset
    for one in known:
        if one.last_offset < first or one.first_offset > batch.last_offset:
            continue
        if one.first_offset > first:
            yield first, one.first_offset - 1
        first = one.last_offset + 1
    if first <= batch.last_offset:
        yield first, batch.last_offset

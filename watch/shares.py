"""Follows one partition of `__share_group_state`: start offsets of share groups (KIP-932)."""

from collections.abc import Iterable

import pyarrow as pa

from quorate.codecs import SHARE_GROUP_STATE, CoordinatorRecord, LogEntry, decode_record, encode_record
from quorate.codecs.messages.share_state import ShareSnapshotKey, ShareSnapshotValue
from quorate.coordinator.history.share_events import ShareHistory
from quorate.coordinator.history.share_facts import ShareStateReset
from quorate.coordinator.share_state.key import SharePartitionKey
from quorate.watch.causes import ResetByAdmin
from quorate.watch.kept import block_of_kept
from quorate.watch.model import EventKind, WatchEvent
from quorate.watch.partition import PartitionChanges
from quorate.watch.topics import KnownTopics


class FollowedShares:
    """One partition of `__share_group_state`, replayed up to `next_offset`.

    `committed`: groups whose start offsets changed since it was cleared.

    A restart loads the current states as snapshots, because updates between two snapshots have the
    same key.
    """

    def __init__(self, number: int | None, topics: KnownTopics) -> None:
        self.number = number
        self.next_offset = 0
        self.history = ShareHistory()
        self._topics = topics
        self.committed: set[str] = set()
        self._changed: dict[SharePartitionKey, int] = {}

    def restore(self, chunks: Iterable[pa.RecordBatch], next_offset: int) -> None:
        """Load the kept records of an earlier run, without events."""
        for block in map(block_of_kept, chunks):
            for row in range(len(block)):
                key, value = block.keys.bytes_at(row), block.values.bytes_at(row)
                self.history.take(self._entry(int(block.offset[row]), int(block.timestamp_ms[row]), key, value))
        self.history.finish()
        self.next_offset = next_offset

    def take(self, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> list[WatchEvent]:
        """Replay a record. Returns events of offsets that were set back."""
        entry = self._entry(offset, timestamp_ms, key, value)
        known = entry.record.key if isinstance(entry.record, CoordinatorRecord) else None
        place = (getattr(known, "group_id", None), getattr(known, "topic_id", None), getattr(known, "partition", None))
        found = self.history.take(entry) + self.history.finish()
        self.next_offset = offset + 1
        if None not in place:
            self._changed[SharePartitionKey(*place)] = offset  # type: ignore[arg-type]
            self.committed.add(str(place[0]))
        labels = self._topics.labels()
        return [
            WatchEvent(
                at_ms=event.timestamp_ms,
                group_id=event.group_id,
                kind=EventKind.OFFSET_WENT_BACK,
                sentence=fact.sentence(labels),
                cause=ResetByAdmin(),
                facts=(fact.sentence(labels),),
                topic=SHARE_GROUP_STATE,
                partition=event.partition,
                offset=event.offset,
            )
            for event in found
            for fact in event.facts
            if isinstance(fact, ShareStateReset) and 0 <= fact.after < fact.before
        ]

    def finish(self) -> PartitionChanges:
        """Return what changed since the last call; events were returned before."""
        changes = PartitionChanges(self.next_offset)
        for place, offset in self._changed.items():
            state = self.history.shard.states.get(place)
            key, value = _snapshot(place, state)
            changes.records[key] = key, value, offset, self.history.written_ms.get(place, -1)
        self._changed.clear()
        return changes

    def _entry(self, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> LogEntry:
        return LogEntry.of(
            decode_record(key, value, topic=SHARE_GROUP_STATE),
            topic=SHARE_GROUP_STATE,
            partition=self.number,
            offset=offset,
            timestamp_ms=timestamp_ms,
            key_bytes=key,
            value_bytes=value,
        )


def _snapshot(place: SharePartitionKey, state: ShareSnapshotValue | None) -> tuple[bytes, bytes | None]:
    key = ShareSnapshotKey(group_id=place.group_id, topic_id=place.topic_id, partition=place.partition)
    version = None if state is None else _VERSION
    record = CoordinatorRecord(topic=SHARE_GROUP_STATE, key=key, value=state, version=version)
    encoded, value = encode_record(record)
    assert encoded is not None
    return encoded, value


_VERSION = 0

"""Follows one partition of `__consumer_offsets` with the replay of `quorate.coordinator`.

Blocks are replayed by columns, commits in bulk; other records one by one through the history, whose
events the trackers turn into those of an observer. Threads, sockets and files are not part of this
module.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from quorate.codecs import CoordinatorRecord, LogEntry, Uuid, as_kafka_reads, decode_record
from quorate.codecs.log.raw import RawBlock
from quorate.codecs.log.state_records import COMMIT_TYPE_IDS
from quorate.codecs.messages.classic_group import GroupMetadataValue
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.codecs.messages.offsets import OffsetCommitKey
from quorate.codecs.messages.streams_group import StreamsGroupMemberMetadataValue
from quorate.codecs.printable import counted
from quorate.coordinator.bulk import AnyRecord, Mark, replay_blocks
from quorate.coordinator.bulk_block import FoundCommits, Other, group_of
from quorate.coordinator.history import Event, GroupView, History, view
from quorate.coordinator.history.facts import Fact
from quorate.coordinator.history.labels import Partition
from quorate.coordinator.state import ClassicGroup, CoordinatorGroup
from quorate.coordinator.state.offsets import CommittedOffset
from quorate.watch.causes import NewTopicId, ResetByAdmin, ResetByClient
from quorate.watch.commits import BlockCommits, Lower
from quorate.watch.kept import Row, block_of_kept, kept_rows, last_of_keys, rows_of
from quorate.watch.limits import WatchLimits
from quorate.watch.model import EventKind, WatchEvent
from quorate.watch.packed_offsets import PackedCommits, PackedOffsets
from quorate.watch.rebalances import GroupTracker
from quorate.watch.topics import KnownTopics

PendingRow = tuple[bytes, int, bytes, int, int]
"""Key, producer id, value, offset and timestamp of a commit in an open transaction."""


@dataclass(slots=True)
class PartitionChanges:
    """What changed since the last flush.

    `states`: groups after their events. `commits`: plain commits, the last of each key and block.
    `records`: other records, by key. `pending`: all records of open transactions, if they changed.
    """

    next_offset: int
    events: list[WatchEvent] = field(default_factory=list)
    states: list[tuple[str, int, GroupView | None]] = field(default_factory=list)
    trackers: dict[str, dict[str, Any]] = field(default_factory=dict)
    commits: list[pa.RecordBatch] = field(default_factory=list)
    records: dict[bytes, Row] = field(default_factory=dict)
    pending: list[PendingRow] | None = None

    def rows(self) -> pa.Table:
        """Return the last record of each key, in the order of the log."""
        return last_of_keys([*self.commits, rows_of(self.records.values())], by_offset=True)


class FollowedPartition:
    """One partition of `__consumer_offsets`, replayed up to `next_offset`.

    `preparing`: when classic groups were first seen to rebalance. `commit_counts`: group id →
    number of commits that were read. `committed`: groups whose offsets changed since it was
    cleared. `offsets`: those of the history's state. `now_ms`: the latest timestamp.
    """

    def __init__(
        self, number: int | None, topics: KnownTopics, limits: WatchLimits, preparing: Mapping[str, int] | None = None
    ) -> None:
        self.number = number
        self.history = History()
        self.offsets = PackedOffsets()
        self.history.state.offsets = self.offsets
        self.next_offset = 0
        self.now_ms = -1
        self._preparing = {} if preparing is None else preparing
        self._deleted_ms: dict[str, int] = {}
        self._pending: dict[tuple[bytes, int], PendingRow] = {}
        self._pending_changed = False
        self.commit_counts: Counter[str] = Counter()
        self.committed: set[str] = set()
        self.trackers: dict[str, GroupTracker] = {}
        self._topics = topics
        self._limits = limits
        self._timeouts: dict[str, dict[str, tuple[int | None, int | None]]] = {}
        self._changes = PartitionChanges(0)
        self._lower: list[tuple[Lower, Fact, int, int]] = []
        self._restoring = False
        self._leader_epochs: list[tuple[int, int]] = []
        self._first: dict[str, tuple[RawBlock, int]] = {}  # commits of groups without a view

    # ---- restart

    def restore(
        self,
        chunks: Iterable[pa.RecordBatch],
        pending: Sequence[PendingRow],
        next_offset: int,
        trackers: Callable[[str], dict[str, Any] | None],
    ) -> None:
        """Load the kept records of an earlier run, without events."""
        self._restoring = True
        blocks = (replace(block_of_kept(rows), partition=self.number) for rows in chunks)
        replay_blocks(self.history.state, blocks, names=self._topics.names, observer=self, writer=_WRITER)
        for key, producer_id, value, offset, ms in pending:
            self._pending[key, producer_id] = key, producer_id, value, offset, ms
            self.record(Other(-1, key, value, offset, producer_id, ms), decode_record(key, value))
        self._restoring = False
        self.history.begin()
        self.next_offset = next_offset
        for group_id in self.history.state.groups:
            text = trackers(group_id)
            if text is not None:
                self.tracker(group_id).restore(text, self.history.view(group_id))
        self._changes = PartitionChanges(next_offset)

    # ---- blocks

    def load(self, block: RawBlock, leader_epochs: Sequence[tuple[int, int]] = ()) -> None:
        """Replay a block of whole batches that begins at `next_offset` or later.

        `leader_epochs`: pairs of a first offset and its leader epoch, ascending, if known.
        """
        self._leader_epochs = list(leader_epochs)
        replay_blocks(self.history.state, [block], names=self._topics.names, observer=self, writer=_WRITER)
        if len(block):
            self.now_ms = max(self.now_ms, int(block.timestamp_ms.max()))
            self.next_offset = int(block.offset[-1]) + 1
        if len(block.markers):
            self.now_ms = max(self.now_ms, int(block.markers.timestamp_ms.max()))
            self.next_offset = max(self.next_offset, int(block.markers.offset[-1]) + 1)
        self._report_lower()

    def finish(self, now_ms: int | None = None) -> PartitionChanges:
        """Return all changes since the last call.

        The end of the last block is the end of a write. `now_ms`: the wall clock, for a live log.
        """
        for group_id, (block, row) in self._first.items():
            if group_id in self.history.state.groups and self.history.view(group_id) is None:
                key, value = block.keys.bytes_at(row), block.values.bytes_at(row)
                other = Other(-1, key, value, int(block.offset[row]), -1, int(block.timestamp_ms[row]))
                self.history.note_commit(self._entry(other, decode_record(key, value)))
        self._first.clear()
        self._note(self.history.finish())
        changes, self._changes = self._changes, PartitionChanges(self.next_offset)
        changes.next_offset = self.next_offset
        if self._pending_changed:
            changes.pending = list(self._pending.values())
            self._pending_changed = False
        for group_id, tracker in self.trackers.items():
            changes.events += tracker.tick(self.now_ms if now_ms is None else now_ms, self.number)
            if tracker.dirty:
                tracker.dirty = False
                changes.trackers[group_id] = tracker.as_json()
        for group_id in [one for one in changes.trackers if one not in self.history.state.groups]:
            del self.trackers[group_id]
            self._timeouts.pop(group_id, None)
            self._deleted_ms.pop(group_id, None)
        return changes

    def tracker(self, group_id: str) -> GroupTracker:
        """Return the tracker of a group."""
        found = self.trackers.get(group_id)
        if found is None:
            found = self.trackers[group_id] = GroupTracker(group_id, self._topics, self, self._limits)
        return found

    def view(self, group_id: str, group: CoordinatorGroup) -> GroupView:
        """Return a group of this partition as it is now."""
        return self.history.view(group_id) or view(group)

    # ---- BulkObserver

    def commits_of(self, block: RawBlock, found: FoundCommits) -> BlockCommits:
        """Note the last commit of each key, and the number of commits by group."""
        commits = BlockCommits(block, found)
        if not self._restoring:
            self.commit_counts.update(commits.counts)
            self.committed.update(commits.counts)
            self._changes.commits.append(kept_rows(block, commits.last))
            new = [one for one in commits.counts if self.history.view(one) is None and one not in self._first]
            self._first |= {group_id: (block, row) for group_id, row in commits.first_of(new).items()}
        return commits

    def commits(self, block: RawBlock, base: int, found: FoundCommits) -> Iterator[Mark]:
        """See `BulkObserver`."""
        if self._restoring:
            return
        for lower in self.commits_of(block, found).lower(self.offsets):
            yield base + 2 * lower.row, self._checked(lower, block)

    def record(self, other: Other, record: AnyRecord) -> None:
        """See `BulkObserver`."""
        entry = self._entry(other, record)
        self._note_facts(record)
        if self._restoring:
            self.history.restore(entry)
            return
        if other.key is not None:
            self._keep(other.key, other)
        self._note(self.history.take(entry))

    def _entry(self, other: Other, record: AnyRecord) -> LogEntry:
        return LogEntry.of(
            record,
            partition=self.number,
            offset=other.offset,
            timestamp_ms=other.timestamp_ms,
            producer_id=other.producer_id,
            key_bytes=other.key,
            value_bytes=other.value,
        )

    def marker(self, producer_id: int, *, commit: bool) -> None:
        """See `BulkObserver`."""
        offsets = self.history.state.offsets
        committed: set[int] = set()
        for group_id, topics in offsets.pending.get(producer_id, {}).items() if commit else ():
            self.committed.add(group_id)
            for topic, partitions in topics.items():
                for number, pending in partitions.items():
                    stored = offsets.get(group_id, topic, number)
                    if stored is not None and stored.record_offset >= pending.record_offset:
                        continue
                    committed.add(pending.record_offset)
                    if stored is not None and pending.value.offset < stored.value.offset:
                        lower = Lower(
                            row=-1,
                            group_id=group_id,
                            topic=topic,
                            partition=number,
                            before=stored.value.offset,
                            after=pending.value.offset,
                        )
                        cause = self._cause(lower, stored, pending)
                        self._lower.append((lower, cause, pending.value.commit_timestamp, pending.record_offset))
        for place in [place for place in self._pending if place[1] == producer_id]:
            key, _, value, offset, ms = self._pending.pop(place)
            self._pending_changed = True
            if offset in committed:
                self._changes.records[key] = key, value, offset, ms

    def _keep(self, key: bytes, other: Other) -> None:
        """Keep a record for a restart."""
        if int.from_bytes(key[:2], "big") in COMMIT_TYPE_IDS:
            self.committed.add(group_of(key).decode("utf-8", "surrogateescape"))
            if other.value is None:  # also deletes the offset in open transactions
                for place in [place for place in self._pending if place[0] == key]:
                    del self._pending[place]
                    self._pending_changed = True
            elif other.producer_id >= 0:
                row = key, other.producer_id, other.value, other.offset, other.timestamp_ms
                self._pending[key, other.producer_id] = row
                self._pending_changed = True
                return
        self._changes.records[key] = key, other.value, other.offset, other.timestamp_ms

    # ---- events

    def _note(self, events: Iterable[Event]) -> None:
        for event in events:
            after = self.history.view(event.group_id)
            changes = self._changes
            changes.events += self.tracker(event.group_id).take(event, after, self._leader_epoch(event.offset))
            changes.states.append((event.group_id, event.timestamp_ms, after))
            known = self._timeouts.get(event.group_id)
            if known is not None:
                members: Collection[str] = () if after is None else after.members
                for member_id in [one for one in known if one not in members]:
                    del known[member_id]

    def _leader_epoch(self, offset: int) -> int | None:
        return next((epoch for first, epoch in reversed(self._leader_epochs) if first <= offset), None)

    def _note_facts(self, record: AnyRecord) -> None:
        """Note what a state no longer has when a member or an offset is gone."""
        readable = as_kafka_reads(record)
        value = None if readable is None else readable.value
        if value is None and readable is not None and isinstance(readable.key, OffsetCommitKey):
            gone = readable.key
            stored = self.history.state.offsets.get(gone.group, gone.topic, gone.partition)
            if stored is not None:
                latest = max(self._deleted_ms.get(gone.group, -1), stored.value.commit_timestamp)
                self._deleted_ms[gone.group] = latest
        elif isinstance(value, GroupMetadataValue):
            assert readable is not None
            group: Any = readable.key
            self._timeouts.setdefault(group.group, {}).update(
                {one.member_id: (one.session_timeout, one.rebalance_timeout) for one in value.members}
            )
        elif isinstance(value, ConsumerGroupMemberMetadataValue | StreamsGroupMemberMetadataValue):
            assert readable is not None
            key: Any = readable.key
            self._timeouts.setdefault(key.group_id, {})[key.member_id] = None, value.rebalance_timeout_ms

    # ---- MemberTimes

    def timeouts(self, group_id: str, member_id: str) -> tuple[int | None, int | None]:
        """See `MemberTimes`."""
        return self._timeouts.get(group_id, {}).get(member_id, (None, None))

    def last_commit_ms(self, group_id: str, partitions: Iterable[Partition]) -> int | None:
        """See `MemberTimes`."""
        labels = self._topics.labels()
        found = (self.history.state.offsets.get(group_id, labels.topic(topic), number) for topic, number in partitions)
        times = [one.value.commit_timestamp for one in found if one is not None]
        return max(times, default=self._deleted_ms.get(group_id))

    def began_ms(self, group_id: str, at_ms: int) -> int:
        """See `MemberTimes`."""
        group = self.history.state.groups.get(group_id)
        times = [at_ms]
        if isinstance(group, ClassicGroup) and group.metadata is not None:
            times.append(group.metadata.current_state_timestamp)
        if group_id in self._preparing:
            times.append(self._preparing[group_id])
        return min((one for one in times if one >= 0), default=at_ms)

    # ---- offsets that went back

    def _checked(self, lower: Lower, block: RawBlock) -> Callable[[int], None]:
        def check(_: int) -> None:
            stored = self.history.state.offsets.get(lower.group_id, lower.topic, lower.partition)
            if stored is None:  # deleted in between
                return
            record = decode_record(block.keys.bytes_at(lower.row), block.values.bytes_at(lower.row))
            assert isinstance(record, CoordinatorRecord)
            pending = CommittedOffset(record.value, int(block.offset[lower.row]))  # type: ignore[arg-type]
            cause = self._cause(lower, stored, pending)
            self._lower.append((lower, cause, int(block.timestamp_ms[lower.row]), pending.record_offset))

        return check

    def _cause(self, lower: Lower, before: CommittedOffset, after: CommittedOffset) -> Fact:
        if Uuid.ZERO not in (before.topic_id, after.topic_id) and before.topic_id != after.topic_id:
            return NewTopicId(topics=(lower.topic,))
        group = self.history.state.groups.get(lower.group_id)  # the history's view is that before this write
        return ResetByClient() if group is not None and view(group).members else ResetByAdmin()

    def _report_lower(self) -> None:
        """Report one event per group and kind of cause of the block."""
        by_cause: dict[tuple[str, type[Fact]], list[tuple[Lower, Fact, int, int]]] = {}
        for one in self._lower:
            by_cause.setdefault((one[0].group_id, type(one[1])), []).append(one)
        self._lower = []
        for (group_id, _), found in by_cause.items():
            _, cause, at_ms, offset = found[0]
            facts = [f"{lower.topic} {lower.partition}: {lower.before:,} → {lower.after:,}" for lower, _, _, _ in found]
            why = cause.sentence(self._topics.labels())
            count = sum(lower.before - lower.after for lower, _, _, _ in found)
            sentence = (
                f"offsets of {len(found):,} partitions"
                if len(found) > 1
                else f"the offset of {found[0][0].topic} {found[0][0].partition}"
            )
            self._changes.events.append(
                WatchEvent(
                    at_ms=at_ms,
                    group_id=group_id,
                    kind=EventKind.OFFSET_WENT_BACK,
                    sentence=f"{sentence} went back by {counted(count, 'record')}: {why}",
                    cause=cause,
                    facts=tuple(facts[:_MOST_FACTS]),
                    partition=self.number,
                    offset=offset,
                )
            )


_WRITER = PackedCommits()

_MOST_FACTS = 200
"""Sentences of one event; a group may have thousands of partitions."""

"""Events of groups, from the records of their partitions.

Records of a group with the same timestamp were written together, and form one event. Consecutive
offset commits of a group are combined into one event.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from quorate.codecs import CoordinatorRecord, LogEntry, LogProblem, as_kafka_reads
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.consumer_group import ConsumerGroupMetadataKey, ConsumerGroupPartitionMetadataKey
from quorate.codecs.messages.offsets import LegacyOffsetCommitKey, OffsetCommitKey
from quorate.codecs.messages.share_group import ShareGroupMetadataKey, ShareGroupStatePartitionMetadataKey
from quorate.codecs.messages.streams_group import StreamsGroupMetadataKey
from quorate.codecs.records import CONSUMER_OFFSETS
from quorate.coordinator.history.difference import Written, diff_views
from quorate.coordinator.history.facts import (
    EpochBumped,
    Fact,
    GenerationBegan,
    GroupCreated,
    GroupDeleted,
    OffsetsCommitted,
    OffsetsDeleted,
    TransactionEnded,
)
from quorate.coordinator.history.labels import Partition
from quorate.coordinator.history.views import GroupView, Since, view
from quorate.coordinator.state import CoordinatorState


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a group. `offset` and `last_offset`: its first and last record.

    `until_ms` is later than `timestamp_ms` for combined writes. `topic`: that of its log, for
    changes of share state `__share_group_state`.
    """

    topic: str = CONSUMER_OFFSETS
    partition: int | None
    offset: int
    last_offset: int
    timestamp_ms: int
    until_ms: int
    group_id: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A position in the log, by default the end.

    After the record at `offset`, for one partition, or at one of `offsets`, by partition; or before
    the first record that is later than `timestamp_ms`.
    """

    timestamp_ms: int | None = None
    offset: int | None = None
    offsets: Mapping[int | None, int] | None = None

    def within(self, partition: int | None) -> tuple[int | None, int | None] | None:
        """Return the last offset and the last time to read of a partition, `None` for no limit.

        Returns `None` if the partition is left out.
        """
        if self.offset is not None:
            return self.offset, None
        if self.offsets is not None:
            last = self.offsets.get(partition)
            return None if last is None else (last, None)
        return None, self.timestamp_ms

    def cut(self, entries: Iterable[LogEntry | LogProblem]) -> Iterator[LogEntry | LogProblem]:
        """Yield the entries up to the position, per partition.

        If `offsets` is given, partitions without an offset are left out.
        """
        over: set[int | None] = set()
        for entry in entries:
            if isinstance(entry, LogEntry):
                if entry.partition in over:
                    continue
                if self._is_later(entry):
                    over.add(entry.partition)
                    continue
            yield entry

    def _is_later(self, entry: LogEntry) -> bool:
        within = self.within(entry.partition)
        if within is None:
            return True
        last, last_ms = within
        return (last is not None and entry.offset > last) or (last_ms is not None and entry.timestamp_ms > last_ms)


def state_at(
    entries: Iterable[LogEntry | LogProblem], *, offset: int | None = None, timestamp_ms: int | None = None
) -> CoordinatorState:
    """Return the state of one partition after `offset`, or at a time (ms since 1970).

    By default at the end. Problems of the log are skipped.
    """
    state = CoordinatorState()
    for entry in Moment(offset=offset, timestamp_ms=timestamp_ms).cut(entries):
        if isinstance(entry, LogEntry):
            state.replay(entry.record, offset=entry.offset, producer_id=_producer(entry))
    return state


def events(entries: Iterable[LogEntry | LogProblem], groups: Callable[[str], bool] | None = None) -> Iterator[Event]:
    """Yield the events of the groups that `groups` accepts, by default of all.

    Entries may be of several partitions; events are in the order of each partition's offsets.
    """
    histories: dict[int | None, History] = {}
    for entry in entries:
        if isinstance(entry, LogEntry):
            history = histories.get(entry.partition)
            if history is None:
                history = histories[entry.partition] = History(groups)
            yield from history.take(entry)
    for history in histories.values():
        yield from history.finish()


NOTHING = Written(epoch=False, topics=False, share_state=False)


@dataclass(slots=True)
class _Step:
    """The records of a group with one timestamp."""

    entry: LogEntry
    last: LogEntry
    is_membership: bool = False
    members: set[str] = field(default_factory=set)
    written: Written = NOTHING
    share_state_last: bool = False  # it was written after the group epoch
    commits: dict[bool, int] = field(default_factory=dict)
    committed: dict[bool, dict[Partition, None]] = field(default_factory=dict)
    deleted: dict[Partition, None] = field(default_factory=dict)
    more: list[Fact] = field(default_factory=list)

    def offset(self, partition: Partition, *, pending: bool) -> None:
        self.commits[pending] = self.commits.get(pending, 0) + 1
        self.committed.setdefault(pending, {})[partition] = None

    @property
    def is_commits(self) -> bool:
        """Whether it has only offset commits, which can be combined."""
        return not self.is_membership and not self.deleted and not self.more

    def add(self, later: "_Step") -> None:
        """Combine it with a later step."""
        self.last = later.last
        for pending, count in later.commits.items():
            self.commits[pending] = self.commits.get(pending, 0) + count
            self.committed.setdefault(pending, {}).update(later.committed[pending])

    def facts(self) -> Iterator[Fact]:
        for pending, count in self.commits.items():
            yield OffsetsCommitted(commits=count, partitions=tuple(self.committed[pending]), pending=pending)
        if self.deleted:
            yield OffsetsDeleted(partitions=tuple(self.deleted))
        yield from self.more


class History:
    """The history of one partition.

    `state`: after the last entry. `bumps`: the last increment of each group's epoch, with its
    event, for the groups that `groups` accepts.
    """

    def __init__(self, groups: Callable[[str], bool] | None = None) -> None:
        self.state = CoordinatorState()
        self.bumps: dict[str, tuple[Event, EpochBumped]] = {}
        self._wanted = groups
        self._views: dict[str, GroupView] = {}
        self._steps: dict[str, _Step] = {}
        self._sums: dict[str, _Step] = {}
        self._share_state: set[str] = set()  # groups whose share state was written after their epoch
        self._time_ms: int | None = None

    def resume(self, entries: Iterable[LogEntry]) -> None:
        """Start after records that were replayed before; only the last of each key is left.

        Sets the state without events.
        """
        for entry in entries:
            self.restore(entry)
        self.begin()

    def restore(self, entry: LogEntry) -> None:
        """Replay a record of before the start, without events; `begin` follows the last one."""
        record = as_kafka_reads(entry.record) or entry.record
        if isinstance(record, CoordinatorRecord) and record.value is not None:
            if isinstance(record.key, ShareGroupStatePartitionMetadataKey):
                self._share_state.add(record.key.group_id)
            elif isinstance(record.key, ShareGroupMetadataKey):
                self._share_state.discard(record.key.group_id)
        self.state.replay(record, offset=entry.offset, producer_id=_producer(entry))

    def begin(self) -> None:
        """Start with the current state."""
        self._views = {
            group_id: view(group)
            for group_id, group in self.state.groups.items()
            if self._wanted is None or self._wanted(group_id)
        }

    def take(self, entry: LogEntry) -> list[Event]:
        """Replay the next record. Returns the events that are complete."""
        found: list[Event] = []
        if entry.timestamp_ms != self._time_ms:
            found += self._close()
            self._time_ms = entry.timestamp_ms
        record = as_kafka_reads(entry.record) or entry.record
        key: Any = record.key if isinstance(record, CoordinatorRecord) else None
        group_id = getattr(key, "group_id", None) or getattr(key, "group", None)
        if isinstance(record, ControlRecord):
            self._transaction(entry, record)
        elif group_id is not None and (self._wanted is None or self._wanted(group_id)):
            assert isinstance(record, CoordinatorRecord)
            self._note(self._step(group_id, entry), key, record.value, pending=_producer(entry) >= 0)
        self.state.replay(record, offset=entry.offset, producer_id=_producer(entry))
        return found

    def note_commit(self, entry: LogEntry) -> None:
        """Note a commit that was replayed before; `finish` returns what changed."""
        assert isinstance(entry.record, CoordinatorRecord)
        key: Any = entry.record.key
        self._step(key.group, entry).offset((key.topic, key.partition), pending=False)

    def view(self, group_id: str) -> GroupView | None:
        """Return the group after the last event, `None` if it does not exist."""
        return self._views.get(group_id)

    def finish(self) -> list[Event]:
        """Return the pending events at the end of the log."""
        found = self._close()
        for group_id in list(self._sums):
            found += self._flush(group_id)
        return found

    def _step(self, group_id: str, entry: LogEntry) -> _Step:
        step = self._steps.get(group_id)
        if step is None:
            step = self._steps[group_id] = _Step(entry, entry)
        step.last = entry
        return step

    def _note(self, step: _Step, key: Any, value: Any, *, pending: bool) -> None:
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            partition = (key.topic, key.partition)
            if value is None:
                step.deleted[partition] = None
            else:
                step.offset(partition, pending=pending)
            return
        step.is_membership = True
        if (member_id := getattr(key, "member_id", None)) is not None:
            step.members.add(member_id)
        if value is None:
            return
        if isinstance(key, ConsumerGroupPartitionMetadataKey):
            step.written = replace(step.written, topics=True)
        elif isinstance(key, ConsumerGroupMetadataKey | ShareGroupMetadataKey | StreamsGroupMetadataKey):
            step.written = replace(step.written, epoch=True)
            step.share_state_last = False
        elif isinstance(key, ShareGroupStatePartitionMetadataKey):
            step.written = replace(step.written, share_state=True)
            step.share_state_last = True

    def _transaction(self, entry: LogEntry, record: ControlRecord) -> None:
        """Note the groups of a transaction marker, before it is replayed."""
        producer_id = _producer(entry)
        for group_id, topics in self.state.offsets.pending.get(producer_id, {}).items():
            if self._wanted is None or self._wanted(group_id):
                self._step(group_id, entry).more.append(
                    TransactionEnded(
                        producer_id=producer_id,
                        committed=record.commits is True,
                        partitions=tuple((topic, number) for topic, numbers in topics.items() for number in numbers),
                    )
                )

    def _close(self) -> list[Event]:
        found: list[Event] = []
        for group_id, step in self._steps.items():
            if step.is_commits and group_id in self._views:
                if group_id in self._sums:
                    self._sums[group_id].add(step)
                else:
                    self._sums[group_id] = step
                continue
            found += self._flush(group_id)
            found += self._event(group_id, step, [*self._changes(group_id, step), *step.facts()])
        self._steps.clear()
        return found

    def _flush(self, group_id: str) -> list[Event]:
        step = self._sums.pop(group_id, None)
        return [] if step is None else self._event(group_id, step, [*step.facts()])

    def _changes(self, group_id: str, step: _Step) -> list[Fact]:
        before, group = self._views.get(group_id), self.state.groups.get(group_id)
        if group is None:
            self._views.pop(group_id, None)
            return [] if before is None else diff_views(before, None)
        if before is not None and not step.is_membership:
            return []
        since = None if before is None else Since(view=before, touched=step.members)
        after = self._views[group_id] = view(group, since)
        written = step.written
        if written.share_state:
            self._share_state.add(group_id)
        if written.epoch:  # incremented by the next heartbeat, not with the share state
            written = replace(written, share_state=group_id in self._share_state)
            if not step.share_state_last:
                self._share_state.discard(group_id)
        return diff_views(before, after, written, step.members)

    def _event(self, group_id: str, step: _Step, facts: list[Fact]) -> list[Event]:
        if not facts:
            return []
        event = Event(
            partition=step.entry.partition,
            offset=step.entry.offset,
            last_offset=step.last.offset,
            timestamp_ms=step.entry.timestamp_ms,
            until_ms=step.last.timestamp_ms,
            group_id=group_id,
            facts=tuple(facts),
        )
        for fact in facts:
            if isinstance(fact, EpochBumped):
                self.bumps[group_id] = event, fact
            elif isinstance(fact, GroupDeleted | GroupCreated | GenerationBegan):
                self.bumps.pop(group_id, None)
        return [event]


def _producer(entry: LogEntry) -> int:
    """Return the producer id of a record's transaction; -1 without one, or if it is hidden."""
    return entry.producer_id if entry.transactional and entry.producer_id is not None else -1

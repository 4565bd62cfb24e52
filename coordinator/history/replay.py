"""Groups of a log, replayed up to a moment, with what is known about their topics.

The source of the entries is not part of this module.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from quorate.assignors import TopicPartition, Topology
from quorate.codecs import Uuid
from quorate.codecs.errors import InputError
from quorate.codecs.globs import matcher
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.log.model import LogEntry
from quorate.codecs.messages.share_state import ShareSnapshotValue
from quorate.codecs.record_text import learn_names
from quorate.codecs.records import CONSUMER_OFFSETS
from quorate.coordinator.history.events import Event, History, Moment
from quorate.coordinator.history.labels import Labels, Partition
from quorate.coordinator.history.share_events import ShareHistory
from quorate.coordinator.history.views import GroupView, view

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock


@dataclass(frozen=True, kw_only=True)
class ReplayedGroup:
    """A group and its partition of `__consumer_offsets`."""

    partition: int | None
    history: History
    view: GroupView


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedShare:
    """The state of a share-partition, and its partition of `__share_group_state`.

    `written_ms`: time of the last write.
    """

    log_partition: int | None
    written_ms: int
    state: ShareSnapshotValue


@dataclass(kw_only=True)
class ReplayedGroups:
    """All replayed groups.

    `topology`: topics, if known. `damaged`: records were lost. `known_groups`: the ids of all
    groups, requested or not. `histories`: by partition of `__consumer_offsets`, those of requested
    groups. `shares`: states of the share-partitions of requested groups, if they were read.

    Only for a live cluster: `ends`, log end offsets, as far as they were read; `leaderless`,
    partitions of which they are unknown, as these have no leader; `coordinators`, the broker that
    leads each partition of `__consumer_offsets`.
    """

    groups: list[ReplayedGroup] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    names: dict[Uuid, str] = field(default_factory=dict)
    topology: Topology | None = None
    ends: Mapping[TopicPartition, int] | None = None
    leaderless: Collection[TopicPartition] = ()
    coordinators: Mapping[int | None, str] = field(default_factory=dict)
    damaged: bool = False
    known_groups: set[str] = field(default_factory=set)
    histories: dict[int | None, History] = field(default_factory=dict)
    shares: dict[str, dict[Partition, ReplayedShare]] = field(default_factory=dict)

    def labels(self, **how: Any) -> Labels:
        """Return how sentences show names."""
        return Labels(names=self.names, **how)

    def at(self, partition: Partition) -> tuple[str, int]:
        """Return a partition with its topic's name, or its id if the name is unknown."""
        topic, number = partition
        return (topic if isinstance(topic, str) else self.names.get(topic, str(topic))), number

    def racks(self, partition: tuple[str, int]) -> tuple[str | None, ...] | None:
        """Return the racks of a partition's replicas, the leader's first; `None` if unknown."""
        if self.topology is None:
            return None
        number = self.topology.number(*partition)
        if number < 0:
            return None
        topic = self.topology.topics[self.topology.index[partition[0]]]
        return (
            tuple(topic.racks[number - int(self.topology.first[self.topology.index[partition[0]]])])
            if topic.racks
            else None
        )

    def is_local(self, rack: str | None, partition: Partition) -> bool | None:
        """Return whether a replica is in the member's rack; `None` if either is unknown."""
        racks = self.racks(self.at(partition))
        return None if rack is None or not racks or not any(racks) else rack in racks

    def topics_of(self, one: ReplayedGroup) -> set[str]:
        """Return the topics of a group's subscriptions, offsets and assignments."""
        topics = set(one.view.topics or ())
        topics |= {topic for topic, _, _ in one.history.state.offsets.of_group(one.view.group_id)}
        for member in one.view.members.values():
            topics |= {self.at(partition)[0] for partition in member.assigned | member.target}
        return topics | {self.at(partition)[0] for partition in self.shares.get(one.view.group_id, ())}


EventsOf: TypeAlias = Literal["none", "groups", "all"]
"""Which events a replay collects: those of groups may lack commits."""


class GroupsReplay:
    """Replays entries up to `moment`, and continues with later ones.

    `next_offsets`, `next_share_offsets`: by partition of `__consumer_offsets` and of
    `__share_group_state`, the offset to continue from.
    """

    def __init__(self, globs: Sequence[str], moment: Moment, *, events: EventsOf) -> None:
        self.next_offsets: dict[int, int] = {}
        self.next_share_offsets: dict[int, int] = {}
        self._globs = globs
        self._wanted: Callable[[str], bool] = matcher(globs) if globs else lambda _: True
        self.moment = moment
        self._events_of = events
        self._noticed: Callable[[str], bool] = self._wanted if events != "none" else lambda _: False
        self._histories: dict[int | None, History] = {}
        self._names: dict[Uuid, str] = {}
        self._events: list[Event] = []
        self._shares: dict[int | None, ShareHistory] = {}
        self._last_ms: int | None = None

    def needs_entries(self, *, shares: bool) -> bool:
        """Return whether all records must be replayed one by one.

        With `shares`, share state is replayed, too, up to the time of an offset.
        """
        moment = self.moment
        return self._events_of == "all" or moment.offset is not None or (moment.offsets is not None and shares)

    def take(self, found: ReplayedGroups, entries: Iterable[LogEntry]) -> None:
        """Replay entries, and update `found`."""
        found.names = self._names = {**self._names, **found.names}
        for entry in self.moment.cut(_checked(entries, self.moment)):
            assert isinstance(entry, LogEntry)
            learn_names(found.names, entry.record)
            one = self._histories.get(entry.partition)
            if one is None:
                one = self._histories[entry.partition] = History(self._noticed)
            self._events += one.take(entry)
            self._last_ms = entry.timestamp_ms if self._last_ms is None else max(self._last_ms, entry.timestamp_ms)
            if entry.partition is not None:
                self.next_offsets[entry.partition] = entry.offset + 1
        self._put(found)

    def take_shares(self, found: ReplayedGroups, entries: Iterable[LogEntry]) -> None:
        """Replay entries of `__share_group_state`, after those of groups, and update `found`.

        If the moment is an offset of `__consumer_offsets`, they are replayed up to its time.
        """
        moment = self.moment
        if self._histories and (moment.offset is not None or moment.offsets is not None):
            moment = Moment(timestamp_ms=-1 if self._last_ms is None else self._last_ms)
        else:
            entries = _checked(entries, moment)
        for entry in moment.cut(entries):
            assert isinstance(entry, LogEntry)
            one = self._shares.get(entry.partition)
            if one is None:
                one = self._shares[entry.partition] = ShareHistory(self._noticed)
            self._events += one.take(entry)
            if entry.partition is not None:
                self.next_share_offsets[entry.partition] = entry.offset + 1
        for partition, one in self._shares.items():
            self._events += one.finish()
            for key, state in one.shard.states.items():
                found.known_groups.add(key.group_id)
                if self._wanted(key.group_id):
                    found.shares.setdefault(key.group_id, {})[key.topic_id, key.partition] = ReplayedShare(
                        log_partition=partition, written_ms=one.written_ms[key], state=state
                    )
        self._sort(found)

    def load(self, found: ReplayedGroups, blocks: Iterable["RawBlock"], *, offsets: bool = True) -> None:
        """Replay blocks, by columns where this is possible, and update `found`. Needs pyarrow.

        Blocks of several partitions may be mixed, those of each partition are in order. Without
        `offsets`, or with events of groups, committed offsets and the names of topics by id may be
        missing.
        """
        if self._events_of == "groups":
            from quorate.coordinator.history.group_entries import entries_of_groups

            self.take(found, entries_of_groups(self._cut(blocks)))
            return
        from quorate.coordinator.bulk import MOST_KEPT, BulkLoad
        from quorate.coordinator.bulk_block import without_offsets

        found.names = self._names = {**self._names, **found.names}
        loads: dict[int | None, BulkLoad] = {}
        for block in self._cut(blocks):
            load = loads.get(block.partition)
            if load is None:
                one = self._histories.setdefault(block.partition, History(lambda _: False))
                names = found.names if offsets else None
                load = loads[block.partition] = BulkLoad(one.state, strict=False, names=names)
            load.add(block if offsets else without_offsets(block))
            if block.partition is not None and len(block):
                self.next_offsets[block.partition] = int(block.offset[-1]) + 1
            if sum(one.kept for one in loads.values()) > MOST_KEPT:
                for full in loads.values():
                    full.flush()
        for load in loads.values():
            load.flush()
        self._put(found)

    def _cut(self, blocks: Iterable["RawBlock"]) -> Iterator["RawBlock"]:
        over: set[int | None] = set()
        for block in blocks:
            within = self.moment.within(block.partition)
            if within is not None and block.partition not in over:
                part, is_over = block.upto(offset=within[0], timestamp_ms=within[1])
                if is_over:
                    over.add(block.partition)
                yield part

    def _put(self, found: ReplayedGroups) -> None:
        for one in self._histories.values():
            self._events += one.finish()
        self._sort(found)
        for partition, one in self._histories.items():
            found.known_groups |= one.state.groups.keys()
            wanted = [
                ReplayedGroup(partition=partition, history=one, view=view(group))
                for group_id, group in one.state.groups.items()
                if self._wanted(group_id)
            ]
            found.groups += wanted
            if wanted or not self._globs:
                found.histories[partition] = one
        found.groups.sort(key=lambda one: one.view.group_id)

    def _sort(self, found: ReplayedGroups) -> None:
        self._events.sort(
            key=lambda event: (
                event.timestamp_ms,
                event.topic,
                -1 if event.partition is None else event.partition,
                event.offset,
            )
        )
        found.events = list(self._events)


def _checked(entries: Iterable[LogEntry], moment: Moment) -> Iterator[LogEntry]:
    """Check entries. Raises `InputError` if an offset is ambiguous among several partitions."""
    seen: set[int | None] = set()
    for entry in entries:
        seen.add(entry.partition)
        if moment.offset is not None and len(seen) > 1:
            raise InputError(
                f"--at {moment.offset} is ambiguous, as there are several partitions",
                f"use --at {entry.partition}:{moment.offset}",
            )
        yield entry


def copied(partitions: Iterable[int | None]) -> set[int]:
    """Return partitions that occur more than once, as in the log directories of several brokers."""
    counts = Counter(partitions)
    return {partition for partition, count in counts.items() if count > 1 and partition is not None}


def once(entries: Iterable[LogEntry], copies: Collection[int], topic: str = CONSUMER_OFFSETS) -> Iterator[LogEntry]:
    """Yield each record of a partition once, from several copies of the partition.

    Raises `InputError` if the copies differ.
    """
    times: dict[int, dict[int, int]] = {partition: {} for partition in copies}
    ends = dict.fromkeys(copies, -1)
    for entry in entries:
        partition = entry.partition
        if partition is not None and partition in times:
            known = times[partition].setdefault(entry.offset, entry.timestamp_ms)
            if known != entry.timestamp_ms:
                raise InputError(
                    f"two copies of {topic}-{partition} differ: offset {entry.offset:,} has different timestamps",
                    "use the logs of one cluster only",
                )
            if entry.offset <= ends[partition]:
                continue
            ends[partition] = entry.offset
        yield entry


def check_places(
    moment: Moment,
    partitions: Collection[int | None],
    where: str,
    topic: str = CONSUMER_OFFSETS,
    option: str = "--at",
) -> None:
    """Raise `InputError` for offsets of missing partitions.

    Not all files are of a known partition. `option` names the option of the moment.
    """
    if None in partitions:
        return
    offsets = moment.offsets or {}
    if missing := [partition for partition in offsets if partition not in partitions]:
        known = sorted(partition for partition in partitions if partition is not None)
        present = (
            f"0 to {known[-1]}" if len(known) > 2 and known == list(range(len(known))) else ", ".join(map(str, known))
        )
        raise InputError(
            f"{option} {missing[0]}:{offsets[missing[0]]}: {where} has no partition {missing[0]} of {topic}",
            f"it has {present}",
        )

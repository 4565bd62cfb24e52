"""Groups of a log, replayed up to a moment, with what is known of their topics.

Where entries come from is not known here.
"""

import fnmatch
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quorate.assignors import TopicPartition, Topology
from quorate.codecs import Uuid
from quorate.codecs.errors import InputError
from quorate.codecs.log.model import LogEntry
from quorate.codecs.record_text import learn_names
from quorate.codecs.records import CONSUMER_OFFSETS
from quorate.coordinator.history.events import Event, History, Moment
from quorate.coordinator.history.views import GroupView, view
from quorate.coordinator.history.words import Partition, Words

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = ["GroupsReplay", "ReplayedGroup", "ReplayedGroups", "check_places", "copied", "once"]


@dataclass(frozen=True, kw_only=True)
class ReplayedGroup:
    """A group, and the partition of `__consumer_offsets` that it is in."""

    partition: int | None
    history: History
    view: GroupView


@dataclass(kw_only=True)
class ReplayedGroups:
    """Everything that was read.

    `topology`: topics, where they are known; `damaged`: records were lost.

    On a live cluster: `ends`, log end offsets, and `coordinators`, the broker that leads each
    partition of `__consumer_offsets`.

    `there`: the names of all groups that are known, whether asked for or not; `histories`: the
    partitions of `__consumer_offsets`, of those that are asked for.
    """

    groups: list[ReplayedGroup] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    names: dict[Uuid, str] = field(default_factory=dict)
    topology: Topology | None = None
    ends: Mapping[TopicPartition, int] | None = None
    coordinators: Mapping[int | None, str] = field(default_factory=dict)
    damaged: bool = False
    there: set[str] = field(default_factory=set)
    histories: dict[int | None, History] = field(default_factory=dict)

    def words(self, **how: Any) -> Words:
        """How facts are told."""
        return Words(names=self.names, **how)

    def at(self, partition: Partition) -> tuple[str, int]:
        """A partition with its topic's name, or its id if that is all there is."""
        topic, number = partition
        return (topic if isinstance(topic, str) else self.names.get(topic, str(topic))), number

    def racks(self, partition: tuple[str, int]) -> tuple[str | None, ...] | None:
        """The racks of a partition's replicas, the leader's first; `None` if they are not known."""
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
        """Whether a replica is in the member's rack; `None` if one of both is not known."""
        racks = self.racks(self.at(partition))
        return None if rack is None or not racks or not any(racks) else rack in racks

    def topics_of(self, one: ReplayedGroup) -> set[str]:
        """The topics that a group subscribes to, has offsets of, or whose partitions its members have or are to have."""
        topics = set(one.view.topics or ())
        topics |= {topic for topic, _, _ in one.history.state.offsets.of_group(one.view.group_id)}
        for member in one.view.members.values():
            topics |= {self.at(partition)[0] for partition in member.assigned | member.target}
        return topics


class GroupsReplay:
    """Replays entries up to `moment`, and goes on with later ones.

    `next_offsets`: by partition, where to go on.
    """

    def __init__(self, globs: Sequence[str], moment: Moment, *, history: bool) -> None:
        self.next_offsets: dict[int, int] = {}
        self._match = re.compile("|".join(fnmatch.translate(glob) for glob in globs)).match if globs else None
        self.moment = moment
        self._history = history
        self._histories: dict[int | None, History] = {}
        self._names: dict[Uuid, str] = {}
        self._events: list[Event] = []

    def _wanted(self, group_id: str) -> bool:
        return self._match is None or self._match(group_id) is not None

    def take(self, found: ReplayedGroups, entries: Iterable[LogEntry]) -> None:
        """Take entries in; put what is known after them into `found`."""
        found.names = self._names = {**self._names, **found.names}
        for entry in self.moment.cut(_checked(entries, self.moment)):
            assert isinstance(entry, LogEntry)
            learn_names(found.names, entry.record)
            one = self._histories.get(entry.partition)
            if one is None:
                one = self._histories[entry.partition] = History(self._wanted if self._history else lambda _: False)
            self._events += one.take(entry)
            if entry.partition is not None:
                self.next_offsets[entry.partition] = entry.offset + 1
        self._put(found)

    def load(self, found: ReplayedGroups, partitions: Iterable[tuple[int | None, Iterable["RawBlock"]]]) -> None:
        """Take the blocks of these partitions in, many records at a time, for callers that need no events; put what is known after them into `found`."""
        from quorate.coordinator.bulk import replay_blocks

        found.names = self._names = {**self._names, **found.names}
        over: set[int | None] = set()
        for partition, blocks in partitions:
            within = self.moment.within(partition)
            one = self._histories.setdefault(partition, History(lambda _: False))
            if within is None or partition in over:
                for _ in blocks:  # their damage is reported all the same
                    pass
            else:
                replay_blocks(one.state, self._cut(blocks, within, over), names=found.names)
        self._put(found)

    def _cut(
        self, blocks: Iterable["RawBlock"], within: tuple[int | None, int | None], over: set[int | None]
    ) -> Iterator["RawBlock"]:
        for block in blocks:
            if block.partition not in over:
                part, is_over = block.upto(offset=within[0], timestamp_ms=within[1])
                if is_over:
                    over.add(block.partition)
                yield part

    def _put(self, found: ReplayedGroups) -> None:
        for one in self._histories.values():
            self._events += one.finish()
        self._events.sort(
            key=lambda event: (event.timestamp_ms, -1 if event.partition is None else event.partition, event.offset)
        )
        found.events = list(self._events)
        for partition, one in self._histories.items():
            found.there |= one.state.groups.keys()
            wanted = [
                ReplayedGroup(partition=partition, history=one, view=view(group))
                for group_id, group in one.state.groups.items()
                if self._wanted(group_id)
            ]
            found.groups += wanted
            if wanted or self._match is None:
                found.histories[partition] = one
        found.groups.sort(key=lambda one: one.view.group_id)


def _checked(entries: Iterable[LogEntry], moment: Moment) -> Iterator[LogEntry]:
    """Raises `InputError` where an offset alone could mean several partitions."""
    seen: set[int | None] = set()
    for entry in entries:
        seen.add(entry.partition)
        if moment.offset is not None and len(seen) > 1:
            raise InputError(
                f"--at {moment.offset} is an offset, and there are several partitions",
                f"say which: --at {entry.partition}:{moment.offset}",
            )
        yield entry


def copied(partitions: Iterable[int | None]) -> set[int]:
    """Partitions that are there more than once, as in the log directories of several brokers."""
    counts = Counter(partitions)
    return {partition for partition, count in counts.items() if count > 1 and partition is not None}


def once(entries: Iterable[LogEntry], copies: Collection[int]) -> Iterator[LogEntry]:
    """Each record of a partition once, though there are copies of it.

    Raises `InputError` where they are no copies of one another.
    """
    times: dict[int, dict[int, int]] = {partition: {} for partition in copies}
    ends = dict.fromkeys(copies, -1)
    for entry in entries:
        partition = entry.partition
        if partition is not None and partition in times:
            known = times[partition].setdefault(entry.offset, entry.timestamp_ms)
            if known != entry.timestamp_ms:
                raise InputError(
                    f"{CONSUMER_OFFSETS}-{partition} is there twice, and not the same: offset {entry.offset:,} has two times",
                    "give the logs of one cluster at a time",
                )
            if entry.offset <= ends[partition]:
                continue
            ends[partition] = entry.offset
        yield entry


def check_places(moment: Moment, there: Collection[int | None], where: str) -> None:
    """Raises `InputError` for offsets of partitions that are not there.

    Files do not always tell which partition they are of.
    """
    if None in there:
        return
    if missing := [one for one in moment.offsets or () if one not in there]:
        known = sorted(one for one in there if one is not None)
        told = (
            f"0 to {known[-1]}" if len(known) > 2 and known == list(range(len(known))) else ", ".join(map(str, known))
        )
        raise InputError(
            f"--at {missing[0]}:{(moment.offsets or {})[missing[0]]}: {where} has no partition {missing[0]} of {CONSUMER_OFFSETS}",
            f"it has {told}",
        )

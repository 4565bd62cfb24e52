"""What `quorate groups` looks at: groups replayed from files or a live cluster, up to a moment, with what is known of topics."""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from quorate.assignors import TopicPartition, Topology
from quorate.cli.errors import UserError
from quorate.cli.filters import read_time
from quorate.cli.reporting import byte_progress, show_damage
from quorate.cli.sources import LogFiles, live_entries
from quorate.codecs import Uuid
from quorate.codecs.log_model import LogEntry, LogProblem, is_damage
from quorate.codecs.records import CONSUMER_OFFSETS
from quorate.coordinator.history import Event, GroupView, History, Moment, Words, view
from quorate.coordinator.history.words import Partition, learn_names

__all__ = ["Found", "FoundGroup", "read_files", "read_live", "read_moment"]


@dataclass(frozen=True, kw_only=True)
class FoundGroup:
    """A group, and the partition of `__consumer_offsets` that it is in."""

    partition: int | None
    history: History
    view: GroupView


@dataclass(kw_only=True)
class Found:
    """Everything that was read. `topology`: topics, where they are known; `ends`: log end offsets, on a live cluster; `damaged`: records were lost."""

    groups: list[FoundGroup] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    names: dict[Uuid, str] = field(default_factory=dict)
    topology: Topology | None = None
    ends: Mapping[TopicPartition, int] | None = None
    damaged: bool = False

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


def read_moment(text: str | None) -> Moment:
    """`--at`: an ISO time, ms since 1970, an age (2h), PARTITION:OFFSET, or an offset where one partition is read. Raises `UserError`."""
    if text is None:
        return Moment()
    place = re.fullmatch(r"(\d{1,10}):(\d+)", text)
    if place is not None:
        return Moment(offsets={int(place[1]): int(place[2])})
    if re.fullmatch(r"\d{1,10}", text):
        return Moment(offset=int(text))
    return Moment(timestamp_ms=read_time("--at", text, datetime.now(UTC)))


def read_files(
    paths: Sequence[str], globs: Sequence[str], moment: Moment, topology: str | None, *, history: bool
) -> Found:
    """Groups from a log. `topology`: a file that tells topics; `history`: collect events. Raises `UserError`."""
    found = Found()
    if topology is not None:
        from quorate.cli.assign_describe import read_topology

        found.topology, _ = read_topology(topology)
        found.names = {topic.id: topic.name for topic in found.topology.topics if topic.id is not None}
    files = LogFiles(paths, topics=(CONSUMER_OFFSETS,))
    with byte_progress(files.size_bytes, wanted=True) as progress:
        entries = files.entries(skip_corrupt=True, progress=progress)
        _take(found, _log_entries(entries, found), globs, moment, history=history)
    return found


def _log_entries(entries: Iterable[Any], found: Found) -> Iterator[LogEntry]:
    for entry in entries:
        if isinstance(entry, LogEntry):
            yield entry
        elif isinstance(entry, LogProblem) and is_damage(entry, skip_corrupt=False):
            found.damaged = True
            show_damage(entry)


def read_live(
    servers: Sequence[str],
    globs: Sequence[str],
    moment: Moment,
    config: Mapping[str, Any],
    connect_timeout_ms: int,
    *,
    history: bool,
    committed: bool,
) -> Found:
    """Groups of a cluster, from its `__consumer_offsets`. `committed`: leave out what open and aborted transactions wrote. Raises `UserError`."""
    from quorate.cli.admin import open_admin, partition_of, read_topology, topic_ids

    found = Found()
    with open_admin(servers, config, connect_timeout_ms, "reading groups") as (admin, where):
        count = sum(len(topic["partitions"]) for topic in admin.describe_topics([CONSUMER_OFFSETS]))
        if not count:
            raise UserError(
                f"{where}: {CONSUMER_OFFSETS} is not there, or may not be described", "it takes DESCRIBE and READ on it"
            )
        exact = [glob for glob in globs if not re.search(r"[*?\[]", glob)]
        partitions = (
            sorted({partition_of(group, count) for group in exact}) if exact and len(exact) == len(globs) else None
        )
        found.names = topic_ids(admin)
        entries = live_entries(
            servers,
            CONSUMER_OFFSETS,
            partitions=partitions,
            isolation_level="read_committed" if committed else "read_uncommitted",
            connect_timeout_ms=connect_timeout_ms,
            **config,
        )
        _take(found, entries, globs, moment, history=history)
        wanted = {name for one in found.groups for name in _topics(found, one)}
        found.topology = read_topology(admin, wanted)
        found.ends = _ends(admin, found)
    return found


def _take(found: Found, entries: Iterable[LogEntry], globs: Sequence[str], moment: Moment, *, history: bool) -> None:
    match = re.compile("|".join(fnmatch.translate(glob) for glob in globs)).match if globs else None
    wanted = None if match is None else lambda group: match(group) is not None
    histories: dict[int | None, History] = {}
    for entry in moment.cut(_checked(entries, moment)):
        assert isinstance(entry, LogEntry)
        learn_names(found.names, entry.record)
        one = histories.get(entry.partition)
        if one is None:
            one = histories[entry.partition] = History(wanted if history else lambda _: False)
        found.events += one.take(entry)
    for one in histories.values():
        found.events += one.finish()
    found.events.sort(
        key=lambda event: (event.timestamp_ms, -1 if event.partition is None else event.partition, event.offset)
    )
    found.groups = sorted(
        (
            FoundGroup(partition=partition, history=one, view=view(group))
            for partition, one in histories.items()
            for group_id, group in one.state.groups.items()
            if match is None or match(group_id)
        ),
        key=lambda one: one.view.group_id,
    )


def _checked(entries: Iterable[LogEntry], moment: Moment) -> Iterator[LogEntry]:
    """Raises `UserError` where an offset alone could mean several partitions."""
    seen: set[int | None] = set()
    for entry in entries:
        seen.add(entry.partition)
        if moment.offset is not None and len(seen) > 1:
            raise UserError(
                f"--at {moment.offset} is an offset, and there are several partitions",
                f"say which: --at {entry.partition}:{moment.offset}",
            )
        yield entry


def _topics(found: Found, one: FoundGroup) -> set[str]:
    topics = set(one.view.topics or ())
    topics |= {topic for topic, _, _ in one.history.state.offsets.of_group(one.view.group_id)}
    for member in one.view.members.values():
        topics |= {found.at(partition)[0] for partition in member.assigned | member.target}
    return topics


def _ends(admin: Any, found: Found) -> dict[TopicPartition, int]:
    from kafka.admin import OffsetSpec
    from kafka.structs import TopicPartition as At

    topology = found.topology
    wanted = {
        At(topic, number): OffsetSpec.LATEST
        for one in found.groups
        for topic, number, _ in one.history.state.offsets.of_group(one.view.group_id)
        if topology is not None and topology.number(topic, number) >= 0
    }
    if not wanted:
        return {}
    from quorate.cli.admin import REQUEST_TIMEOUT_MS

    told = admin.list_partition_offsets(wanted, timeout_ms=REQUEST_TIMEOUT_MS)
    return {TopicPartition(at.topic, at.partition): end.offset for at, end in told.items()}

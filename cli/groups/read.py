"""What `quorate groups` looks at: groups replayed from files or a live cluster, up to a moment, with what is known of topics."""

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from quorate.assignors import TopicPartition, Topology
from quorate.cli.decode.filters import read_time
from quorate.cli.errors import UserError
from quorate.cli.reporting import byte_progress, show_damage
from quorate.cli.sources import BATCH_OVERHEAD_BYTES, LogFiles, live_entries
from quorate.codecs import Uuid
from quorate.codecs.log.files import PartitionFiles
from quorate.codecs.log.model import LogEntry, LogProblem, is_damage
from quorate.codecs.records import CONSUMER_OFFSETS
from quorate.coordinator.history import Event, GroupView, History, Moment, Words, view
from quorate.coordinator.history.words import Partition, learn_names

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = ["Found", "FoundGroup", "LiveGroups", "read_files", "read_moment"]


@dataclass(frozen=True, kw_only=True)
class FoundGroup:
    """A group, and the partition of `__consumer_offsets` that it is in."""

    partition: int | None
    history: History
    view: GroupView


@dataclass(kw_only=True)
class Found:
    """Everything that was read. `topology`: topics, where they are known; `damaged`: records were lost.

    On a live cluster: `ends`, log end offsets, and `coordinators`, the broker that leads each partition of `__consumer_offsets`.

    `there`: the names of all groups that are known, whether asked for or not; `histories`: the partitions of `__consumer_offsets`, of those that are asked for.
    """

    groups: list[FoundGroup] = field(default_factory=list)
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


def read_moment(text: str | None, option: str = "--at") -> Moment:
    """An ISO time, ms since 1970, an age (2h), PARTITION:OFFSET (several with commas), or an offset where one partition is read. Raises `UserError`."""
    if text is None:
        return Moment()
    places = [re.fullmatch(r"(\d{1,10}):(\d{1,18})", one.strip()) for one in text.split(",")]
    if all(places):
        offsets: dict[int | None, int] = {}
        for place in filter(None, places):
            if int(place[1]) in offsets:
                raise UserError(f"{option} {text}: partition {int(place[1])} is there twice")
            offsets[int(place[1])] = int(place[2])
        return Moment(offsets=offsets)
    if any(places):
        raise UserError(
            f"{option} {text}: is neither a time nor offsets of partitions", "give these as in 17:4711,18:42"
        )
    if re.fullmatch(r"\d{1,10}", text):
        return Moment(offset=int(text))
    return Moment(timestamp_ms=read_time(option, text, datetime.now(UTC)))


def read_files(
    paths: Sequence[str], globs: Sequence[str], moment: Moment, topology: str | None, *, history: bool
) -> Found:
    """Groups from a log. `topology`: a file that tells topics; `history`: collect events. Raises `UserError`."""
    found = Found()
    if topology is not None:
        from quorate.cli.assign.describe import read_topology

        found.topology, _ = read_topology(topology)
        found.names = {topic.id: topic.name for topic in found.topology.topics if topic.id is not None}
    files = LogFiles(paths, topics=(CONSUMER_OFFSETS,))
    _check_places(moment, {one.partition for one in files.partitions}, "what is read")
    with byte_progress(files.size_bytes, wanted=True) as progress:
        replay = _Replay(globs, moment, history=history)
        copies = _copied(files)
        if history or copies or moment.offset is not None or find_spec("pyarrow") is None:
            entries = _log_entries(files.entries(skip_corrupt=True, progress=progress), found)
            replay.take(found, _once(entries, copies))
        else:
            replay.load(found, files, progress)
    return found


def _check_places(moment: Moment, there: Collection[int | None], where: str) -> None:
    """Raises `UserError` for offsets of partitions that are not there. Files do not always tell which partition they are of."""
    if None in there:
        return
    if missing := [one for one in moment.offsets or () if one not in there]:
        known = sorted(one for one in there if one is not None)
        told = (
            f"0 to {known[-1]}" if len(known) > 2 and known == list(range(len(known))) else ", ".join(map(str, known))
        )
        raise UserError(
            f"--at {missing[0]}:{(moment.offsets or {})[missing[0]]}: {where} has no partition {missing[0]} of {CONSUMER_OFFSETS}",
            f"it has {told}",
        )


def _log_entries(entries: Iterable[Any], found: Found) -> Iterator[LogEntry]:
    for entry in entries:
        if isinstance(entry, LogEntry):
            yield entry
        elif isinstance(entry, LogProblem):
            _tell(entry, found)


def _copied(files: LogFiles) -> set[int]:
    """Partitions that are there more than once, as in the log directories of several brokers."""
    counts = Counter(one.partition for one in files.partitions)
    return {partition for partition, count in counts.items() if count > 1 and partition is not None}


def _once(entries: Iterable[LogEntry], copies: Collection[int]) -> Iterator[LogEntry]:
    """Each record of a partition once, though there are copies of it. Raises `UserError` where they are no copies of one another."""
    times: dict[int, dict[int, int]] = {partition: {} for partition in copies}
    ends = dict.fromkeys(copies, -1)
    for entry in entries:
        partition = entry.partition
        if partition is not None and partition in times:
            known = times[partition].setdefault(entry.offset, entry.timestamp_ms)
            if known != entry.timestamp_ms:
                raise UserError(
                    f"{CONSUMER_OFFSETS}-{partition} is there twice, and not the same: offset {entry.offset:,} has two times",
                    "give the logs of one cluster at a time",
                )
            if entry.offset <= ends[partition]:
                continue
            ends[partition] = entry.offset
        yield entry


def _tell(problem: LogProblem, found: Found) -> None:
    if is_damage(problem, skip_corrupt=False):
        found.damaged = True
        show_damage(problem, skipped=True)


class LiveGroups:
    """Groups of a cluster, from its `__consumer_offsets`. Each `read` goes on where the last one ended.

    `committed`: leave out what open and aborted transactions wrote; the rest as for `read_files`.
    """

    def __init__(
        self,
        servers: Sequence[str],
        globs: Sequence[str],
        moment: Moment,
        config: Mapping[str, Any],
        connect_timeout_ms: int,
        *,
        history: bool,
        committed: bool,
    ) -> None:
        self._servers = servers
        self._globs = globs
        self._config = config
        self._connect_timeout_ms = connect_timeout_ms
        self._isolation_level = "read_committed" if committed else "read_uncommitted"
        self._replay = _Replay(globs, moment, history=history)

    def read(self) -> Found:
        """What there is now. Raises `UserError`."""
        from quorate.cli.admin import open_admin, read_topology, topic_ids
        from quorate.coordinator.partitioning import partition_for

        found = Found()
        with open_admin(self._servers, self._config, self._connect_timeout_ms, "reading groups") as (admin, where):
            coordinated = [one for topic in admin.describe_topics([CONSUMER_OFFSETS]) for one in topic["partitions"]]
            count = len(coordinated)
            if not count:
                raise UserError(
                    f"{where}: {CONSUMER_OFFSETS} is not there, or may not be described",
                    "brokers create it when the first group needs it; to read it takes DESCRIBE and READ on it",
                )
            _check_places(self._replay.moment, range(count), where)
            exact = [glob for glob in self._globs if not re.search(r"[*?\[]", glob)]
            partitions = (
                sorted({partition_for(group, count) for group in exact})
                if exact and len(exact) == len(self._globs)
                else None
            )
            found.names = topic_ids(admin)
            brokers = {one["broker_id"]: f"{one['host']}:{one['port']}" for one in admin.describe_cluster()["brokers"]}
            found.coordinators = {
                one["partition_index"]: f"{brokers[one['leader_id']]} ({one['leader_id']})"
                for one in coordinated
                if one["leader_id"] in brokers
            }
            entries = live_entries(
                self._servers,
                CONSUMER_OFFSETS,
                partitions=partitions,
                start_offsets=self._replay.next_offsets,
                isolation_level=self._isolation_level,
                connect_timeout_ms=self._connect_timeout_ms,
                **self._config,
            )
            self._replay.take(found, entries)
            if not found.groups:
                found.there |= {group["group_id"] for group in admin.list_groups()}
            wanted = {name for one in found.groups for name in _topics(found, one)}
            found.topology = read_topology(admin, wanted)
            found.ends = _ends(admin, found)
        return found


class _Replay:
    """Replays entries up to `moment`, and goes on with later ones. `next_offsets`: by partition, where to go on."""

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

    def take(self, found: Found, entries: Iterable[LogEntry]) -> None:
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

    def load(self, found: Found, files: LogFiles, progress: Callable[[int], None] | None) -> None:
        """Take all of these files in, many records at a time, where nobody asks for events; put what is known after them into `found`."""
        from quorate.coordinator.bulk import replay_blocks

        found.names = self._names = {**self._names, **found.names}
        over: set[int | None] = set()
        behind = 0
        for partition in files.partitions:
            within = self.moment.within(partition.partition)
            one = self._histories.setdefault(partition.partition, History(lambda _: False))
            blocks = _blocks(partition, found, behind, progress)
            if within is None or partition.partition in over:
                for _ in blocks:  # what is damaged is told all the same
                    pass
            else:
                replay_blocks(one.state, self._cut(blocks, within, over), names=found.names)
            behind += sum(segment.size_bytes for segment in partition.segments)
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

    def _put(self, found: Found) -> None:
        for one in self._histories.values():
            self._events += one.finish()
        self._events.sort(
            key=lambda event: (event.timestamp_ms, -1 if event.partition is None else event.partition, event.offset)
        )
        found.events = list(self._events)
        for partition, one in self._histories.items():
            found.there |= one.state.groups.keys()
            wanted = [
                FoundGroup(partition=partition, history=one, view=view(group))
                for group_id, group in one.state.groups.items()
                if self._wanted(group_id)
            ]
            found.groups += wanted
            if wanted or self._match is None:
                found.histories[partition] = one
        found.groups.sort(key=lambda one: one.view.group_id)


def _blocks(
    files: PartitionFiles, found: Found, behind: int, progress: Callable[[int], None] | None
) -> Iterator["RawBlock"]:
    """A partition block by block, its damage told; `behind` bytes of other files are behind."""
    from quorate.codecs.log.raw import read_raw

    for block in read_raw(files, skip_corrupt=True):
        for problem in block.problems:
            _tell(problem, found)
        yield block
        if progress is not None:
            behind += block.size_bytes + BATCH_OVERHEAD_BYTES * len(block)
            progress(behind)


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

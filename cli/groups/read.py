"""What `quorate groups` looks at: groups from files or a live cluster, up to a moment."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from quorate.assignors import TopicPartition
from quorate.cli.errors import UserError
from quorate.cli.reporting import byte_progress, show_damage
from quorate.cli.sources import BATCH_OVERHEAD_BYTES, LogFiles
from quorate.codecs.log import IsolationLevel
from quorate.codecs.log.files import PartitionFiles
from quorate.codecs.log.model import LogEntry, LogProblem, is_damage
from quorate.codecs.records import CONSUMER_OFFSETS
from quorate.coordinator.history import Moment
from quorate.coordinator.history.reading import Found, GroupsReplay, copied, once

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = ["LiveGroups", "read_files"]


def read_files(
    paths: Sequence[str], globs: Sequence[str], moment: Moment, topology: str | None, *, history: bool
) -> Found:
    """Groups from a log. `topology`: a file that tells topics; `history`: collect events. Raises `UserError`."""
    found = Found()
    if topology is not None:
        from quorate.assignors.what_if.description import read_topology

        found.topology, _ = read_topology(topology)
        found.names = {topic.id: topic.name for topic in found.topology.topics if topic.id is not None}
    files = LogFiles(paths, topics=(CONSUMER_OFFSETS,))
    _check_places(moment, {one.partition for one in files.partitions}, "what is read")
    with byte_progress(files.size_bytes, wanted=True) as progress:
        replay = GroupsReplay(globs, moment, history=history)
        copies = copied(one.partition for one in files.partitions)
        if history or copies or moment.offset is not None or find_spec("pyarrow") is None:
            entries = _log_entries(files.entries(skip_corrupt=True, progress=progress), found)
            replay.take(found, once(entries, copies))
        else:
            replay.load(found, _blocks(files, found, progress))
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
        self._isolation_level: IsolationLevel = "read_committed" if committed else "read_uncommitted"
        self._replay = GroupsReplay(globs, moment, history=history)

    def read(self) -> Found:
        """What there is now. Raises `UserError`."""
        from quorate.cli.admin import end_offsets, open_admin, read_topology, topic_ids
        from quorate.codecs.live import read_live
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
            entries = read_live(
                self._servers,
                topic=CONSUMER_OFFSETS,
                partitions=partitions,
                start_offsets=self._replay.next_offsets,
                isolation_level=self._isolation_level,
                connect_timeout_ms=self._connect_timeout_ms,
                **self._config,
            )
            self._replay.take(found, entries)
            if not found.groups:
                found.there |= {group["group_id"] for group in admin.list_groups()}
            found.topology = read_topology(admin, {name for one in found.groups for name in found.topics_of(one)})
            committed = [
                TopicPartition(topic, number)
                for one in found.groups
                for topic, number, _ in one.history.state.offsets.of_group(one.view.group_id)
            ]
            found.ends = end_offsets(admin, (one for one in committed if found.topology.number(*one) >= 0))
        return found


def _blocks(
    files: LogFiles, found: Found, progress: Callable[[int], None] | None
) -> Iterator[tuple[int | None, Iterator["RawBlock"]]]:
    """Each partition with its blocks, their damage reported."""
    from quorate.codecs.log.raw import read_raw

    done = 0

    def blocks(partition: PartitionFiles) -> Iterator["RawBlock"]:
        at = done
        for block in read_raw(partition, skip_corrupt=True):
            for problem in block.problems:
                _tell(problem, found)
            yield block
            if progress is not None:
                at += block.size_bytes + BATCH_OVERHEAD_BYTES * len(block)
                progress(at)

    for partition in files.partitions:
        yield partition.partition, blocks(partition)
        done += sum(segment.size_bytes for segment in partition.segments)

"""Read groups from log files, up to a moment, for `quorate groups`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from quorate.cli.reporting import byte_progress, show_damage
from quorate.codecs.log.model import LogEntry, LogProblem, is_damage
from quorate.codecs.log.partitions import BATCH_OVERHEAD_BYTES, LogPartitions
from quorate.codecs.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.coordinator.history import Moment
from quorate.coordinator.history.replay import EventsOf, GroupsReplay, ReplayedGroups, check_places, copied, once

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock


def read_files(
    paths: Sequence[str],
    globs: Sequence[str],
    moment: Moment,
    topology: str | None,
    *,
    events: EventsOf,
    offsets: bool = True,
) -> ReplayedGroups:
    """Return the groups of a log.

    `topology` is a file that describes topics; `events`: those that are collected; without
    `offsets`, committed offsets and topic names may be missing. Raises `UserError`.
    """
    found = ReplayedGroups()
    if topology is not None:
        from quorate.assignors.what_if.description import read_topology

        found.topology, _ = read_topology(topology)
        found.names = {topic.id: topic.name for topic in found.topology.topics if topic.id is not None}
    both = LogPartitions(paths, topics=(CONSUMER_OFFSETS, SHARE_GROUP_STATE))
    files, shares = both.of_topic(CONSUMER_OFFSETS), both.of_topic(SHARE_GROUP_STATE)
    topic, addressed = (CONSUMER_OFFSETS, files) if files.partitions else (SHARE_GROUP_STATE, shares)
    check_places(moment, {one.partition for one in addressed.partitions}, "what is read", topic)
    with byte_progress(both.size_bytes) as progress:
        replay = GroupsReplay(globs, moment, events=events)
        if files.partitions:
            _read_groups(replay, found, files, progress, shares=bool(shares.partitions), offsets=offsets)
        if shares.partitions:
            copies = copied(one.partition for one in shares.partitions)
            advance = None if progress is None else lambda done: progress(files.size_bytes + done)
            entries = _log_entries(shares.entries(skip_corrupt=True, progress=advance), found)
            replay.take_shares(found, once(entries, copies, SHARE_GROUP_STATE))
    return found


def _read_groups(
    replay: GroupsReplay,
    found: ReplayedGroups,
    files: LogPartitions,
    progress: Callable[[int], None] | None,
    *,
    shares: bool,
    offsets: bool,
) -> None:
    copies = copied(partition.partition for partition in files.partitions)
    if copies or find_spec("pyarrow") is None or replay.needs_entries(shares=shares):
        entries = _log_entries(files.entries(skip_corrupt=True, progress=progress), found)
        replay.take(found, once(entries, copies))
    else:
        replay.load(found, _blocks(files, found, progress, markers=offsets), offsets=offsets)


def _log_entries(entries: Iterable[Any], found: ReplayedGroups) -> Iterator[LogEntry]:
    for entry in entries:
        if isinstance(entry, LogEntry):
            yield entry
        elif isinstance(entry, LogProblem):
            _report(entry, found)


def _report(problem: LogProblem, found: ReplayedGroups) -> None:
    if is_damage(problem, skip_corrupt=False):
        found.damaged = True
        show_damage(problem, skipped=True)


def _blocks(
    files: LogPartitions, found: ReplayedGroups, progress: Callable[[int], None] | None, *, markers: bool
) -> Iterator["RawBlock"]:
    """Yield the blocks of all partitions, and report damage.

    Only offsets committed in transactions need `markers`.
    """
    from quorate.codecs.log.raw import read_raw

    done = 0
    for partition in files.partitions:
        at = done
        for block in read_raw(partition, skip_corrupt=True, markers=markers):
            for problem in block.problems:
                _report(problem, found)
            yield block
            if progress is not None:
                at += block.size_bytes + BATCH_OVERHEAD_BYTES * len(block)
                progress(at)
        done += sum(segment.size_bytes for segment in partition.segments)

"""Read a group from a copy of `__consumer_offsets`."""

from datetime import UTC, datetime

from quorate.assignors.what_if.description import read_topology
from quorate.assignors.what_if.situation import GroupSituation
from quorate.cli.reporting import byte_progress, show_damage
from quorate.cli.times import read_time
from quorate.codecs.log.model import LogEntry, LogProblem, is_damage
from quorate.codecs.log.partitions import LogPartitions
from quorate.codecs.records import CONSUMER_OFFSETS
from quorate.coordinator.history.situations import Known, SituationReplay


def read_capture(path: str, group_id: str, until: str | None, topology: str | None) -> GroupSituation:
    """Return the group as of the end of the log, or of the time `until`.

    `topology` is a file that describes topics. Raises `UserError`.
    """
    until_ms = None if until is None else read_time("--until", until, datetime.now(UTC))
    known = Known()
    if topology is not None:
        of_file, lags = read_topology(topology)
        known = Known(topology=of_file, lags=lags)
    replay = SituationReplay(group_id, known)
    files = LogPartitions([path], topics=(CONSUMER_OFFSETS,))
    # Only records of committed offsets are transactional, so isolation does not affect members.
    with byte_progress(files.size_bytes) as progress:
        for entry in files.entries(until_ms=until_ms, skip_corrupt=True, progress=progress):
            if isinstance(entry, LogProblem):
                if is_damage(entry, skip_corrupt=False):
                    show_damage(entry, skipped=True)
            elif isinstance(entry, LogEntry):
                replay.apply(entry.record, entry.timestamp_ms)
    return replay.situation(path)

"""Read the logs under several paths as one sequence of entries, filtered by topic and partition."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path

from quorate.codecs.batches.frames import MAX_BATCH_BYTES
from quorate.codecs.errors import InputError
from quorate.codecs.log.files import PartitionFiles, find_partitions
from quorate.codecs.log.model import IsolationLevel, LogEntry, LogProblem, check_isolation_level
from quorate.codecs.messages import RECORD_TYPES

BATCH_OVERHEAD_BYTES = 70
"""Approximate size of a record in a batch of its own, without key and value."""

PROGRESS_EVERY = 500
"""Records between two progress reports."""


class LogPartitions:
    """The partitions under some paths, found before anything is read.

    `topics` and `partitions` filter partitions whose folder's name is that of a partition. For a
    file elsewhere, a single one of each is used as its topic or partition. Raises `InputError` if
    there is nothing to read.
    """

    def __init__(self, paths: Sequence[str], *, topics: Collection[str] = (), partitions: Collection[int] = ()) -> None:
        sources = [(path, _partitions(path, topics, partitions)) for path in paths]
        _refuse_repeated(sources)
        self.partitions = [files for _, found in sources for files in found]
        """The partitions in the order in which they are read."""
        self.size_bytes = sum(map(_size, self.partitions))
        self.empty = not self.size_bytes and not any(files.problems for files in self.partitions)

    def of_topic(self, topic: str) -> "LogPartitions":
        """Return those of one topic, perhaps none."""
        found = copy(self)
        found.partitions = [files for files in self.partitions if files.topic == topic]
        found.size_bytes = sum(map(_size, found.partitions))
        return found

    @property
    def all_zeros(self) -> bool:
        """Whether all bytes of the segments are zero. Reads them up to the first other byte."""
        return all(_is_zeros(segment.path) for files in self.partitions for segment in files.segments)

    def entries(
        self,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        since_ms: int | None = None,
        until_ms: int | None = None,
        skip_corrupt: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[LogEntry | LogProblem]:
        """Yield all entries, partition by partition.

        `progress` is called with the approximate number of bytes read so far.
        """
        # Not at import: commands that read columns start without the reader of entries.
        from quorate.codecs.log.entries import PartitionReader, Selection

        committed = check_isolation_level(isolation_level)
        selection = Selection(
            read_committed=committed,
            control_records=not committed,
            start_offset=None,
            end_offset=None,
            since_ms=since_ms,
            until_ms=until_ms,
            skip_corrupt=skip_corrupt,
            max_batch_bytes=MAX_BATCH_BYTES,
        )
        bytes_read = 0
        for files in self.partitions:
            entries = PartitionReader(files, selection).entries()
            if progress is None:
                yield from entries
                continue
            yield from _with_progress(entries, bytes_read, bytes_read + _size(files), progress)
            bytes_read += _size(files)
            progress(bytes_read)


def _partitions(path: str, topics: Collection[str], partitions: Collection[int]) -> list[PartitionFiles]:
    if not path:
        raise InputError("a SOURCE is empty", "give a segment file, a log directory, or . for the current folder")
    only = next(iter(topics)) if len(topics) == 1 else None
    try:
        if _is_partition_path(path):
            found = find_partitions(path)
        else:
            found = find_partitions(path, topic=only, topics=topics or None)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if partitions:
        found = [_with_partition(files, partitions) for files in found]
    chosen = [files for files in found if (files.segments or files.problems) and _is_one_of(files, topics, partitions)]
    if not chosen:
        wanted = [*topics] + [f"partition {number}" for number in partitions]
        names = ", ".join(_name(files) for files in found[:10])
        raise InputError(f"{path}: has no segments of {', '.join(wanted) or 'a coordinator topic'}", f"it has {names}")
    return chosen


def _refuse_repeated(sources: Sequence[tuple[str, Sequence[PartitionFiles]]]) -> None:
    """Reject a segment that is given twice, by any path. Raises `InputError`."""
    seen: dict[Path, str] = {}
    for path, found in sources:
        segments = {segment.path.resolve() for files in found for segment in files.segments}
        for segment in sorted(segments & seen.keys()):
            raise InputError(f"{segment}: is part of both {seen[segment]} and {path}", "give it once")
        seen |= dict.fromkeys(segments, path)


def _is_partition_path(path: str) -> bool:
    """Whether this is the folder of a coordinator topic's partition, or a file in one."""
    place = Path(path).absolute()
    named = re.fullmatch(r"(.+)-\d+", place.parent.name if place.is_file() else place.name)
    return named is not None and named[1] in RECORD_TYPES


def _is_one_of(files: PartitionFiles, topics: Collection[str], partitions: Collection[int]) -> bool:
    return (not topics or files.topic in topics) and (not partitions or files.partition in partitions)


def _name(files: PartitionFiles) -> str:
    number = "an unknown partition" if files.partition is None else files.partition
    return f"{files.topic}-{number}" if files.segments else f"{files.topic}-{number} without segments"


def _with_partition(files: PartitionFiles, partitions: Collection[int]) -> PartitionFiles:
    return (
        replace(files, partition=next(iter(partitions))) if files.partition is None and len(partitions) == 1 else files
    )


def _is_zeros(path: Path) -> bool:
    with path.open("rb") as file:
        return not any(chunk.strip(b"\0") for chunk in iter(lambda: file.read(1 << 20), b""))


def _size(files: PartitionFiles) -> int:
    return sum(segment.size_bytes for segment in files.segments)


def _with_progress(
    entries: Iterable[LogEntry | LogProblem], start: int, end: int, progress: Callable[[int], None]
) -> Iterator[LogEntry | LogProblem]:
    """Yield the same entries; progress is estimated from their sizes."""
    bytes_read = start
    for count, entry in enumerate(entries, 1):
        yield entry
        if isinstance(entry, LogEntry):
            bytes_read += BATCH_OVERHEAD_BYTES + len(entry.key_bytes or b"") + len(entry.value_bytes or b"")
        else:
            bytes_read += entry.size_bytes
        if count % PROGRESS_EVERY == 0:
            progress(min(bytes_read, end))

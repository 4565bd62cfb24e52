"""The logs under several paths, as one sequence of entries: which partitions there are, chosen by topic and number, and how far reading is."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from quorate.codecs.errors import InputError
from quorate.codecs.log import IsolationLevel, read_log
from quorate.codecs.log.files import PartitionFiles, find_partitions
from quorate.codecs.log.model import LogEntry, LogProblem
from quorate.codecs.messages import RECORD_TYPES

__all__ = ["BATCH_OVERHEAD_BYTES", "LogPartitions"]

BATCH_OVERHEAD_BYTES = 70
"""Roughly what a record takes in a log besides its key and value, in a batch of its own."""

PROGRESS_EVERY = 500
"""Records between two reports."""


class LogPartitions:
    """The partitions under some paths, found before anything is read.

    Raises `InputError` if there is nothing to read.

    `topics` and `partitions` choose among partitions whose folder tells what they are; to a file
    that does not tell, a single one is told by them.
    """

    def __init__(self, paths: Sequence[str], *, topics: Collection[str] = (), partitions: Collection[int] = ()) -> None:
        sources = [(path, _partitions(path, topics, partitions)) for path in paths]
        _refuse_repeated(sources)
        self._partitions = [(path, files) for path, found in sources for files in found]
        self.size_bytes = sum(_size(files) for _, files in self._partitions)
        self.empty = not self.size_bytes and not any(files.problems for _, files in self._partitions)

    @property
    def partitions(self) -> list[PartitionFiles]:
        """What was found, in the order in which it is read."""
        return [files for _, files in self._partitions]

    def entries(
        self,
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
        since_ms: int | None = None,
        until_ms: int | None = None,
        skip_corrupt: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[LogEntry | LogProblem]:
        """All entries, partition by partition.

        `progress` is told how many bytes of the files are behind, roughly.
        """
        behind = 0
        for path, files in self._partitions:
            if not files.segments:
                yield from files.problems
                continue
            entries = read_log(
                path if Path(path).is_file() else files.segments[0].path.parent,
                topic=files.topic,
                partition=files.partition,
                isolation_level=isolation_level,
                since_ms=since_ms,
                until_ms=until_ms,
                skip_corrupt=skip_corrupt,
            )
            if progress is None:
                yield from entries
                continue
            yield from _reporting(entries, behind, behind + _size(files), progress)
            behind += _size(files)
            progress(behind)


def _partitions(path: str, topics: Collection[str], partitions: Collection[int]) -> list[PartitionFiles]:
    if not path:
        raise InputError("a SOURCE is empty", "give a segment file, a log directory, or . for the current folder")
    only = next(iter(topics)) if len(topics) == 1 else None
    try:
        if _tells_its_topic(path):
            found = find_partitions(path)
        else:
            found = find_partitions(path, topic=only, topics=topics or None)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if partitions:
        found = [_told(files, partitions) for files in found]
    chosen = [files for files in found if (files.segments or files.problems) and _is_one_of(files, topics, partitions)]
    if not chosen:
        asked = [*topics] + [f"partition {number}" for number in partitions]
        there = ", ".join(_name(files) for files in found[:10])
        raise InputError(f"{path}: has no segments of {', '.join(asked) or 'a coordinator topic'}", f"there is {there}")
    return chosen


def _refuse_repeated(sources: Sequence[tuple[str, Sequence[PartitionFiles]]]) -> None:
    """Nothing is to be counted twice, however its path is written. Raises `InputError`."""
    seen: dict[Path, str] = {}
    for path, found in sources:
        segments = {segment.path.resolve() for files in found for segment in files.segments}
        for segment in sorted(segments & seen.keys()):
            raise InputError(f"{segment}: is part of {seen[segment]}, and again of {path}", "give it once")
        seen |= dict.fromkeys(segments, path)


def _tells_its_topic(path: str) -> bool:
    """Whether this is the folder of a coordinator topic's partition, or a file in one."""
    place = Path(path).absolute()
    named = re.fullmatch(r"(.+)-\d+", place.parent.name if place.is_file() else place.name)
    return named is not None and named[1] in RECORD_TYPES


def _is_one_of(files: PartitionFiles, topics: Collection[str], partitions: Collection[int]) -> bool:
    return (not topics or files.topic in topics) and (not partitions or files.partition in partitions)


def _name(files: PartitionFiles) -> str:
    number = "an unknown partition" if files.partition is None else files.partition
    return f"{files.topic}-{number}" if files.segments else f"{files.topic}-{number} without segments"


def _told(files: PartitionFiles, partitions: Collection[int]) -> PartitionFiles:
    return (
        replace(files, partition=next(iter(partitions))) if files.partition is None and len(partitions) == 1 else files
    )


def _size(files: PartitionFiles) -> int:
    return sum(segment.size_bytes for segment in files.segments)


def _reporting(
    entries: Iterable[LogEntry | LogProblem], start: int, end: int, progress: Callable[[int], None]
) -> Iterator[LogEntry | LogProblem]:
    """The same entries. Where their bytes lie is not known from here, but how many they are."""
    behind = start
    for count, entry in enumerate(entries, 1):
        yield entry
        if isinstance(entry, LogEntry):
            behind += BATCH_OVERHEAD_BYTES + len(entry.key_bytes or b"") + len(entry.value_bytes or b"")
        else:
            behind += entry.size_bytes
        if count % PROGRESS_EVERY == 0:
            progress(min(behind, end))

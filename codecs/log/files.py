"""Find segments of coordinator topics: a segment file, a partition's folder, or a log directory.

Knows how Kafka names folders and files, and nothing about their content.
"""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path, PurePath

from quorate.codecs.batches.model import BatchProblem, ProblemReason
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.log.model import LogError, LogProblem
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.codecs.messages import RECORD_TYPES

_PARTITION_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
# Files of the cleaner and of deletion end with .log.cleaned, .log.swap and .log.deleted. A cleaner
# removes the segments that a .log.swap replaces, and then renames it to .log (`replaceSegments` in
# Kafka's LocalLog). A broker that stopped in between renames it at its start.
_SEGMENT_FILE = re.compile(r"\d{1,20}\.log")
_SWAP_FILE = re.compile(r"(?P<segment>\d{1,20}\.log)\.swap")
_COMPRESSED_FILE = re.compile(r"(?P<segment>\d{1,20}\.log)\.(bz2|gz|lz4|xz|zip|zst)")


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file with its size when it was found; a broker may still be writing.

    Columns are read only of the batches from byte `begin` to `end`.
    """

    path: Path
    size_bytes: int
    begin: int = 0
    end: int | None = None

    @property
    def base_offset(self) -> int:
        """The first offset, which is the file's name; 0 for a file of another name."""
        return int(self.path.stem) if _SEGMENT_FILE.fullmatch(self.path.name) else 0


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The segments of one partition in the order of their base offsets.

    `partition` is `None` if it is not known.
    """

    topic: str
    partition: int | None
    segments: tuple[Segment, ...]
    problems: tuple[LogProblem, ...] = ()
    """Problems while finding segments; reported before the records."""

    def problem(self, segment: Segment, found: BatchProblem, *, shift: int = 0) -> LogProblem:
        """Return the problem of a batch as that of a segment; `shift` is added to its position."""
        base_offset = None if found.header is None else found.header.base_offset
        reason, detail = found.reason, found.detail
        if reason is ProblemReason.TORN_TAIL and segment != self.segments[-1]:
            reason = ProblemReason.CUT_OFF
            detail += "; a later segment follows, so no broker was still writing this one"
        position = found.position + shift
        return self._problem(segment, position, found.size_bytes, reason, detail, base_offset, found.rest_lost)

    def out_of_order(
        self, segment: Segment, position: int, size_bytes: int, base_offset: int, next_offset: int
    ) -> LogProblem:
        """Return the problem of a batch that begins before the smallest valid offset."""
        detail = f"the batch begins at offset {base_offset:,}, the one before it ended at {next_offset - 1:,}"
        return self._problem(segment, position, size_bytes, ProblemReason.OFFSET_ORDER, detail, base_offset)

    def unreadable(self, segment: Segment, error: OSError) -> LogProblem:
        """Return the problem of a segment or folder that the operating system cannot read."""
        what = "file" if segment.path.suffix == ".log" else "folder"
        detail = f"the {what} cannot be read: {error.strerror or error}"
        return self._problem(segment, 0, segment.size_bytes, ProblemReason.UNREADABLE, detail, None)

    def unusable(self, path: Path, detail: str) -> LogProblem:
        """Return the problem of something that is not a file of batches, but stands for one."""
        return self._problem(Segment(path, 0), 0, 0, ProblemReason.UNREADABLE, detail, None)

    def _problem(
        self,
        segment: Segment,
        position: int,
        size_bytes: int,
        reason: ProblemReason,
        detail: str,
        base_offset: int | None,
        rest_lost: bool = False,
    ) -> LogProblem:
        return LogProblem(
            path=segment.path,
            topic=self.topic,
            partition=self.partition,
            position=position,
            size_bytes=size_bytes,
            reason=reason,
            detail=detail,
            base_offset=base_offset,
            rest_lost=rest_lost,
        )


def find_partitions(
    path: str | PathLike[str],
    *,
    topic: str | None = None,
    partition: int | None = None,
    topics: Collection[str] | None = None,
) -> list[PartitionFiles]:
    """Return the partitions under `path`, ordered by topic and number.

    For a segment or a partition's folder, topic and number come from the folder's name; `topic` and
    `partition` override that. A segment outside such a folder is read as one of
    `__consumer_offsets`, with an unknown partition. In a log directory `topic` or `topics`, and
    `partition`, are filters; by default all three coordinator topics are read.

    Raises `LogError` if there are no segments, or if they are of another topic.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path={path!r}: give the path of a segment file, a partition's folder or a log directory")
    if not fspath(path):
        raise LogError("the path is empty; give a segment file, a partition's folder or a broker's log directory")
    path = Path(path)
    _check_topics([topic] if topic is not None else topics or ())
    if path.is_file():
        return [_one_partition(path.absolute().parent, [path], topic, partition)]
    if path.is_dir():
        segments = segments_in(path)
        if segments:
            _check_folder(path, topic)
            return [_with_unusable(_one_partition(path.absolute(), segments, topic, partition), path)]
        wanted = [topic] if topic is not None else list(topics or RECORD_TYPES)
        return _in_log_directory(path, wanted, partition)
    if path.exists():
        # Mostly a pipe. A log is read at any position and more than once.
        raise LogError(f"{path}: is neither a file nor a folder; write its content to a file, and read that")
    if path.is_symlink():
        raise LogError(f"{path}: is a link to {path.readlink()}, which does not exist")
    raise LogError(f"{path}: no such file or folder")


def _check_topics(topics: Collection[str]) -> None:
    for topic in topics:
        if topic not in RECORD_TYPES:
            raise LogError(f"{topic!r} is not a coordinator topic; use one of {', '.join(RECORD_TYPES)}")


def partition_of(folder: PurePath) -> tuple[str, int] | None:
    """Return topic and number from the name of a partition's folder; `None` for other names."""
    match = _PARTITION_FOLDER.fullmatch(folder.name)
    return (match["topic"], int(match["partition"])) if match else None


def segment_path(folder: Path, base_offset: int) -> Path:
    """Return the file of the segment that begins at this offset."""
    return folder / f"{base_offset:020}.log"


def segments_in(folder: Path) -> list[Path]:
    """Return the segments in a folder, oldest first."""
    found = [file for file in folder.iterdir() if _SEGMENT_FILE.fullmatch(file.name) and file.is_file()]
    return sorted(found, key=lambda file: int(file.stem))


def _sized(files: Iterable[Path]) -> tuple[Segment, ...]:
    segments = []
    for file in files:
        # A broker may have deleted it since the folder was listed.
        with suppress(FileNotFoundError):
            segments.append(Segment(file, file.stat().st_size))
    return tuple(segments)


def _one_partition(folder: Path, segments: list[Path], topic: str | None, partition: int | None) -> PartitionFiles:
    """Return the partition of segments in `folder`.

    The folder's name counts if it is that of a coordinator topic, or if `topic` overrides it.
    """
    name, number = partition_of(folder) or (None, None)
    if topic is None and name not in RECORD_TYPES:
        name, number = CONSUMER_OFFSETS, None
    return PartitionFiles(
        topic or name or CONSUMER_OFFSETS, number if partition is None else partition, _sized(segments)
    )


def _check_folder(path: Path, topic: str | None) -> None:
    """Reject a broker's folder of another topic.

    Elsewhere a name such as backup-2024 means nothing.
    """
    absolute = path.absolute()
    named = partition_of(absolute)
    if topic is None and named and named[0] not in RECORD_TYPES and looks_like_a_broker(absolute.parent):
        raise LogError(
            f"{path}: is a partition of {named[0]!r}, not of a coordinator topic ({', '.join(RECORD_TYPES)}); "
            "name a folder of one of these, or in Python give topic= to read it as one"
        )


def _in_log_directory(path: Path, topics: Collection[str], partition: int | None) -> list[PartitionFiles]:
    folders = [(name, folder) for folder in path.iterdir() if (name := partition_of(folder)) and folder.is_dir()]
    found = sorted((name, folder) for name, folder in folders if name[0] in topics and partition in (None, name[1]))
    if not found:
        names = sorted(folder.name for folder in path.iterdir())
        listed = f"it has {', '.join(names[:5])}{' …' if len(names) > 5 else ''}" if names else "it is empty"
        folder = f"{next(iter(topics))}-{0 if partition is None else partition}"
        raise LogError(
            f"{path}: no segments; expected 00000000000000000000.log or the like, "
            f"or folders such as {folder} with them ({listed})"
        )
    return [_in_folder(topic, number, folder) for (topic, number), folder in found]


def _in_folder(topic: str, number: int, folder: Path) -> PartitionFiles:
    """Return one partition of several; an unreadable folder is a problem, not an error."""
    try:
        return _with_unusable(PartitionFiles(topic, number, _sized(segments_in(folder))), folder)
    except OSError as error:
        nothing = PartitionFiles(topic, number, ())
        place = Path(error.filename) if error.filename else folder
        return replace(nothing, problems=(nothing.unreadable(Segment(place, 0), error),))


def _with_unusable(files: PartitionFiles, folder: Path) -> PartitionFiles:
    """Add a problem for each segment that is compressed, not renamed, a folder or a dead link."""
    names = {segment.path.name for segment in files.segments}
    problems = []
    for path in sorted(folder.iterdir()):
        compressed, swap = _COMPRESSED_FILE.fullmatch(path.name), _SWAP_FILE.fullmatch(path.name)
        if compressed and compressed["segment"] not in names:
            detail = "the file is compressed; decompress it first"
        elif swap and swap["segment"] not in names:
            detail = f"the log cleaner has not renamed this segment to {swap['segment']}; read again, or rename a copy"
        elif path.name in names or not _SEGMENT_FILE.fullmatch(path.name):
            continue
        elif path.is_dir():
            detail = "a folder has the name of a segment"
        elif path.is_symlink():
            detail = f"is a link to {path.readlink()}, which does not exist"
        else:
            continue  # deleted since the folder was listed, or a pipe
        problems.append(files.unusable(path, detail))
    return replace(files, problems=tuple(problems)) if problems else files


def looks_like_a_broker(folder: Path) -> bool:
    """Return whether this is a broker's log directory, where folders are named for partitions."""
    return (folder / "meta.properties").is_file()

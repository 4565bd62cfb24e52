"""Finding the segments of coordinator topics: a segment file, a partition's folder, or a broker's whole log directory.

Knows how Kafka names folders and files, and nothing about what is in them.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from quorate.codecs.log_model import LogError
from quorate.codecs.message import CONSUMER_OFFSETS, RECORD_TYPES

__all__ = ["PartitionFiles", "Segment", "find_partitions"]

_PARTITION_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_SEGMENT_FILE = re.compile(
    r"\d{1,20}\.log"
)  # what the cleaner and deletion leave is called .log.cleaned, .log.swap, .log.deleted


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file as it was when it was found: a broker may go on writing."""

    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The segments of one partition in the order of their base offsets. `partition` is `None` if nothing tells it."""

    topic: str
    partition: int | None
    segments: tuple[Segment, ...]


def find_partitions(
    path: str | PathLike[str],
    *,
    topic: str | None = None,
    partition: int | None = None,
    topics: Collection[str] | None = None,
) -> list[PartitionFiles]:
    """The partitions under `path`, ordered by topic and number.

    Topic and partition come from the folder's name, `topic` and `partition` override that. A segment outside such a folder is taken for one of
    `__consumer_offsets`, its partition is not known. In a log directory `topics` chooses; by default it is all three coordinator topics.

    Raises `LogError` if there are no segments, or if they are of another topic.
    """
    path = Path(path)
    _check_topics([topic] if topic is not None else topics or ())
    if path.is_file():
        files = [(_partition_of(path.absolute().parent), [path])]
    elif path.is_dir():
        files = _in_folder(path, topic, topics)
    elif path.exists():
        raise LogError(f"{path}: is neither a file nor a folder")
    else:
        raise LogError(f"{path}: there is no such file or folder")
    return [
        PartitionFiles(
            topic=topic or (found[0] if found else CONSUMER_OFFSETS),
            partition=partition if partition is not None else (found[1] if found else None),
            segments=tuple(Segment(file, file.stat().st_size) for file in segments),
        )
        for found, segments in files
    ]


def _check_topics(topics: Collection[str]) -> None:
    for topic in topics:
        if topic not in RECORD_TYPES:
            raise LogError(f"{topic!r} is not a coordinator topic; use one of {', '.join(RECORD_TYPES)}")


def _partition_of(folder: Path) -> tuple[str, int] | None:
    """Topic and number by a folder's name, if that is the name of a coordinator topic's partition."""
    match = _PARTITION_FOLDER.fullmatch(folder.name)
    return (match["topic"], int(match["partition"])) if match and match["topic"] in RECORD_TYPES else None


def _segments_in(folder: Path) -> list[Path]:
    found = [file for file in folder.iterdir() if _SEGMENT_FILE.fullmatch(file.name) and file.is_file()]
    return sorted(found, key=lambda file: int(file.stem))


def _in_folder(
    path: Path, topic: str | None, topics: Collection[str] | None
) -> list[tuple[tuple[str, int] | None, list[Path]]]:
    segments = _segments_in(path)
    if segments:
        absolute = path.absolute()
        named = _PARTITION_FOLDER.fullmatch(absolute.name)
        if topic is None and named and named["topic"] not in RECORD_TYPES and _looks_like_a_broker(absolute.parent):
            raise LogError(
                f"{path}: is a partition of {named['topic']!r}, not of a coordinator topic ({', '.join(RECORD_TYPES)}); "
                "give topic= to read it as one"
            )
        return [(_partition_of(absolute), segments)]
    folders = [(_partition_of(folder), folder) for folder in path.iterdir() if folder.is_dir()]
    wanted = [topic] if topic is not None else list(topics or RECORD_TYPES)
    partitions = sorted((found, folder) for found, folder in folders if found is not None and found[0] in wanted)
    if not partitions:
        there = sorted(folder.name for folder in path.iterdir())
        listed = f"it has {', '.join(there[:5])}{' …' if len(there) > 5 else ''}" if there else "it is empty"
        raise LogError(
            f"{path}: no segments; expected 00000000000000000000.log or the like, "
            f"or folders such as {wanted[0]}-0 with them ({listed})"
        )
    return [(found, _segments_in(folder)) for found, folder in partitions]


def _looks_like_a_broker(folder: Path) -> bool:
    """Whether this is a broker's log directory, where every folder's name says the topic."""
    return (folder / "meta.properties").is_file()

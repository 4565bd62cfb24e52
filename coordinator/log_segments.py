"""The segment files of one partition's folder, as Kafka names them: where they are, and the batches in them. Knows nothing of what records mean."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from quorate.codecs import LogError
from quorate.codecs.batches import Batch, BatchProblem, ProblemReason, read_batches

__all__ = ["Fsync", "batches", "damaged", "recovered", "segment_path", "segments_in", "sync_folder"]

Fsync: TypeAlias = Literal["always", "never"]
"""Whether what is written is on the disk before anybody is told (`fsync`), or is left to the operating system, which loses it when the power fails."""

_SEGMENT = re.compile(r"\d{20}\.log")


def segment_path(folder: Path, base_offset: int) -> Path:
    """The file of the segment that begins at this offset."""
    return folder / f"{base_offset:020}.log"


def segments_in(folder: Path) -> list[Path]:
    """The segments of a folder, oldest first."""
    return sorted(path for path in folder.iterdir() if _SEGMENT.fullmatch(path.name))


def sync_folder(folder: Path) -> None:
    """Bring to the disk which files there are."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def batches(path: Path, end: int | None = None) -> Iterator[Batch]:
    """The batches of a segment, up to byte `end`. One at a time is in memory. Raises `LogError` at the first damage."""
    with path.open("rb") as file:
        for batch in read_batches(file):
            if isinstance(batch, BatchProblem):
                if end is None or batch.position < end:
                    raise damaged(path, batch.position, batch.detail)
                return
            if end is not None and batch.header.position >= end:
                return
            yield batch


def recovered(path: Path) -> tuple[int, int]:
    """Where the whole batches of the newest segment end, as a position in the file and as the next offset: behind it is what a crash left of a write.

    Raises `LogError` for damage that no crash in a write leaves, because whole batches follow it.
    """
    position, next_offset = 0, int(path.stem)
    with path.open("rb") as file:
        for batch in read_batches(file):
            if isinstance(batch, BatchProblem):
                if not _torn(path, batch, next_offset):
                    raise damaged(path, batch.position, batch.detail)
                break
            position = batch.header.position + batch.header.size_bytes
            next_offset = batch.header.last_offset + 1
    return position, next_offset


def _torn(path: Path, problem: BatchProblem, next_offset: int) -> bool:
    """Whether this is the rest of the last write: nothing that was written after it follows.

    What looks like a batch inside it may be in a record's value, which a client chose; what was written after it has a later offset than the next.
    """
    if problem.reason is ProblemReason.TORN_TAIL:
        return True
    with path.open("rb") as file:
        found = (each for each in read_batches(file, skip_corrupt=True) if isinstance(each, Batch))
        return not any(
            each.header.position > problem.position and each.header.base_offset > next_offset for each in found
        )


def damaged(path: Path, position: int, detail: str) -> LogError:
    """What to say of damage in a segment, and what to do."""
    return LogError(
        f"{path}, position {position:,}: {detail}; "
        "restore the file from a copy, or read what is left with read_log(skip_corrupt=True)"
    )

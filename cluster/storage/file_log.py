"""`FileLog`: a coordinator's log in files of Kafka's own form, which Kafka's tools read (`kafka-dump-log --offsets-decoder`) and `quorate.codecs.read_log` does.

A folder `TOPIC-PARTITION` with segments named by their first offset; an append is one record batch
of format 2 (KIP-98), transactional with a producer id, and the end of a transaction is a control
batch. There are no index files: Kafka makes them anew when it wants them.

A write that a crash cut off is cut off when the log is opened again, so that the log then is what
was acknowledged, and perhaps the one batch that was being written. One `FileLog` writes to a folder
at a time; that is the caller's care.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from quorate.cluster.storage.atomic import sync_folder
from quorate.codecs import CoordinatorRecord, LogError
from quorate.codecs.batches import Batch, BatchProblem, ProblemReason, encode_marker, read_batches
from quorate.codecs.log.compaction import BatchWork, Cleaning
from quorate.codecs.log.files import PartitionFiles, Segment, segment_path, segments_in
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.log import AppendError, StoredMarker, StoredRecord, batch_of, in_batches, stored_in

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = ["Compaction", "FileLog", "Fsync", "blocks_of"]

Fsync: TypeAlias = Literal["always", "never"]
"""Whether what is written is on the disk before it is acknowledged (`fsync`), or is left to the
operating system, which loses it when the power fails.
"""

_LARGEST_SEGMENT_BYTES = (1 << 31) - 1
"""Kafka's positions in a file are int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What a pass did: `segments` that were looked at, records (markers included) and bytes in them before and after."""

    segments: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


class FileLog:
    """A `CoordinatorLog` in the folder `TOPIC-PARTITION` of `directory`, which is made if it is not there.

    `fsync`: "always" before an append returns, as an acknowledgement that outlives a power failure,
    or "never", which a crash of the process alone also outlives. A segment takes batches up to
    `segment_bytes`, and one at least; a batch above `max_batch_bytes` is refused (the defaults are
    those of `offsets.topic.segment.bytes` and `max.message.bytes`). `leader_epoch` is written into
    the batches.

    `cut_bytes`: how much of an unfinished write was found behind the last whole batch, and cut off.
    Raises `LogError` for damage before that, and `OSError`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        topic: str = CONSUMER_OFFSETS,
        partition: int = 0,
        fsync: Fsync = "always",
        segment_bytes: int = 100 * 1024 * 1024,
        max_batch_bytes: int = 1024 * 1024 + 12,
        leader_epoch: int = 0,
    ) -> None:
        if fsync not in ("always", "never"):
            raise ValueError(f"fsync {fsync!r} is not known; use 'always' or 'never'")
        if not 1 <= segment_bytes <= _LARGEST_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes is {segment_bytes:,}; use 1 to {_LARGEST_SEGMENT_BYTES:,}")
        self.folder = Path(directory) / f"{topic}-{partition}"
        self.topic = topic
        self.partition = partition
        self.fsync: Fsync = fsync
        self.segment_bytes = segment_bytes
        self.max_batch_bytes = max_batch_bytes
        self.leader_epoch = leader_epoch
        self.folder.mkdir(parents=True, exist_ok=True)
        if not segments_in(self.folder):
            segment_path(self.folder, 0).touch()
        newest = segments_in(self.folder)[-1]
        self._size, self.next_offset = recovered(newest)
        self._file = newest.open("r+b", buffering=0)
        self.cut_bytes = self._file.seek(0, os.SEEK_END) - self._size
        self._unusable = False
        self._file.truncate(self._size)
        self._file.seek(self._size)
        if fsync == "always":
            os.fsync(self._file.fileno())
            sync_folder(self.folder)

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        """Write one batch; returns the offset of its first record. No records write nothing.

        Raises `AppendError`, and the log is as before: MESSAGE_TOO_LARGE above `max_batch_bytes`,
        KAFKA_STORAGE_ERROR if the files cannot be written.
        """
        first = self.next_offset
        if records:
            batch = batch_of(
                records,
                first_offset=first,
                timestamp_ms=timestamp_ms,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                leader_epoch=self.leader_epoch,
            )
            self._write(batch, len(records))
        return first

    def parts(self, records: Sequence[CoordinatorRecord]) -> Iterable[Sequence[CoordinatorRecord]]:
        """The records in batches of at most `max_batch_bytes`."""
        return in_batches(records, self.max_batch_bytes)

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Write the end of a transaction; returns its offset.

        Raises `AppendError` as `append` does.
        """
        offset = self.next_offset
        marker = encode_marker(
            commit=commit,
            offset=offset,
            timestamp_ms=timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partition_leader_epoch=self.leader_epoch,
        )
        self._write(marker, 1)
        return offset

    def read(self) -> Iterator[StoredRecord | StoredMarker]:
        """Everything that was there at the call, oldest first; a batch and a block of the file at a time are in memory.

        Raises `LogError` for damage.
        """
        return self._read(segments_in(self.folder), self._size)

    def blocks(self) -> Iterator["RawBlock"] | None:
        """The same as columns, some MB of a segment at a time; `None` where pyarrow is not installed, and for other topics.

        Raises `LogError` for damage.
        """
        paths = segments_in(self.folder)
        sizes = [path.stat().st_size for path in paths[:-1]] + [self._size]
        return blocks_of(self.topic, self.partition, list(zip(paths, sizes, strict=True)))

    def segments(self) -> list[Path]:
        """The files, oldest first; the last one is being written."""
        return segments_in(self.folder)

    def roll(self) -> None:
        """Begin a new segment, unless nothing is in this one, so that what is written can be compacted.

        Raises `OSError`.
        """
        if self._size:
            self._roll()

    def compact(self, *, now_ms: int, tombstone_retention_ms: int = 0) -> Compaction:
        """Keep the last record of each key in the closed segments (`quorate.codecs.log.compaction`): loading the log gives the same as before.

        Tombstones stay for one pass at least, and for `tombstone_retention_ms` after it. What
        `read` gave before must have been read. Raises `LogError` for damage, before anything is
        changed, and `OSError`.
        """
        *closed, newest = self.segments()
        return compact(
            closed,
            newest,
            self._size,
            now_ms=now_ms,
            tombstone_retention_ms=tombstone_retention_ms,
            fsync=self.fsync,
        )

    def close(self) -> None:
        """Stop writing. What was appended is there already."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, batch: bytes, offsets: int) -> None:
        """The batch as a whole, or nothing of it."""
        if len(batch) > self.max_batch_bytes:
            raise AppendError(ErrorCode.MESSAGE_TOO_LARGE)
        if self._unusable:
            raise AppendError(ErrorCode.KAFKA_STORAGE_ERROR)
        try:
            if self._size and self._size + len(batch) > self.segment_bytes:
                self._roll()
            self._put(batch)
        except OSError as error:
            raise AppendError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        self._size += len(batch)
        self.next_offset += offsets

    def _put(self, batch: bytes) -> None:
        rest = memoryview(batch)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            if self.fsync == "always":
                os.fsync(self._file.fileno())
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        """Take back what a failed write left.

        If that fails as well, nothing may be written behind it: opening the log again is the
        remedy.
        """
        try:
            self._file.truncate(self._size)
            self._file.seek(self._size)
        except OSError:
            self._unusable = True

    def _roll(self) -> None:
        """Go on in a new segment."""
        file = segment_path(self.folder, self.next_offset).open("w+b", buffering=0)
        self._file.close()
        self._file, self._size = file, 0
        if self.fsync == "always":
            sync_folder(self.folder)

    def _read(self, segments: list[Path], newest_size: int) -> Iterator[StoredRecord | StoredMarker]:
        for path in segments:
            for batch in batches(path, newest_size if path == segments[-1] else None):
                yield from stored_in(batch, topic=self.topic, place=path)


# ---- reading segments


def batches(path: Path, end: int | None = None) -> Iterator[Batch]:
    """The batches of a segment, up to byte `end`.

    One at a time is in memory. Raises `LogError` at the first damage.
    """
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

    What looks like a batch inside it may be in a record's value, which a client chose; what was
    written after it has a later offset than the next.
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


def blocks_of(topic: str, partition: int, segments: Sequence[tuple[Path, int]]) -> Iterator["RawBlock"] | None:
    """Segments, with their sizes in bytes, as columns, some MB at a time; `None` where pyarrow is not installed, and for other topics.

    Raises `LogError` for damage.
    """
    if topic != CONSUMER_OFFSETS or find_spec("pyarrow") is None:
        return None
    return _blocks(PartitionFiles(topic, partition, tuple(Segment(path, size) for path, size in segments)))


def _blocks(files: PartitionFiles) -> Iterator["RawBlock"]:
    from quorate.codecs.log.raw import read_raw

    for block in read_raw(files):
        for problem in block.problems:
            if problem.reason is not ProblemReason.OFFSET_ORDER:
                raise damaged(problem.path, problem.position, problem.detail)
        yield block


# ---- compaction


@dataclass(frozen=True, slots=True)
class _Closed:
    path: Path

    @property
    def base_offset(self) -> int:
        return int(self.path.stem)

    @property
    def place(self) -> str:
        return str(self.path)

    def batches(self) -> Iterator[Batch]:
        return batches(self.path)


def compact(
    closed: Sequence[Path],
    newest: Path,
    newest_end: int | None = None,
    *,
    now_ms: int,
    tombstone_retention_ms: int = 0,
    fsync: Fsync = "always",
) -> Compaction:
    """Compact the closed segments of a partition, oldest first; `newest`, up to byte `newest_end`, only says how transactions ended.

    Raises `LogError` for damage, before anything is changed, and `OSError`. Nobody may read the log
    meanwhile.
    """
    cleaning = Cleaning(now_ms=now_ms, tombstone_retention_ms=tombstone_retention_ms)
    for _ in cleaning.look([_Closed(path) for path in closed], batches(newest, newest_end), int(newest.stem)):
        pass
    paths = [Path(one.place) for one in cleaning.segments]
    sizes = [path.stat().st_size for path in paths]
    left = [_replace(Path(one.place), _results(cleaning.cleaned(one)), fsync) for one in cleaning.segments]
    return Compaction(
        segments=len(paths),
        records_before=cleaning.met,
        records_after=cleaning.kept,
        bytes_before=sum(sizes),
        bytes_after=sum(left),
    )


def _results(works: Iterable[BatchWork[bytes | None]]) -> Iterator[bytes]:
    for work in works:
        data = work.result()
        if data is not None:
            yield data


def _replace(path: Path, content: Iterator[bytes], fsync: Fsync) -> int:
    """Write the segment anew beside it, and put that in its place; returns its bytes."""
    cleaned = path.with_name(path.name + ".cleaned")  # a rest of this, from a crash, is overwritten by the next pass
    size = 0
    with cleaned.open("wb") as file:
        for batch in content:
            size += file.write(batch)
        file.flush()
        if fsync == "always":
            os.fsync(file.fileno())
    if size:
        cleaned.replace(path)
    else:
        cleaned.unlink()
        path.unlink()
    if fsync == "always":
        sync_folder(path.parent)
    return size

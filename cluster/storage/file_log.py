"""`FileLog`: a coordinator's log in files with the format of Kafka.

Kafka's tools (`kafka-dump-log --offsets-decoder`) and `quorate.codecs.read_log` read it. It is a
folder `TOPIC-PARTITION` with segments named by their base offset. An append is one record batch of
format 2 (KIP-98), which is transactional if it has a producer id. The end of a transaction is a
control batch. There are no index files; Kafka rebuilds them.

Opening the log truncates a write that a crash left incomplete. The log then has all acknowledged
batches, and possibly the one that was being written. The caller ensures that only one `FileLog` at
a time writes to a folder.

The module is longer than others, because it also compacts its segments.
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
"""Whether each append is flushed to disk (`fsync`) before it is acknowledged.

Without a flush a power failure can lose acknowledged batches.
"""

_MAX_SEGMENT_BYTES = (1 << 31) - 1
"""Kafka's positions in a file are int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Result of a compaction: number of segments, and their records and bytes before and after.

    Records include control records.
    """

    segments: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


class FileLog:
    """A `CoordinatorLog` in the folder `TOPIC-PARTITION` of `directory`, created if missing.

    `fsync`: "always" flushes before an append returns, so that acknowledged batches survive a power
    failure. With "never" they survive a crash of the process only. `segment_bytes`: maximum size of
    a segment with more than one batch. `max_batch_bytes`: larger batches are rejected. The defaults
    are those of `offsets.topic.segment.bytes` and `max.message.bytes`. `leader_epoch`: written into
    each batch.

    `cut_bytes`: size of the incomplete write that was truncated after the last whole batch. Raises
    `LogError` for damage before that, and `OSError`.
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
            raise ValueError(f"unknown fsync {fsync!r}; use 'always' or 'never'")
        if not 1 <= segment_bytes <= _MAX_SEGMENT_BYTES:
            raise ValueError(f"segment_bytes is {segment_bytes:,}; use 1 to {_MAX_SEGMENT_BYTES:,}")
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
        """Append records as one batch, and return the offset of the first.

        No records append nothing.

        Raises `AppendError` with MESSAGE_TOO_LARGE above `max_batch_bytes`, or KAFKA_STORAGE_ERROR
        if the files cannot be written. The log is unchanged then.
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
        """Split records into batches of at most `max_batch_bytes`."""
        return in_batches(records, self.max_batch_bytes)

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Append the marker that ends a transaction, and return its offset.

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
        """Yield all records at the time of the call, oldest first. Reads one batch at a time.

        Raises `LogError` for damage.
        """
        return self._read(segments_in(self.folder), self._size)

    def blocks(self) -> Iterator["RawBlock"] | None:
        """Return an iterator of column blocks, each of some MB of a segment.

        `None` if pyarrow is not installed, and for topics other than `__consumer_offsets`. Raises
        `LogError` for damage.
        """
        paths = segments_in(self.folder)
        sizes = [path.stat().st_size for path in paths[:-1]] + [self._size]
        return blocks_of(self.topic, self.partition, list(zip(paths, sizes, strict=True)))

    def segments(self) -> list[Path]:
        """Return the segments' paths, oldest first. The last one is active."""
        return segments_in(self.folder)

    def roll(self) -> None:
        """Start a new segment if the active one is not empty, so that it can be compacted.

        Raises `OSError`.
        """
        if self._size:
            self._roll()

    def compact(self, *, now_ms: int, tombstone_retention_ms: int = 0) -> Compaction:
        """Keep the last record of each key in closed segments (`quorate.codecs.log.compaction`).

        Loading the log gives the same state as before. Tombstones stay for at least one pass, and
        for `tombstone_retention_ms` after it. Iterators of earlier `read` calls must be exhausted.
        Raises `LogError` for damage, before any change, and `OSError`.
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
        """Close the active segment. Appended batches are written already."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, batch: bytes, offsets: int) -> None:
        """Write a whole batch or nothing."""
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
        """Truncate what a failed write left.

        If that fails, the log rejects all writes until it is opened again.
        """
        try:
            self._file.truncate(self._size)
            self._file.seek(self._size)
        except OSError:
            self._unusable = True

    def _roll(self) -> None:
        """Start a new segment."""
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
    """Yield the batches of a segment up to byte `end`. Raises `LogError` at the first damage."""
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
    """Return position and next offset at the end of the newest segment's whole batches.

    The bytes after that are an incomplete write. Raises `LogError` for damage that is followed by
    whole batches, because no interrupted write leaves that.
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
    """Return whether damage is an incomplete last write, with no later batch after it.

    Bytes that look like a batch may be part of a record's value. A later batch has a larger offset
    than `next_offset`.
    """
    if problem.reason is ProblemReason.TORN_TAIL:
        return True
    with path.open("rb") as file:
        found = (batch for batch in read_batches(file, skip_corrupt=True) if isinstance(batch, Batch))
        return not any(
            each.header.position > problem.position and each.header.base_offset > next_offset for each in found
        )


def damaged(path: Path, position: int, detail: str) -> LogError:
    """Return the error for damage in a segment, with a remedy."""
    return LogError(
        f"{path}, position {position:,}: {detail}; "
        "restore the file from a copy, or read the intact batches with read_log(skip_corrupt=True)"
    )


def blocks_of(topic: str, partition: int, segments: Sequence[tuple[Path, int]]) -> Iterator["RawBlock"] | None:
    """Return an iterator of column blocks of segments (paths and sizes in bytes), some MB each.

    `None` if pyarrow is not installed, and for topics other than `__consumer_offsets`. Raises
    `LogError` for damage.
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
    """Compact the closed segments of a partition, oldest first.

    `newest`: the active segment, read up to byte `newest_end` to see how transactions ended. The
    log must not be read meanwhile. Raises `LogError` for damage, before any change, and `OSError`.
    """
    cleaning = Cleaning(now_ms=now_ms, tombstone_retention_ms=tombstone_retention_ms)
    for _ in cleaning.scan([_Closed(path) for path in closed], batches(newest, newest_end), int(newest.stem)):
        pass
    paths = [Path(segment.place) for segment in cleaning.segments]
    sizes = [path.stat().st_size for path in paths]
    left = [_replace(Path(segment.place), _results(cleaning.cleaned(segment)), fsync) for segment in cleaning.segments]
    return Compaction(
        segments=len(paths),
        records_before=cleaning.records_read,
        records_after=cleaning.records_kept,
        bytes_before=sum(sizes),
        bytes_after=sum(left),
    )


def _results(works: Iterable[BatchWork[bytes | None]]) -> Iterator[bytes]:
    for work in works:
        data = work.result()
        if data is not None:
            yield data


def _replace(path: Path, content: Iterator[bytes], fsync: Fsync) -> int:
    """Write a compacted segment and replace the original with it; returns its size in bytes."""
    cleaned = path.with_name(path.name + ".cleaned")  # one that a crash left is overwritten by the next pass
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

"""`LogFiles`: a partition's folder TOPIC-PARTITION with the files of a Kafka broker.

Each broker with a replica has such a folder. Replicas of the embedded cluster share one log, so
that their folders share the files as hard links. A file that is replaced is linked again. On a file
system without hard links, only the first replica's folder has all files.

The module is longer than others, because each change of any kind of file must reach the folders of
all replicas.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import google_crc32c

from quorate.cluster.producers import Producers
from quorate.cluster.storage.atomic import sync_folder, write_atomically
from quorate.cluster.storage.checksums import CHECKSUMS, Checksums, SegmentSum, encode_checksums, end_line
from quorate.cluster.storage.files import (
    ABORTED_BYTES,
    AbortedTransaction,
    decode_properties,
    encode_aborted,
    encode_checkpoint,
    encode_index,
    encode_partition_metadata,
    encode_producers,
    encode_time_index,
)
from quorate.cluster.storage.segment import LogSegment
from quorate.cluster.storage.stores import Descriptors, FileStore
from quorate.codecs import Uuid
from quorate.codecs.log.files import segment_path

if TYPE_CHECKING:
    from quorate.cluster.log import PartitionLog

EPOCHS = "leader-epoch-checkpoint"
METADATA = "partition.metadata"
INDEXES = (".index", ".timeindex", ".txnindex")
_MAX_NAME_BYTES = 255
_SEGMENT_SUFFIXES = (".log", *INDEXES, ".snapshot")


def topic_id_of(folder: Path) -> Uuid | None:
    """Return the topic id of a partition's folder, or `None` if it has none that can be read."""
    try:
        found = decode_properties((folder / METADATA).read_bytes()).get("topic_id")
        return None if found is None else Uuid.parse(found)
    except (OSError, ValueError):
        return None


class LogFiles:
    """The files of one partition in `folders`. Writes go to the first of them.

    `on_start_offset`: called when the log start offset has to be written.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        topic_id: Uuid,
        descriptors: Descriptors,
        on_start_offset: Callable[[], object] = lambda: None,
    ) -> None:
        self._take_folders(folders)
        self.descriptors = descriptors
        self._on_start_offset = on_start_offset
        self.deleted = False
        self._is_synced = False
        self._topic_id = str(topic_id)
        self._has_checksums = False
        self._has_gaps = False
        self._closed: dict[int, SegmentSum] = {}
        self._snapshot = (0, 0)
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
        if topic_id_of(self.home) != topic_id:
            write_atomically(self.home / METADATA, encode_partition_metadata(topic_id))
        self._share_all()

    def _take_folders(self, folders: Iterable[Path]) -> None:
        """Use other folders. `home`: the one that is written to."""
        self.folders = list(folders)
        self.home = self.folders[0]
        self._checksums = self.home / CHECKSUMS

    # ---- links

    def _share_all(self) -> None:
        """Make the files of the other folders links to those of the first one.

        Copies become links again, as after the directory was copied. Segments that the first folder
        does not have were deleted: it is complete, or the start would have been refused.
        """
        names = {path.name for path in self.home.iterdir()}
        for folder in self.folders[1:]:
            for path in folder.iterdir():
                if path.name not in names and path.suffix in _SEGMENT_SUFFIXES:
                    path.unlink()
        for name in names:
            self._share(name)

    def _share(self, name: str) -> None:
        for folder in self.folders[1:]:
            with suppress(OSError):  # a file system without hard links
                _link(self.home / name, folder / name)

    def _write(self, name: str, data: bytes) -> None:
        self.descriptors.close(self.home / name)
        write_atomically(self.home / name, data)
        self._share(name)

    def _remove(self, name: str) -> None:
        self.descriptors.close(self.home / name)
        for folder in self.folders:
            (folder / name).unlink(missing_ok=True)

    def spread(self, folders: Sequence[Path]) -> None:
        """Link the files into the folders of new replicas, before the change is committed.

        Raises `OSError`.
        """
        for folder in folders:
            if folder in self.folders:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            for path in self.home.iterdir():
                try:
                    _link(path, folder / path.name)
                except OSError:
                    shutil.copyfile(path, folder / path.name)

    def move(self, folders: Sequence[Path], log: "PartitionLog") -> None:
        """Use the folders of the new replicas, which `spread` has filled, and delete the others.

        Raises `OSError`.
        """
        gone = [one for one in self.folders if one not in folders]
        self._close(log)
        # Without hard links, writes must continue in a folder that has all files.
        self._take_folders(sorted(folders, key=lambda one: one != self.home))
        self._share_all()
        for folder in dict.fromkeys(gone):
            remove_folder(folder)

    def _close(self, log: "PartitionLog") -> None:
        """Close all open files, before the folder changes."""
        for segment in log.segments:
            segment.store.delete()
        self.descriptors.close(self._checksums)

    def remove_others(self, folders: Sequence[Path]) -> None:
        """Delete the folders that `spread` created, after a failure. Raises `OSError`."""
        for folder in folders:
            if folder not in self.folders:
                remove_folder(folder)

    def delete(self, log: "PartitionLog") -> None:
        """Delete the folders of a deleted topic. Raises `OSError`.

        As in Kafka, they are renamed first, so that a crash leaves nothing that looks like a log.
        From then on every write fails, because the folders do not exist. The folders of a new topic
        with the same name are not affected.
        """
        folders, suffix = self.folders, f".{uuid4().hex}-delete"
        self._close(log)
        self._take_folders(with_suffix(folder, suffix) for folder in folders)
        self.deleted = True
        for folder, renamed in zip(folders, self.folders, strict=True):
            with suppress(FileNotFoundError):
                folder.rename(renamed)
            remove_folder(renamed)

    def tidy(self) -> None:
        """Delete temporary files that a crash left."""
        for path in self.home.iterdir():
            if path.suffix in (".tmp", ".cleaned"):
                self._remove(path.name)

    # ---- segments

    def _path(self, offset: int, suffix: str) -> Path:
        return segment_path(self.home, offset).with_suffix(suffix)

    def new_segment(self, base_offset: int, now_ms: int) -> LogSegment:
        """Create an empty segment. Raises `OSError`."""
        # The .log file comes last. If the others cannot be created, the log continues without the
        # segment, and a .log file would look like one.
        for suffix in (".index", ".timeindex", ".log"):
            path = self._path(base_offset, suffix)
            self.descriptors.close(path)
            os.close(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            self._share(path.name)
        self._is_synced = False
        return self.segment(base_offset, now_ms)

    def segment(self, base_offset: int, now_ms: int, size: int = 0, crc: int = 0) -> LogSegment:
        """Return an existing segment with `size` valid bytes, and empty indexes."""
        store = FileStore(self, self._path(base_offset, ".log").name, self.descriptors, size, crc)
        return LogSegment(base_offset, store, created_ms=now_ms)

    def sync_folders(self) -> None:
        """Flush the folders' entries, if files were created or deleted. Raises `OSError`."""
        if not self._is_synced:
            for folder in self.folders:
                sync_folder(folder)
            self._is_synced = True

    def path(self, segment: LogSegment) -> Path:
        """Return the path of a segment."""
        return self._path(segment.base_offset, ".log")

    def read(self, offset: int, suffix: str) -> bytes:
        """Return the content of a file next to a segment; empty if it does not exist."""
        try:
            return self._path(offset, suffix).read_bytes()
        except FileNotFoundError:
            return b""

    def cut(self, segment: LogSegment) -> None:
        """Truncate a segment's file to its valid bytes. Raises `OSError`."""
        assert isinstance(segment.store, FileStore)
        if segment.store.path.stat().st_size > segment.size:
            os.ftruncate(self.descriptors.of(segment.store.path), segment.size)

    def write_indexes(self, segment: LogSegment) -> None:
        """Write `.index` and `.timeindex` in place, which keeps the links. Raises `OSError`."""
        base = segment.base_offset
        for suffix, data in (
            (".index", encode_index(base, segment.offsets, segment.positions)),
            (".timeindex", encode_time_index(base, segment.times, segment.time_offsets)),
        ):
            path = self._path(base, suffix)
            new = not path.exists()
            path.write_bytes(data)
            if new:
                self._share(path.name)

    def delete_segment(self, base_offset: int) -> None:
        """Delete the files of a segment."""
        for suffix in _SEGMENT_SUFFIXES:
            self._remove(self._path(base_offset, suffix).name)
        self._is_synced = False

    def cleaned(self, segment: LogSegment) -> FileStore:
        """Create an empty file next to a segment, for its compacted batches. Raises `OSError`."""
        path = self._path(segment.base_offset, ".log.cleaned")
        self.descriptors.close(path)
        path.write_bytes(b"")
        return FileStore(self, path.name, self.descriptors)

    def replace_segment(self, old: LogSegment, cleaned: LogSegment, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace a segment with its compacted one, whose store is from `cleaned`.

        Raises `OSError`.
        """
        assert isinstance(cleaned.store, FileStore)
        path = self.path(old)
        self.descriptors.close(path)
        cleaned.store.rename(path.name)
        self._share(path.name)
        self.write_aborted(old.base_offset, aborted)
        self.write_indexes(cleaned)
        self._is_synced = False

    # ---- next to segments

    def write_producers(self, offset: int, producers: Producers) -> None:
        """Write a snapshot of producers at an end offset of the log. Raises `OSError`."""
        self._snapshot = max(self._snapshot, (offset, len(producers.by_id)))
        self._write(self._path(offset, ".snapshot").name, encode_producers(producers.entries()))

    def snapshots(self) -> list[int]:
        """Return the offsets of producer snapshots, in order."""
        return sorted(int(path.stem) for path in self.home.glob("*.snapshot") if path.stem.isdigit())

    def delete_snapshot(self, offset: int) -> None:
        """Delete a producer snapshot."""
        self._remove(self._path(offset, ".snapshot").name)

    def write_epochs(self, epochs: Sequence[tuple[int, int]]) -> None:
        """Write the start offsets of leader epochs. Raises `OSError`."""
        self._write(EPOCHS, encode_checkpoint(epochs))

    def add_aborted(self, segment: LogSegment, aborted: AbortedTransaction, after: int) -> None:
        """Write an entry of a segment's `.txnindex`, after `after` other entries.

        What follows those is from a failed write and is overwritten. Raises `OSError`.
        """
        path = self._path(segment.base_offset, ".txnindex")
        new = not path.exists()
        with path.open("wb" if new else "r+b") as file:
            file.seek(min(after * ABORTED_BYTES, file.seek(0, os.SEEK_END)))
            file.truncate()
            file.write(encode_aborted(aborted))
        if new:
            self._share(path.name)
            self._is_synced = False

    def cut_aborted(self, segment: LogSegment, after: int) -> None:
        """Remove an entry of `.txnindex` whose marker could not be written.

        If that fails, the next entry overwrites it.
        """
        with suppress(OSError):
            os.truncate(self._path(segment.base_offset, ".txnindex"), after * ABORTED_BYTES)

    def sync_aborted(self, segment: LogSegment) -> None:
        """Flush the `.txnindex` of a segment, if it exists. Raises `OSError`."""
        with suppress(FileNotFoundError), self._path(segment.base_offset, ".txnindex").open("rb+") as file:
            os.fsync(file.fileno())

    def write_aborted(self, base_offset: int, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace the `.txnindex` of a segment. Raises `OSError`."""
        data = b"".join(map(encode_aborted, aborted))
        name = self._path(base_offset, ".txnindex").name
        if data:
            self._write(name, data)
        else:
            self._remove(name)

    # ---- checksums

    def take_checksums(self, found: Checksums | None, *, has_gaps: bool) -> None:
        """Continue with the checksums that were found in the folder."""
        self._has_gaps = has_gaps
        self._has_checksums = found is not None
        self._closed = {} if found is None else found.closed
        self._snapshot = (0, 0) if found is None else found.snapshot

    def seal(self, segment: LogSegment) -> None:
        """Add a closed segment and its indexes to the checksums of the next `write_checksums`.

        Raises `OSError`.
        """
        assert isinstance(segment.store, FileStore)
        crcs = {suffix: google_crc32c.value(self.read(segment.base_offset, suffix)) for suffix in INDEXES}
        self._closed[segment.base_offset] = replace(_sum_of(segment), index_crcs=crcs)

    def unseal(self, log: "PartitionLog", *segments: LogSegment) -> None:
        """Remove segments from the checksums, before they are deleted or replaced.

        After a crash they may exist or not. Raises `OSError`.
        """
        for segment in segments:
            self._closed.pop(segment.base_offset, None)
        self.write_checksums(log)

    def unseal_on_disk(self, log: "PartitionLog", segment: LogSegment) -> None:
        """Remove a segment from the checksums and flush them, before the segment is replaced.

        Checksums that are older than a segment would report damage. Raises `OSError`.
        """
        self.unseal(log, segment)
        os.fsync(self.descriptors.of(self._checksums))
        self._is_synced = False
        self.sync_folders()

    def write_checksums(self, log: "PartitionLog", epochs: Sequence[tuple[int, int]] | None = None) -> None:
        """Write the checksums of the log.

        `epochs`: other epochs than the log's. Raises `OSError`.
        """
        self._has_gaps |= log.config.compact
        sums = Checksums(
            topic_id=self._topic_id,
            start_offset=log.start_offset,
            epochs=list(log.epochs if epochs is None else epochs),
            snapshot=self._snapshot,
            closed=self._closed,
            end=_sum_of(log.active),
            has_gaps=self._has_gaps,
        )
        self._write(CHECKSUMS, encode_checksums(sums))
        self._has_checksums = True

    def forget_checksums(self, log: "PartitionLog") -> None:
        """Write empty checksums, before all segments are replaced. Raises `OSError`."""
        self._closed.clear()
        first = log.segments[0].base_offset
        sums = Checksums(self._topic_id, log.start_offset, log.epochs, (0, 0), {}, SegmentSum(first, first, 0, 0))
        self._write(CHECKSUMS, encode_checksums(sums))

    def appended(self, segment: LogSegment) -> None:
        """Update the checksum of the active segment, after an append.

        It runs for each batch, and so creates no objects for the line.
        """
        if self._has_checksums:
            store = segment.store
            assert isinstance(store, FileStore)
            line = end_line(segment.base_offset, segment.last_offset + 1, store.size, store.crc)
            # If this fails, the line covers fewer batches than the segment has, as after a crash.
            with suppress(OSError):
                os.pwrite(self.descriptors.of(self._checksums), line, 0)

    # ---- deletion

    def start_offset_changed(self, log: "PartitionLog") -> None:
        """Write a new log start offset, which can be inside a segment. Raises `OSError`."""
        self._on_start_offset()
        self.write_checksums(log)

    def dropped(self, log: "PartitionLog", segments: Sequence[LogSegment]) -> None:
        """Write the new log start offset, then delete the oldest segments.

        Raises `OSError`.
        """
        self._on_start_offset()
        self.unseal(log, *segments)
        for segment in segments:
            segment.store.delete()
            self.delete_segment(segment.base_offset)
        if log.epochs:
            self.write_epochs(log.epochs)


def _sum_of(segment: LogSegment) -> SegmentSum:
    assert isinstance(segment.store, FileStore)
    return SegmentSum(segment.base_offset, segment.last_offset + 1, segment.size, segment.store.crc)


def _link(source: Path, target: Path) -> None:
    """Create a hard link, and replace a file that has the name."""
    with suppress(FileNotFoundError):
        if target.samefile(source):
            return
        target.unlink()
    os.link(source, target)


def with_suffix(folder: Path, suffix: str) -> Path:
    """Return a folder's path with a suffix, cut to 255 bytes as in `LocalLog.logDeleteDirName`."""
    return folder.with_name(folder.name[: _MAX_NAME_BYTES - len(suffix)] + suffix)


def remove_folder(folder: Path) -> None:
    """Delete a folder and its files, if it exists. Raises `OSError`."""
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

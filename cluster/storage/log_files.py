"""`LogFiles`: the folder of a partition, TOPIC-PARTITION, with the files that Kafka's brokers keep there; one in the directory of each broker that has a replica.

Replicas of the embedded cluster share one log, so their folders share the files, too, as hard
links: what is written is written once. A file that is replaced is linked anew. Where the file
system has no hard links, only the first replica's folder has everything.
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
from quorate.codecs.log.files import segment_path, segments_in

if TYPE_CHECKING:
    from quorate.cluster.log import PartitionLog

__all__ = ["EPOCHS", "INDEXES", "METADATA", "LogFiles", "remove_folder", "topic_id_of", "with_suffix"]

EPOCHS = "leader-epoch-checkpoint"
METADATA = "partition.metadata"
INDEXES = (".index", ".timeindex", ".txnindex")
_MOST_NAME = 255
_OF_SEGMENT = (".log", *INDEXES, ".snapshot")


def topic_id_of(folder: Path) -> Uuid | None:
    """Which topic a partition's folder is of, as far as that can be told."""
    try:
        found = decode_properties((folder / METADATA).read_bytes()).get("topic_id")
        return None if found is None else Uuid.parse(found)
    except (OSError, ValueError):
        return None


class LogFiles:
    """The files of one partition in `folders`, of which the first is written to.

    `on_start_offset`: where the log begins is to be noted.
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
        """Be in other folders from now on. `home`: the one that is written to."""
        self.folders = list(folders)
        self.home = self.folders[0]
        self._checksums = self.home / CHECKSUMS

    # ---- links

    def _share_all(self) -> None:
        """Have the other folders be as the first one.

        Copies that no link leads to any more, as after copying the directory, become links again.

        What only they have is left over from segments that are deleted: the first one has
        everything, or the start would have stopped.
        """
        there = {path.name for path in self.home.iterdir()}
        for folder in self.folders[1:]:
            for path in folder.iterdir():
                if path.name not in there and path.suffix in _OF_SEGMENT:
                    path.unlink()
        for name in there:
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
        """Have other folders have the files, too, before the cluster knows that brokers there will have replicas.

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
        """Other brokers have the replicas from now on; their folders have the files already (`spread`).

        Raises `OSError`.
        """
        gone = [one for one in self.folders if one not in folders]
        self._close(log)
        # Where there are links it does not matter which folder is written to; where there are none,
        # it is to be one that has everything.
        self._take_folders(sorted(folders, key=lambda one: one != self.home))
        self._share_all()
        for folder in dict.fromkeys(gone):
            remove_folder(folder)

    def _close(self, log: "PartitionLog") -> None:
        """Close the files that are open: the folder is about to be another one."""
        for segment in log.segments:
            segment.store.delete()
        self.descriptors.close(self._checksums)

    def remove_others(self, folders: Sequence[Path]) -> None:
        """Delete the folders that `spread` made, after all. Raises `OSError`."""
        for folder in folders:
            if folder not in self.folders:
                remove_folder(folder)

    def delete(self, log: "PartitionLog") -> None:
        """Delete the folders of a deleted topic. Raises `OSError`.

        They are renamed first, as brokers do it: a crash in between leaves nothing that looks like
        a log. From then on every write fails, as the renamed folders do not exist: the folders of a
        later topic of the same name are not touched.
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
        """Delete what a crash left half written."""
        for path in self.home.iterdir():
            if path.suffix in (".tmp", ".cleaned"):
                self._remove(path.name)

    # ---- segments

    def _path(self, offset: int, suffix: str) -> Path:
        return segment_path(self.home, offset).with_suffix(suffix)

    def bases(self) -> list[int]:
        """The base offsets of the segments that are there, in their order."""
        return [int(path.stem) for path in segments_in(self.home)]

    def new_segment(self, base_offset: int, now_ms: int) -> LogSegment:
        """A segment without anything in it. Raises `OSError`."""
        # The segment last: where the other files cannot be made, the log goes on without it, and it
        # must not seem to begin there.
        for suffix in (".index", ".timeindex", ".log"):
            path = self._path(base_offset, suffix)
            self.descriptors.close(path)
            os.close(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            self._share(path.name)
        self._is_synced = False
        return self.segment(base_offset, now_ms)

    def segment(self, base_offset: int, now_ms: int, size: int = 0, crc: int = 0) -> LogSegment:
        """A segment that is there, of which so many bytes count, with nothing in its indexes yet."""
        store = FileStore(self, self._path(base_offset, ".log").name, self.descriptors, size, crc)
        return LogSegment(base_offset, store, created_ms=now_ms)

    def sync_folders(self) -> None:
        """Bring to the disk which files there are, unless it knows. Raises `OSError`."""
        if not self._is_synced:
            for folder in self.folders:
                sync_folder(folder)
            self._is_synced = True

    def path(self, segment: LogSegment) -> Path:
        """The file of a segment."""
        return self._path(segment.base_offset, ".log")

    def read(self, offset: int, suffix: str) -> bytes:
        """A file next to a segment; empty if it does not exist."""
        try:
            return self._path(offset, suffix).read_bytes()
        except FileNotFoundError:
            return b""

    def cut(self, segment: LogSegment) -> None:
        """Cut off what is behind the bytes of a segment that count. Raises `OSError`."""
        assert isinstance(segment.store, FileStore)
        if segment.store.path.stat().st_size > segment.size:
            os.ftruncate(self.descriptors.of(segment.store.path), segment.size)

    def write_indexes(self, segment: LogSegment) -> None:
        """`.index` and `.timeindex`, in place, so that links stay. Raises `OSError`."""
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
        """Its files go."""
        for suffix in _OF_SEGMENT:
            self._remove(self._path(base_offset, suffix).name)
        self._is_synced = False

    def cleaned(self, segment: LogSegment) -> FileStore:
        """An empty file next to a segment, for what compaction leaves of it. Raises `OSError`."""
        path = self._path(segment.base_offset, ".log.cleaned")
        self.descriptors.close(path)
        path.write_bytes(b"")
        return FileStore(self, path.name, self.descriptors)

    def replace_segment(self, old: LogSegment, made: LogSegment, aborted: Iterable[AbortedTransaction]) -> None:
        """Put what compaction left, in a file that `cleaned` gave, in the segment's place.

        Raises `OSError`.
        """
        assert isinstance(made.store, FileStore)
        path = self.path(old)
        self.descriptors.close(path)
        made.store.rename(path.name)
        self._share(path.name)
        self.write_aborted(old.base_offset, aborted)
        self.write_indexes(made)
        self._is_synced = False

    # ---- next to segments

    def write_producers(self, offset: int, producers: Producers) -> None:
        """What was known of producers when the log ended at `offset`. Raises `OSError`."""
        self._snapshot = max(self._snapshot, (offset, len(producers.by_id)))
        self._write(self._path(offset, ".snapshot").name, encode_producers(producers.entries()))

    def snapshots(self) -> list[int]:
        """The offsets that there are snapshots for, in their order."""
        return sorted(int(path.stem) for path in self.home.glob("*.snapshot") if path.stem.isdigit())

    def delete_snapshot(self, offset: int) -> None:
        """It is of no use any more."""
        self._remove(self._path(offset, ".snapshot").name)

    def write_epochs(self, epochs: Sequence[tuple[int, int]]) -> None:
        """Where each leader's epoch begins. Raises `OSError`."""
        self._write(EPOCHS, encode_checkpoint(epochs))

    def add_aborted(self, segment: LogSegment, aborted: AbortedTransaction, after: int) -> None:
        """Write an entry of a segment's `.txnindex` after so many others; what follows those is left over from a failed write.

        Raises `OSError`.
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
        """Take back an entry of `.txnindex` whose marker could not be written.

        Where that fails, the next entry overwrites it.
        """
        with suppress(OSError):
            os.truncate(self._path(segment.base_offset, ".txnindex"), after * ABORTED_BYTES)

    def sync_aborted(self, segment: LogSegment) -> None:
        """Bring the `.txnindex` of a segment to the disk, if there is one. Raises `OSError`."""
        with suppress(FileNotFoundError), self._path(segment.base_offset, ".txnindex").open("rb+") as file:
            os.fsync(file.fileno())

    def write_aborted(self, base_offset: int, aborted: Iterable[AbortedTransaction]) -> None:
        """The `.txnindex` of a segment as a whole. Raises `OSError`."""
        data = b"".join(map(encode_aborted, aborted))
        name = self._path(base_offset, ".txnindex").name
        if data:
            self._write(name, data)
        else:
            self._remove(name)

    # ---- checksums

    def take_checksums(self, found: Checksums | None, *, has_gaps: bool) -> None:
        """Continue with those that are in the folder."""
        self._has_gaps = has_gaps
        self._has_checksums = found is not None
        self._closed = {} if found is None else found.closed
        self._snapshot = (0, 0) if found is None else found.snapshot

    def seal(self, segment: LogSegment) -> None:
        """A segment and its indexes are finished: `write_checksums` is to say what is in them.

        Raises `OSError`.
        """
        assert isinstance(segment.store, FileStore)
        crcs = {suffix: google_crc32c.value(self.read(segment.base_offset, suffix)) for suffix in INDEXES}
        self._closed[segment.base_offset] = replace(_sum_of(segment), index_crcs=crcs)

    def unseal(self, log: "PartitionLog", *segments: LogSegment) -> None:
        """Segments are about to be deleted or replaced, and a crash may leave them as they are, or gone.

        Raises `OSError`.
        """
        for one in segments:
            self._closed.pop(one.base_offset, None)
        self.write_checksums(log)

    def unseal_on_disk(self, log: "PartitionLog", segment: LogSegment) -> None:
        """The same, on the disk before the segment is replaced: checksums that are older than a segment would tell of damage.

        Raises `OSError`.
        """
        self.unseal(log, segment)
        os.fsync(self.descriptors.of(self._checksums))
        self._is_synced = False
        self.sync_folders()

    def write_checksums(self, log: "PartitionLog", epochs: Sequence[tuple[int, int]] | None = None) -> None:
        """What the log consists of now. `epochs`: those that it will have. Raises `OSError`."""
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
        """Other batches are about to take the place of all that there are. Raises `OSError`."""
        self._closed.clear()
        first = log.segments[0].base_offset
        sums = Checksums(self._topic_id, log.start_offset, log.epochs, (0, 0), {}, SegmentSum(first, first, 0, 0))
        self._write(CHECKSUMS, encode_checksums(sums))

    def appended(self, segment: LogSegment) -> None:
        """The segment that is written to has become longer.

        Called for each batch: no objects are made for it.
        """
        if self._has_checksums:
            store = segment.store
            assert isinstance(store, FileStore)
            line = end_line(segment.base_offset, segment.last_offset + 1, store.size, store.crc)
            # Where this fails, the file says less than there is, which is what a crash leaves, too.
            with suppress(OSError):
                os.pwrite(self.descriptors.of(self._checksums), line, 0)

    # ---- what goes

    def start_offset_changed(self, log: "PartitionLog") -> None:
        """Records before an offset count as deleted, although they are there. Raises `OSError`."""
        self._on_start_offset()
        self.write_checksums(log)

    def dropped(self, log: "PartitionLog", segments: Sequence[LogSegment]) -> None:
        """The oldest segments are gone; that the log begins later is noted first.

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
    """Have a second name for a file, in the place of whatever has it now."""
    with suppress(FileNotFoundError):
        if target.samefile(source):
            return
        target.unlink()
    os.link(source, target)


def with_suffix(folder: Path, suffix: str) -> Path:
    """The path of a renamed folder.

    A long name is cut to 255 bytes, as in `LocalLog.logDeleteDirName`.
    """
    return folder.with_name(folder.name[: _MOST_NAME - len(suffix)] + suffix)


def remove_folder(folder: Path) -> None:
    """Delete a folder with the files in it, if it is there. Raises `OSError`."""
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

"""`DataDirectory`: the data directory of a cluster.

It has a log directory for each broker, as Kafka's brokers have, and one for the controller:

DIR/controller/meta.properties, __cluster_metadata-0/
DIR/broker-1/meta.properties, TOPIC-PARTITION/, checkpoints

A start inspects the whole directory first, and changes it only if the start is not refused.

The module is longer than others, because start, changes of folders and shutdown must agree on which
folders belong to which partition.
"""

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from quorate.cluster.controller.state import ClusterState
from quorate.cluster.errors import ClusterError
from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import LogConfig
from quorate.cluster.storage.atomic import write_atomically
from quorate.cluster.storage.checksums import CHECKSUMS
from quorate.cluster.storage.files import BadFileError, decode_checkpoint, encode_checkpoint
from quorate.cluster.storage.findings import FolderFindings, Loss, Place
from quorate.cluster.storage.identity import META, boot_id, cluster_id_of, identity, properties_of
from quorate.cluster.storage.inspection import inspect
from quorate.cluster.storage.log_files import LogFiles, remove_folder, topic_id_of, with_suffix
from quorate.cluster.storage.losses import Originals, refusal, repair
from quorate.cluster.storage.metadata import MetadataLog, inspect_metadata
from quorate.cluster.storage.recovery import load
from quorate.cluster.storage.stores import Descriptors
from quorate.cluster.storage.strays import strays
from quorate.codecs import LogError, Uuid
from quorate.codecs.log.files import partition_of

_CLEAN = ".kafka_cleanshutdown"
_START_OFFSETS = "log-start-offset-checkpoint"
_FLUSHED = "recovery-point-offset-checkpoint"
_HIGH_WATERMARKS = "replication-offset-checkpoint"
_CLEANED = "cleaner-offset-checkpoint"
_CONTROLLER_ID = 1000
_DELETED = re.compile(r"(-[0-9]+|\.[0-9a-f]{32})-delete$")
"""Suffix of a deleted partition's folder. Earlier releases of quorate used no id."""

Key = tuple[str, int]


def directory_error(path: str | os.PathLike[str], error: OSError) -> str:
    """Return the message for an error of a data directory, with a remedy."""
    remedy = (
        "free some space, and start again"  # a full disk has lost no data
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "choose another directory for the cluster's data"
    )
    return f"{path}: {error.strerror or error}; {remedy}"


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


class DataDirectory:
    """The data directory of a cluster, which one process locks at a time.

    It is only read until `inspect` accepts it. `new`: it had no cluster. `clean`: the last cluster
    was shut down cleanly. `cluster_id`: that of its cluster, or `new_id` if it had none.

    `state`: the state into which the metadata is replayed. `durable`: flush changes of metadata
    before they are acknowledged. `accept_data_loss`: do not refuse a directory with missing data.
    Raises `ClusterError` if another process uses the directory, if it cannot be read or written,
    and if metadata is missing.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        state: ClusterState,
        new_id: str,
        now_ms: int,
        on_note: Callable[[str], object],
        durable: bool = False,
        accept_data_loss: bool = False,
    ) -> None:
        self.path = Path(path)
        self.descriptors = Descriptors()
        self._note = on_note
        self._logs: dict[Key, tuple[PartitionLog, tuple[int, ...]]] = {}
        self._directories: dict[int, Uuid] = {}
        self.closed = False
        self._written: dict[Path, bytes] = {}
        self._lock = -1
        self.durable = durable
        self._accept_data_loss = accept_data_loss
        self._now_ms = now_ms
        self._originals = Originals(self.path, now_ms)
        self._found: dict[Key, FolderFindings] = {}
        self._owners: dict[Key, Sequence[int]] = {}
        self._damaged_starts: set[int] = set()
        self._of_deleted: list[Path] = []
        try:
            self._controller = self.path / "controller"
            self._refuse_broker_directories()
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock_directory()
            known = cluster_id_of([self._controller, *self._broker_folders()])
            self.new = known is None and not self._has_partitions()
            self.cluster_id = known or new_id
            self.clean = all((broker_folder / _CLEAN).exists() for broker_folder in self._broker_folders())
            self._checkpoints = {name: self._read_checkpoint(name) for name in (_START_OFFSETS, _FLUSHED, _CLEANED)}
            self.metadata = self._read_metadata(state)
        except OSError as error:
            self.release()
            raise ClusterError(directory_error(self.path, error)) from None
        except LogError as error:
            self.release()
            raise ClusterError(str(error)) from None
        except BaseException:
            self.release()
            raise

    def _broker_folders(self) -> list[Path]:
        found = [one for one in self.path.glob("broker-*") if one.is_dir() and one.name[7:].isdigit()]
        return sorted(found, key=lambda one: int(one.name[7:]))

    def _has_partitions(self) -> bool:
        return any(partition_of(one) is not None for broker in self._broker_folders() for one in broker.iterdir())

    # ---- inspection

    def _read_metadata(self, state: ClusterState) -> MetadataLog:
        """Return the metadata log, if it is complete or its loss is accepted.

        Raises `ClusterError`, `LogError` and `OSError`.
        """
        found = inspect_metadata(self._controller, clean=self.clean, same_boot=self._same_boot)
        if self.new and all(one.suffix == ".tmp" for one in found.folder.glob("*")):
            found = FolderFindings(found.folder)  # a new directory, or a first start that was cut short
        elif not any(segment.sum.size for segment in found.segments.values()) and self._has_partitions():
            names = {
                key[0] for broker in self._broker_folders() for one in broker.iterdir() if (key := partition_of(one))
            }
            found.losses = [
                Loss(found.folder, "the cluster's metadata is missing", f"all topics ({', '.join(sorted(names))})")
            ]
        if found.losses and not self._accept_data_loss:
            raise refusal(found.losses)
        self._metadata_is_complete = found.is_whole and not found.losses
        self._metadata_notes = found.notes
        for text in found.notes:
            self._note(text)
        if found.losses:
            for path in sorted(found.folder.glob("*")):
                self._originals.keep(path)
            for text in repair(found, self._originals):
                self._note(text)
        log = MetadataLog(self._controller, self.descriptors, found, state, self._note, durable=self.durable)
        for text in log.dropped:
            self._note(text)
        return log

    def inspect(self, partitions: Iterable[tuple[str, int, Uuid, Sequence[int], bool]]) -> None:
        """Check the data of all partitions, then make the directory ready to be written.

        Call it before `log`. `partitions`: topic, index, topic id, replicas, and whether the topic
        is compacted. Raises `ClusterError` for missing data, unless its loss is accepted, and
        `OSError`. A directory that is refused is not changed.
        """
        for topic, index, topic_id, replicas, compact in partitions:
            self._owners[topic, index] = replicas
            self._found[topic, index] = self._inspect_partition(topic, index, topic_id, replicas, compact)
        removed = set(map(str, self.metadata.removed))
        others = list(
            strays(
                self._broker_folders(), self._owners, removed=removed, metadata_is_complete=self._metadata_is_complete
            )
        )
        losses = [loss for found in self._found.values() for loss in found.losses]
        losses += [Loss(one.folder, one.detail, one.lost) for one in others if one.lost]
        if losses and not self._accept_data_loss:
            raise refusal(losses, self._metadata_notes)
        for key, found in self._found.items():
            for text in found.notes:
                self._note(text)
            if not found.losses:
                continue
            for text in repair(found, self._originals):
                self._note(text)
            if found.foreign is not None:
                self._set_aside(found.folder)
                self._found[key] = FolderFindings(found.folder)
        for folder in (*self._of_deleted, *(one.folder for one in others if not one.stays)):
            self._set_aside(folder)
        for one in others:
            if one.stays:
                self._note(f"{one.folder} belongs to no partition of this cluster; it is ignored")
        self._delete_leftovers()
        self._controller.mkdir(exist_ok=True)
        self.metadata.begin(self._now_ms)
        self._write_identity(self._controller, _CONTROLLER_ID, None)
        for broker in self._broker_folders():
            self.broker(int(broker.name[7:]))
        for broker in self._broker_folders():
            (broker / _CLEAN).unlink(missing_ok=True)
        if self._lock >= 0:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, boot_id(), 0)

    def _inspect_partition(
        self, topic: str, index: int, topic_id: Uuid, replicas: Sequence[int], compact: bool
    ) -> FolderFindings:
        """Inspect the replicas' folders, and return the findings of the most complete one.

        Hard links may have become copies, or may be missing.
        """
        key = (topic, index)
        place = Place(
            str(topic_id),
            start_offset=self._checkpoints[_START_OFFSETS].get(key, 0),
            flushed_offset=self._checkpoints[_FLUSHED].get(key, 0),
            clean=self.clean,
            same_boot=self._same_boot,
            has_gaps=compact,
        )
        best: FolderFindings | None = None
        for folder in self._folders(topic, index, replicas):
            if best is not None and _is_same(folder / CHECKSUMS, best.folder / CHECKSUMS) and not best.losses:
                continue
            found = inspect(folder, place)
            if found.foreign is not None and found.foreign in map(str, self.metadata.removed):
                self._of_deleted.append(folder)  # of a deleted topic of the same name
                found = FolderFindings(folder)
            if best is None or self._rank(found) > self._rank(best):
                if best is not None:
                    found.notes.append(f"{folder} is used instead of {best.folder}, which is incomplete")
                best = found
        assert best is not None
        has_data = any(segment.sum.size for segment in best.segments.values())
        if best.checksums is None and has_data and self._damaged_starts.issuperset(replicas):
            path = self.path / f"broker-{replicas[0]}" / _START_OFFSETS
            best.losses.append(
                Loss(path, "the file is damaged", f"the start offset of {topic}-{index}, and so deletions,")
            )
        return best

    @staticmethod
    def _rank(found: FolderFindings) -> tuple[bool, bool, bool, int]:
        return not found.losses, found.is_whole, found.checksums is not None, found.end_offset

    def _refuse_broker_directories(self) -> None:
        """Raise `ClusterError` for the log directory of a single broker.

        A Kafka broker could not use its directory any more after an embedded cluster wrote to it.
        """
        if self._controller.exists():
            return
        if (self.path.parent / "controller" / META).exists() and self.path.name.startswith("broker-"):
            raise ClusterError(
                f"{self.path} is the directory of one broker; use that of the whole cluster, {self.path.parent}"
            )
        meta = properties_of(self.path)
        partitions = self.path.glob("*-*/*.log") if self.path.is_dir() else ()
        if meta or any(partition_of(partition.parent) is not None for partition in partitions):
            whose = (
                f"broker {meta.get('node.id', meta.get('broker.id', '?'))} of Kafka" if meta else "a broker of Kafka"
            )
            raise ClusterError(
                f"{self.path} is the log directory of {whose}, which an embedded cluster cannot use; "
                f"choose another directory, and read this one with `quorate decode` or `quorate groups`"
            )

    def _lock_directory(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            self._same_boot = True
            return
        self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise ClusterError(
                f"{self.path} is in use by another cluster; stop that one, or choose another directory"
            ) from None
        self._same_boot = os.pread(self._lock, 100, 0) in (b"", boot_id())

    # ---- brokers

    def broker(self, broker_id: int) -> Path:
        """Return a broker's log directory, and create it on first use."""
        folder = self.path / f"broker-{broker_id}"
        if broker_id not in self._directories:
            folder.mkdir(exist_ok=True)
            known = self.metadata.state.brokers.get(broker_id)
            self._directories[broker_id] = self._write_identity(
                folder, broker_id, None if known is None else known.directory
            )
        return folder

    def directory_id(self, broker_id: int) -> Uuid:
        """Return the id of a broker's log directory (KIP-858)."""
        self.broker(broker_id)
        return self._directories[broker_id]

    def _write_identity(self, folder: Path, broker_id: int, registered: Uuid | None) -> Uuid:
        """Write a folder's `meta.properties` if it is missing or differs. Returns the directory id.

        All its contents are known from other files, too.
        """
        directory, text = identity(folder, broker_id, self.cluster_id, registered)
        if text is not None:
            is_new = self.new if broker_id == _CONTROLLER_ID else registered is None and not (folder / META).exists()
            if not is_new:
                self._note(f"{folder / META} is damaged or missing; it is rewritten")
            write_atomically(folder / META, text, durable=self.durable)
        return directory

    # ---- partitions

    def log(
        self, topic: str, index: int, topic_id: Uuid, replicas: Sequence[int], config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """Load the log of a partition. Create it if it does not exist, recover it after a crash.

        Raises `OSError`.
        """
        for broker in replicas:
            self.broker(broker)
        key = (topic, index)
        if key in self._logs:  # of another topic with this name, which was deleted or not created
            self.remove(topic, index, self._logs[key][0])
        found = self._found.pop(key, None) or self._new_partition(topic, index, topic_id, replicas)
        folders = sorted(self._folders(topic, index, replicas), key=lambda folder: folder != found.folder)
        files = LogFiles(folders, topic_id, self.descriptors, self._write_start_offsets)
        log = load(files, config, found, now_ms=now_ms)
        cleaned = self._checkpoints[_CLEANED].get(key, 0)
        if cleaned <= log.next_offset:
            log.first_dirty_offset = max(log.first_dirty_offset, cleaned)
        self._logs[key] = (log, tuple(replicas))
        return log

    def _new_partition(self, topic: str, index: int, topic_id: Uuid, replicas: Sequence[int]) -> FolderFindings:
        """Return empty findings for a new partition, after renaming stray folders of its name."""
        folders = self._folders(topic, index, replicas)
        for folder in folders:
            if folder.exists() and topic_id_of(folder) != topic_id:
                self._set_aside(folder)
        return FolderFindings(folders[0])

    def spread(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        """Create the folders of a partition's new replicas. Raises `OSError`."""
        log, _ = self._logs[topic, index]
        if log.files is not None:
            for broker in replicas:
                self.broker(broker)
            log.files.spread(self._folders(topic, index, replicas))

    def not_spread(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        """Delete the folders that `spread` created, after a failure. Raises `OSError`."""
        log, _ = self._logs[topic, index]
        if log.files is not None:
            log.files.remove_others(self._folders(topic, index, replicas))

    def moved(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        """Use the new replicas' folders and delete the others, after the change was committed.

        Raises `OSError`.
        """
        log, was = self._logs[topic, index]
        if tuple(replicas) != was and log.files is not None:
            log.files.move(self._folders(topic, index, replicas), log)
            self._logs[topic, index] = (log, tuple(replicas))

    def remove(self, topic: str, index: int, log: PartitionLog) -> None:
        """Delete the log and the checkpoints of a partition, unless they are deleted already.

        The metadata log must have the deletion.
        """
        if log.files is None or log.files.deleted:
            return
        del self._logs[topic, index]
        for noted in self._checkpoints.values():
            noted.pop((topic, index), None)
        home = log.files.home
        try:
            log.files.delete(log)
            if log.start_offset:
                self._write_start_offsets()
        except OSError as error:
            self._note(f"{home} could not be deleted: {error}; the next start tries again")

    def _folders(self, topic: str, index: int, replicas: Iterable[int]) -> list[Path]:
        return [self.path / f"broker-{replica}" / f"{topic}-{index}" for replica in replicas]

    def _delete_leftovers(self) -> None:
        """Delete folders whose deletion a crash cut short."""
        for broker in self._broker_folders():
            for folder in broker.iterdir():
                if _DELETED.search(folder.name) and folder.is_dir():
                    remove_folder(folder)

    def _set_aside(self, folder: Path) -> None:
        stray = with_suffix(folder, f".{uuid4().hex}-stray")
        folder.rename(stray)
        self._note(
            f"{folder} belongs to no partition of this cluster; it was renamed to {stray.name} and can be deleted"
        )

    # ---- checkpoints

    def _read_checkpoint(self, name: str) -> dict[Key, int]:
        found: dict[Key, int] = {}
        for broker in self._broker_folders():
            try:
                read = {
                    (topic, int(index)): int(offset)
                    for topic, index, offset in decode_checkpoint((broker / name).read_bytes())
                }
            except FileNotFoundError:
                continue
            except (BadFileError, ValueError) as error:
                self._note(f"{broker / name} is damaged ({error}); it is rewritten")
                if name == _START_OFFSETS:
                    self._damaged_starts.add(int(broker.name[7:]))
                continue
            for key, offset in read.items():
                found[key] = max(offset, found.get(key, 0))
        return found

    def _write_checkpoint(self, name: str, offsets: Mapping[Key, int], *, durable: bool = False) -> None:
        """Write those files of a checkpoint that have changed, one per broker.

        Raises `OSError`.
        """
        for broker_id in self._directories:
            mine = [
                (*key, offsets[key])
                for key, (_, replicas) in self._logs.items()
                if broker_id in replicas and key in offsets
            ]
            path, text = self.broker(broker_id) / name, encode_checkpoint(mine)
            if self._written.get(path) != text:
                write_atomically(path, text, durable=durable)
                self._written[path] = text

    def _write_start_offsets(self) -> None:
        """Write the start offsets of logs, which can be inside a segment. Raises `OSError`."""
        starts = {key: log.start_offset for key, (log, _) in self._logs.items() if log.start_offset}
        self._write_checkpoint(_START_OFFSETS, starts, durable=self.durable)

    def checkpoint(self) -> None:
        """Write the checkpoints: flushed offsets, high watermarks, and compacted offsets.

        Raises `OSError`.
        """
        logs = {key: log for key, (log, _) in self._logs.items()}
        self._write_checkpoint(_FLUSHED, {key: log.flushed_offset for key, log in logs.items()})
        self._write_checkpoint(_HIGH_WATERMARKS, {key: log.high_watermark for key, log in logs.items()})
        cleaned = {key: log.first_dirty_offset for key, log in logs.items() if log.config.compact}
        self._write_checkpoint(_CLEANED, cleaned)

    # ---- shutdown

    def close(self) -> None:
        """Shut down cleanly: flush everything, so that the next start needs no recovery.

        Raises `OSError` and `AppendError`.
        """
        if self.closed:
            return
        for log, _ in self._logs.values():
            log.close()
        self.metadata.close()
        self._write_start_offsets()
        self.checkpoint()
        for broker_id in self._directories:
            known = self.metadata.state.brokers.get(broker_id)
            text = json.dumps({"version": 0, "brokerEpoch": -1 if known is None else known.epoch})
            write_atomically(self.broker(broker_id) / _CLEAN, text.encode())
        self.release()

    def release(self) -> None:
        """Close all files and release the lock, without a clean shutdown."""
        self.closed = True
        self.descriptors.close_all()
        self._directories.clear()
        self._logs.clear()
        if self._lock >= 0:
            with suppress(OSError):
                os.close(self._lock)
            self._lock = -1

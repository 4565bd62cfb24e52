"""`DataDirectory`: a cluster's directory, with one for each broker as Kafka's brokers have them, and one for the controller with the cluster's metadata.

DIR/controller/meta.properties, __cluster_metadata-0/
DIR/broker-1/meta.properties, TOPIC-PARTITION/, checkpoints

A little longer than a module should be: a start looks at everything first, and changes nothing
unless it goes on; both have to agree on what was found.
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

__all__ = ["DataDirectory", "why_unusable"]

_CLEAN = ".kafka_cleanshutdown"
_START_OFFSETS = "log-start-offset-checkpoint"
_FLUSHED = "recovery-point-offset-checkpoint"
_HIGH_WATERMARKS = "replication-offset-checkpoint"
_CLEANED = "cleaner-offset-checkpoint"
_CONTROLLER_ID = 1000
_DELETED = re.compile(r"(-[0-9]+|\.[0-9a-f]{32})-delete$")
"""How the name of a deleted partition's folder ends. Earlier releases gave it no id."""

Key = tuple[str, int]


def why_unusable(path: str | os.PathLike[str], error: OSError) -> str:
    """What is wrong with a cluster's directory, and what to do about it: a full disk has lost nothing."""
    remedy = (
        "free some space, and start again"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "choose another directory for the cluster's data"
    )
    return f"{path}: {error.strerror or error}; {remedy}"


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


class DataDirectory:
    """The directory of a cluster, which one process has at a time.

    It is only read until `inspect` has found that it may be used. `new`: there was no cluster in
    it; `clean`: the last one was stopped in order.

    `cluster_id`: of the cluster in it, or `new_id` if there is none; `state`: its metadata is
    replayed into it; `durable`: changes of metadata are on the disk before anybody is told;
    `accept_data_loss`: a start is not refused for data that is missing. Raises `ClusterError` if
    another has it, if it cannot be read or written, and for metadata that is missing.
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
        self._accepts = accept_data_loss
        self._now_ms = now_ms
        self._originals = Originals(self.path, now_ms)
        self._found: dict[Key, FolderFindings] = {}
        self._owners: dict[Key, Sequence[int]] = {}
        self._damaged_starts: set[int] = set()
        self._of_deleted: list[Path] = []
        try:
            self._controller = self.path / "controller"
            self._refuse_brokers()
            self.path.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            known = cluster_id_of([self._controller, *self._broker_folders()])
            self.new = known is None and not self._has_partitions()
            self.cluster_id = known or new_id
            self.clean = all((one / _CLEAN).exists() for one in self._broker_folders())
            self._checkpoints = {name: self._read_checkpoint(name) for name in (_START_OFFSETS, _FLUSHED, _CLEANED)}
            self.metadata = self._read_metadata(state)
        except OSError as error:
            self.release()
            raise ClusterError(why_unusable(self.path, error)) from None
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

    # ---- what is missing

    def _read_metadata(self, state: ClusterState) -> MetadataLog:
        """The log of metadata, if it is whole, or its loss is accepted.

        Raises `ClusterError`, `LogError` and `OSError`.
        """
        found = inspect_metadata(self._controller, clean=self.clean, same_boot=self._same_boot)
        if self.new and all(one.suffix == ".tmp" for one in found.folder.glob("*")):
            found = FolderFindings(found.folder)  # there was no cluster, or its first start got no further
        elif not any(one.sum.size for one in found.segments.values()) and self._has_partitions():
            names = {
                key[0] for broker in self._broker_folders() for one in broker.iterdir() if (key := partition_of(one))
            }
            found.losses = [
                Loss(found.folder, "there is no metadata of the cluster", f"all topics ({', '.join(sorted(names))})")
            ]
        if found.losses and not self._accepts:
            raise refusal(found.losses)
        self._knows_all_topics = found.is_whole and not found.losses
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
        """Look whether everything is there of partitions, with their topic's id, replicas, and whether they are compacted; to be called before `log`.

        Raises `ClusterError` for what is missing, unless that is accepted, and `OSError`. Nothing
        is changed in a directory that is refused.
        """
        for topic, index, topic_id, replicas, compact in partitions:
            self._owners[topic, index] = replicas
            self._found[topic, index] = self._look(topic, index, topic_id, replicas, compact)
        removed = set(map(str, self.metadata.removed))
        others = list(
            strays(self._broker_folders(), self._owners, removed=removed, knows_all_topics=self._knows_all_topics)
        )
        losses = [loss for found in self._found.values() for loss in found.losses]
        losses += [Loss(one.folder, one.detail, one.lost) for one in others if one.lost]
        if losses and not self._accepts:
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
                self._note(f"{one.folder} is of no partition of this cluster, and is left alone")
        self._delete_removed()
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

    def _look(self, topic: str, index: int, topic_id: Uuid, replicas: Sequence[int], compact: bool) -> FolderFindings:
        """What is in the folder of the replica that has most: links may have become copies, or be missing."""
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
                self._of_deleted.append(folder)  # a topic of the same name
                found = FolderFindings(folder)
            if best is None or self._rank(found) > self._rank(best):
                if best is not None:
                    found.notes.append(f"{folder} takes the place of {best.folder}, where something is missing")
                best = found
        assert best is not None
        has_data = any(one.sum.size for one in best.segments.values())
        if best.checksums is None and has_data and self._damaged_starts.issuperset(replicas):
            path = self.path / f"broker-{replicas[0]}" / _START_OFFSETS
            best.losses.append(
                Loss(path, "the file is damaged", f"the start offset of {topic}-{index}, and so deletions,")
            )
        return best

    @staticmethod
    def _rank(found: FolderFindings) -> tuple[bool, bool, bool, int]:
        return not found.losses, found.is_whole, found.checksums is not None, found.end_offset

    def _refuse_brokers(self) -> None:
        """A broker's own log directory is not written to: a real one would not know what to make of it afterwards.

        Raises `ClusterError`.
        """
        if self._controller.exists():
            return
        if (self.path.parent / "controller" / META).exists() and self.path.name.startswith("broker-"):
            raise ClusterError(
                f"{self.path} is what one broker of a cluster keeps; give the whole cluster's directory, {self.path.parent}"
            )
        meta = properties_of(self.path)
        partitions = self.path.glob("*-*/*.log") if self.path.is_dir() else ()
        if meta or any(partition_of(one.parent) is not None for one in partitions):
            whose = (
                f"broker {meta.get('node.id', meta.get('broker.id', '?'))} of Kafka" if meta else "a broker of Kafka"
            )
            raise ClusterError(
                f"{self.path} is the log directory of {whose}, which an embedded cluster does not go on with; choose another directory, "
                f"and read this one with `quorate decode` or `quorate groups`"
            )

    def _take_lock(self) -> None:
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

    def broker(self, number: int) -> Path:
        """A broker's log directory, which is made when it is asked for first."""
        folder = self.path / f"broker-{number}"
        if number not in self._directories:
            folder.mkdir(exist_ok=True)
            known = self.metadata.state.brokers.get(number)
            self._directories[number] = self._write_identity(folder, number, None if known is None else known.directory)
        return folder

    def directory_id(self, number: int) -> Uuid:
        """The id of a broker's log directory (KIP-858)."""
        self.broker(number)
        return self._directories[number]

    def _write_identity(self, folder: Path, number: int, registered: Uuid | None) -> Uuid:
        """See to it that a folder's `meta.properties` says what it should; everything in it is known from elsewhere, too."""
        directory, text = identity(folder, number, self.cluster_id, registered)
        if text is not None:
            is_new = self.new if number == _CONTROLLER_ID else registered is None and not (folder / META).exists()
            if not is_new:
                self._note(f"{folder / META} is damaged or missing; it is written again")
            write_atomically(folder / META, text, durable=self.durable)
        return directory

    # ---- partitions

    def log(
        self, topic: str, index: int, topic_id: Uuid, replicas: Sequence[int], config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """The log of a partition: made if it is not there, and recovered if it was not stopped in order.

        Raises `OSError`.
        """
        for broker in replicas:
            self.broker(broker)
        key = (topic, index)
        if key in self._logs:  # of another topic with this name, deleted or not created yet: its folders go now
            self.remove(topic, index, self._logs[key][0])
        found = self._found.pop(key, None) or self._begun(topic, index, topic_id, replicas)
        folders = sorted(self._folders(topic, index, replicas), key=lambda one: one != found.folder)
        files = LogFiles(folders, topic_id, self.descriptors, self._write_start_offsets)
        log = load(files, config, found, now_ms=now_ms)
        cleaned = self._checkpoints[_CLEANED].get(key, 0)
        if cleaned <= log.next_offset:
            log.first_dirty_offset = max(log.first_dirty_offset, cleaned)
        self._logs[key] = (log, tuple(replicas))
        return log

    def _begun(self, topic: str, index: int, topic_id: Uuid, replicas: Sequence[int]) -> FolderFindings:
        """Folders for a new partition: others of its name, which are of no partition of the cluster, are set aside."""
        folders = self._folders(topic, index, replicas)
        for folder in folders:
            if folder.exists() and topic_id_of(folder) != topic_id:
                self._set_aside(folder)
        return FolderFindings(folders[0])

    def spread(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        """Other brokers will have replicas of a partition. Raises `OSError`."""
        log, _ = self._logs[topic, index]
        if log.files is not None:
            for broker in replicas:
                self.broker(broker)
            log.files.spread(self._folders(topic, index, replicas))

    def not_spread(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        """They will not, after all. Raises `OSError`."""
        log, _ = self._logs[topic, index]
        if log.files is not None:
            log.files.remove_others(self._folders(topic, index, replicas))

    def moved(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        """They have them now, and others have not, which is written down. Raises `OSError`."""
        log, was = self._logs[topic, index]
        if tuple(replicas) != was and log.files is not None:
            log.files.move(self._folders(topic, index, replicas), log)
            self._logs[topic, index] = (log, tuple(replicas))

    def remove(self, topic: str, index: int, log: PartitionLog) -> None:
        """Delete the log of a partition, unless it is deleted already, and its checkpoints.

        That the partition is gone is written down.
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
            self._note(f"{home} could not be deleted: {error}; the next start tries it again")

    def _folders(self, topic: str, index: int, replicas: Iterable[int]) -> list[Path]:
        return [self.path / f"broker-{one}" / f"{topic}-{index}" for one in replicas]

    def _delete_removed(self) -> None:
        """Delete what was to be deleted before a crash."""
        for broker in self._broker_folders():
            for folder in broker.iterdir():
                if _DELETED.search(folder.name) and folder.is_dir():
                    remove_folder(folder)

    def _set_aside(self, folder: Path) -> None:
        stray = with_suffix(folder, f".{uuid4().hex}-stray")
        folder.rename(stray)
        self._note(f"{folder} is of no partition of this cluster; it is {stray.name} now, and may be deleted")

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
                self._note(f"{broker / name} is damaged ({error}); it is written again")
                if name == _START_OFFSETS:
                    self._damaged_starts.add(int(broker.name[7:]))
                continue
            for key, offset in read.items():
                found[key] = max(offset, found.get(key, 0))
        return found

    def _write_checkpoint(self, name: str, offsets: Mapping[Key, int], *, durable: bool = False) -> None:
        """Write the files of a checkpoint, in the directories of brokers, that are not as they should be.

        Raises `OSError`.
        """
        for number in self._directories:
            mine = [
                (*key, offsets[key])
                for key, (_, replicas) in self._logs.items()
                if number in replicas and key in offsets
            ]
            path, text = self.broker(number) / name, encode_checkpoint(mine)
            if self._written.get(path) != text:
                write_atomically(path, text, durable=durable)
                self._written[path] = text

    def _write_start_offsets(self) -> None:
        """Where logs begin, which the names of their segments need not say. Raises `OSError`."""
        starts = {key: log.start_offset for key, (log, _) in self._logs.items() if log.start_offset}
        self._write_checkpoint(_START_OFFSETS, starts, durable=self.durable)

    def checkpoint(self) -> None:
        """Note what is on the disk, how far consumers may read, and how far logs were compacted.

        Raises `OSError`.
        """
        logs = {key: log for key, (log, _) in self._logs.items()}
        self._write_checkpoint(_FLUSHED, {key: log.flushed_offset for key, log in logs.items()})
        self._write_checkpoint(_HIGH_WATERMARKS, {key: log.high_watermark for key, log in logs.items()})
        cleaned = {key: log.first_dirty_offset for key, log in logs.items() if log.config.compact}
        self._write_checkpoint(_CLEANED, cleaned)

    # ---- the end

    def close(self) -> None:
        """Stop in order: everything is on the disk, and the next start takes it as it is.

        Raises `OSError` and `AppendError`.
        """
        if self.closed:
            return
        for log, _ in self._logs.values():
            log.close()
        self.metadata.close()
        self._write_start_offsets()
        self.checkpoint()
        for number in self._directories:
            known = self.metadata.state.brokers.get(number)
            text = json.dumps({"version": 0, "brokerEpoch": -1 if known is None else known.epoch})
            write_atomically(self.broker(number) / _CLEAN, text.encode())
        self.release()

    def release(self) -> None:
        """Let go of it without stopping in order, as a crash does."""
        self.closed = True
        self.descriptors.close_all()
        self._directories.clear()
        self._logs.clear()
        if self._lock >= 0:
            with suppress(OSError):
                os.close(self._lock)
            self._lock = -1

"""`DataDirectory`: a cluster's directory, with one for each broker as Kafka's brokers have them, and one for the controller with the cluster's metadata.

DIR/controller/meta.properties, __cluster_metadata-0/
DIR/broker-1/meta.properties, TOPIC-PARTITION/, checkpoints
"""

import errno
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from quorate.cluster.errors import ClusterStateError
from quorate.cluster.flushing import Flusher, Unflushed
from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import LogConfig
from quorate.cluster.storage.atomic import write_atomically
from quorate.cluster.storage.files import (
    BadFileError,
    decode_checkpoint,
    decode_properties,
    encode_checkpoint,
    encode_properties,
)
from quorate.cluster.storage.log_files import LogFiles, topic_id_of
from quorate.cluster.storage.metadata import MetadataLog
from quorate.cluster.storage.recovery import load
from quorate.cluster.storage.stores import Descriptors
from quorate.codecs import LogError, Uuid
from quorate.codecs.log_files import partition_of

__all__ = ["DataDirectory", "why_unusable"]

_META = "meta.properties"
_CLEAN = ".kafka_cleanshutdown"
_START_OFFSETS = "log-start-offset-checkpoint"
_FLUSHED = "recovery-point-offset-checkpoint"
_HIGH_WATERMARKS = "replication-offset-checkpoint"
_CLEANED = "cleaner-offset-checkpoint"
_CONTROLLER_ID = 1000

Key = tuple[str, int]


def why_unusable(path: str | os.PathLike[str], error: OSError) -> str:
    """What is wrong with a cluster's directory, and what to do about it: a full disk has lost nothing."""
    remedy = (
        "free some space, and start again"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "choose another directory for the cluster's data"
    )
    return f"{path}: {error.strerror or error}; {remedy}"


class DataDirectory:
    """The directory of a cluster, which one process has at a time. `new`: there was no cluster in it; `clean`: the last one was stopped in order.

    `cluster_id`: of the cluster in it, or `new_id` if there is none; `durable`: changes of metadata are on the disk before anybody is told. Raises `ClusterStateError` if another has it, or if it cannot be read or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        new_id: str,
        now_ms: int,
        on_note: Callable[[str], object],
        durable: bool = False,
    ) -> None:
        self.path = Path(path)
        self.descriptors = Descriptors()
        self._note = on_note
        self._logs: dict[Key, tuple[PartitionLog, tuple[int, ...]]] = {}
        self._directories: dict[int, Uuid] = {}
        self.closed = False
        self._written: dict[Path, bytes] = {}
        self._lock = -1
        self._durable = durable
        self._start_offsets = _StartOffsets(self)
        try:
            self._controller = self.path / "controller"
            self._refuse_brokers()
            self._controller.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            meta = self._properties(self._controller)
            self.new = not meta
            self.cluster_id = meta.get("cluster.id", new_id)
            if self.new:
                self._write_meta(self._controller, _CONTROLLER_ID)
            self.clean = all((one / _CLEAN).exists() for one in self.path.glob("broker-*") if one.is_dir())
            self.metadata = MetadataLog(self._controller, self.descriptors, now_ms=now_ms, durable=durable)
            self._checkpoints = {name: self._read_checkpoint(name) for name in (_START_OFFSETS, _FLUSHED, _CLEANED)}
            for broker in self.path.glob("broker-*"):
                (broker / _CLEAN).unlink(missing_ok=True)
        except OSError as error:
            self.release()
            raise ClusterStateError(why_unusable(self.path, error)) from None
        except LogError as error:
            self.release()
            raise ClusterStateError(str(error)) from None
        except BaseException:
            self.release()
            raise
        if self.metadata.cut_bytes:
            self._note(f"{self.path}: {self.metadata.cut_bytes} bytes of an unfinished change of metadata were cut off")

    def _refuse_brokers(self) -> None:
        """A broker's own log directory is not written to: a real one would not know what to make of it afterwards. Raises `ClusterStateError`."""
        if self._controller.exists():
            return
        if (self.path.parent / "controller" / _META).exists() and self.path.name.startswith("broker-"):
            raise ClusterStateError(
                f"{self.path} is what one broker of a cluster keeps; give the whole cluster's directory, {self.path.parent}"
            )
        meta = self._properties(self.path)
        partitions = self.path.glob("*-*/*.log") if self.path.is_dir() else ()
        if meta or any(partition_of(one.parent) is not None for one in partitions):
            whose = (
                f"broker {meta.get('node.id', meta.get('broker.id', '?'))} of Kafka" if meta else "a broker of Kafka"
            )
            raise ClusterStateError(
                f"{self.path} is the log directory of {whose}, which an embedded cluster does not go on with; choose another directory, "
                f"and read this one with `quorate decode` or `quorate groups`"
            )

    def _take_lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise ClusterStateError(
                f"{self.path} is in use by another cluster; stop that one, or choose another directory"
            ) from None

    # ---- brokers

    def broker(self, number: int) -> Path:
        """A broker's log directory, which is made when it is asked for first."""
        folder = self.path / f"broker-{number}"
        if number not in self._directories:
            folder.mkdir(exist_ok=True)
            meta = self._properties(folder)
            if meta.get("cluster.id", self.cluster_id) != self.cluster_id:
                raise ClusterStateError(
                    f"{folder} is of cluster {meta['cluster.id']}, not of {self.cluster_id}; choose another directory"
                )
            found = meta.get("directory.id")
            self._directories[number] = Uuid.parse(found) if found else self._write_meta(folder, number)
        return folder

    def directory_id(self, number: int) -> Uuid:
        """The id of a broker's log directory (KIP-858)."""
        self.broker(number)
        return self._directories[number]

    def _properties(self, folder: Path) -> dict[str, str]:
        try:
            return decode_properties((folder / _META).read_bytes())
        except FileNotFoundError:
            return {}
        except BadFileError as error:
            raise ClusterStateError(f"{folder / _META}: {error}; restore it from a copy") from None

    def _write_meta(self, folder: Path, number: int) -> Uuid:
        directory = Uuid(uuid4().bytes)
        text = {"version": 1, "cluster.id": self.cluster_id, "node.id": number, "directory.id": directory}
        write_atomically(folder / _META, encode_properties(text), durable=self._durable)
        return directory

    # ---- partitions

    def log(
        self, topic: str, index: int, topic_id: Uuid, replicas: Sequence[int], config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """The log of a partition: made if it is not there, and recovered if it was not stopped in order. Raises `OSError`."""
        folders = self._folders(topic, index, replicas)
        for folder in folders:
            if topic_id_of(folder) not in (None, topic_id):
                self._set_aside(folder)  # of a topic of the same name that was deleted
        # Links may have become copies, or be missing: the first folder with segments has what counts.
        folders.sort(key=lambda one: not any(one.glob("*.log")) if one.is_dir() else True)
        files = LogFiles(folders, topic_id, self.descriptors, self._write_start_offsets)
        key = (topic, index)
        log, cut = load(
            files,
            config,
            clean=self.clean,
            start_offset=self._checkpoints[_START_OFFSETS].get(key, 0),
            flushed_offset=self._checkpoints[_FLUSHED].get(key, 0),
            now_ms=now_ms,
        )
        log.first_dirty_offset = max(log.first_dirty_offset, self._checkpoints[_CLEANED].get(key, 0))
        if cut:
            self._note(
                f"{files.home}: {cut:,} bytes behind offset {log.next_offset:,} were no whole batches, and were cut off"
            )
        self._logs[key] = (log, tuple(replicas))
        return log

    def spread(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        """Other brokers will have replicas of a partition. Raises `OSError`."""
        log, _ = self._logs[topic, index]
        if log.files is not None:
            log.files.spread(self._folders(topic, index, replicas))

    def moved(self, topic: str, index: int, replicas: Sequence[int]) -> None:
        """They have them now, and others have not. Raises `OSError`."""
        log, was = self._logs[topic, index]
        if tuple(replicas) != was and log.files is not None:
            log.files.move(self._folders(topic, index, replicas), log)
            self._logs[topic, index] = (log, tuple(replicas))

    def remove(self, topic: str, index: int) -> None:
        """A partition is gone, with what was noted of it: a later topic may have its name."""
        log, _ = self._logs.pop((topic, index))
        for noted in self._checkpoints.values():
            noted.pop((topic, index), None)
        if log.files is not None:
            try:
                log.files.delete(log)
                if log.start_offset:
                    self._write_start_offsets()
            except OSError as error:
                self._note(f"{log.files.home} could not be deleted: {error}; the next start tries it again")

    def _folders(self, topic: str, index: int, replicas: Iterable[int]) -> list[Path]:
        return [self.broker(one) / f"{topic}-{index}" for one in replicas]

    def set_strays_aside(self) -> None:
        """Rename folders of partitions that the cluster does not have, as brokers do it; what was to be deleted is."""
        for broker in self.path.glob("broker-*"):
            for folder in list(broker.iterdir()):
                if not folder.is_dir() or folder.name.endswith("-stray"):
                    continue
                if folder.name.endswith("-delete"):
                    for path in folder.iterdir():
                        path.unlink()
                    folder.rmdir()
                    continue
                key = partition_of(folder)
                number = broker.name.removeprefix("broker-")
                if key is None or (key in self._logs and number in map(str, self._logs[key][1])):
                    continue
                self._set_aside(folder)

    def _set_aside(self, folder: Path) -> None:
        stray = folder.with_name(f"{folder.name}.{uuid4().hex}-stray")
        folder.rename(stray)
        self._note(f"{folder} is of no partition of this cluster; it is {stray.name} now, and may be deleted")

    # ---- checkpoints

    def _read_checkpoint(self, name: str) -> dict[Key, int]:
        found: dict[Key, int] = {}
        for broker in self.path.glob("broker-*"):
            try:
                for topic, index, offset in decode_checkpoint((broker / name).read_bytes()):
                    key = (topic, int(index))
                    found[key] = max(int(offset), found.get(key, 0))
            except (BadFileError, OSError, ValueError):
                continue
        return found

    def _write_checkpoint(self, name: str, offsets: Mapping[Key, int]) -> None:
        for path, text in self._changed(name, offsets).items():
            write_atomically(path, text)
            self._written[path] = text

    def _changed(self, name: str, offsets: Mapping[Key, int]) -> dict[Path, bytes]:
        """The files of a checkpoint that are not as they should be, in the directories of brokers."""
        found = {}
        for number in self._directories:
            mine = [
                (*key, offsets[key])
                for key, (_, replicas) in self._logs.items()
                if number in replicas and key in offsets
            ]
            path, text = self.broker(number) / name, encode_checkpoint(mine)
            if self._written.get(path) != text:
                found[path] = text
        return found

    def _write_start_offsets(self) -> None:
        """Where logs begin, which the names of their segments need not say. Raises `OSError`."""
        if self._durable:
            self._start_offsets.write()
        else:
            self._write_checkpoint(_START_OFFSETS, self._starts())

    def _starts(self) -> dict[Key, int]:
        return {key: log.start_offset for key, (log, _) in self._logs.items() if log.start_offset}

    def flush_by(self, flusher: Flusher) -> None:
        """From now on nobody waits for the disk who need not."""
        self.metadata.flush_by(flusher)
        self._start_offsets.flusher = flusher

    def checkpoint(self) -> None:
        """Note what is on the disk, how far consumers may read, and how far logs were compacted. Raises `OSError`."""
        logs = {key: log for key, (log, _) in self._logs.items()}
        self._write_checkpoint(_FLUSHED, {key: log.flushed_offset for key, log in logs.items()})
        self._write_checkpoint(_HIGH_WATERMARKS, {key: log.high_watermark for key, log in logs.items()})
        cleaned = {key: log.first_dirty_offset for key, log in logs.items() if log.config.compact}
        self._write_checkpoint(_CLEANED, cleaned)

    # ---- the end

    def close(self) -> None:
        """Stop in order: everything is on the disk, and the next start takes it as it is. Raises `OSError` and `Refused`."""
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


class _StartOffsets:
    """Where the logs of a directory begin, brought to the disk by the flusher, if there is one."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self.flusher: Flusher | None = None
        self._on_its_way: dict[Path, bytes] = {}

    def write(self) -> None:
        """Have it be there soon. Without a flusher it is when this returns. Raises `OSError`."""
        if self.flusher is not None and self.flusher.ask(self):
            return
        work = self.unflushed()
        error = work.flush()
        if error is not None:
            raise error
        self.flushed(0, more=False)

    def unflushed(self) -> Unflushed:
        """What has changed."""
        self._on_its_way = self._data._changed(_START_OFFSETS, self._data._starts())
        return Unflushed(replaced=self._on_its_way)

    def flushed(self, until: int, *, more: bool) -> None:
        """It is there."""
        self._data._written.update(self._on_its_way)

    def flush_failed(self, error: OSError) -> None:
        """It is not, and is written with the next change."""
        self._data._note(f"{self._data.path}: where logs begin could not be written: {error.strerror or error}")

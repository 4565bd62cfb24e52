"""A partition's folder for tests: opened after a stop or a crash, written to, and inspected."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import LogConfig
from quorate.cluster.storage.findings import FolderFindings, Place
from quorate.cluster.storage.inspection import inspect
from quorate.cluster.storage.log_files import LogFiles, topic_id_of
from quorate.cluster.storage.recovery import load
from quorate.cluster.storage.stores import Descriptors
from quorate.codecs import Uuid
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.coordinator.log import AppendError

NOW_MS = 1_700_000_000_000


TOPIC_ID = Uuid(b"0123456789abcdef")


SMALL = LogConfig(segment_bytes=1500, index_interval_bytes=200)


def batch(
    count: int,
    *,
    producer: int = -1,
    sequence: int = -1,
    at_ms: int = NOW_MS,
    value: bytes = b"v",
    transactional: bool = False,
) -> bytes:
    records = [BatchRecord(offset=at, timestamp_ms=at_ms + at, key=b"k%d" % at, value=value) for at in range(count)]
    epoch = 0 if producer >= 0 else -1
    return encode_batch(
        records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )


class Lost(Exception):
    """Data loss that opening a folder reports."""


@dataclass
class Folder:
    """A partition's folders under `root`, in `brokers` directories."""

    root: Path
    brokers: int = 1

    @contextmanager
    def opened(
        self, config: LogConfig = SMALL, *, clean: bool = False, flushed: int = 0, same_boot: bool = True
    ) -> Iterator[PartitionLog]:
        """Open the log after a stop (`clean`) or a crash of the process (`same_boot`) or machine.

        Raises `Lost`.
        """
        descriptors = Descriptors()
        folders = [self.root / f"broker-{one}" / "t-0" for one in range(self.brokers)]
        topic_id = topic_id_of(self.path) or TOPIC_ID
        place = Place(str(topic_id), flushed_offset=flushed, clean=clean, same_boot=same_boot, has_gaps=config.compact)
        found = inspect(self.path, place) if self.path.is_dir() else FolderFindings(self.path, clean=clean)
        self.cut = found.cut_bytes
        if found.losses:
            raise Lost(found.losses)
        files = LogFiles(folders, topic_id, descriptors)
        log = load(files, config, found, now_ms=NOW_MS)
        try:
            yield log
        finally:
            descriptors.close_all()

    @property
    def path(self) -> Path:
        return self.root / "broker-0" / "t-0"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def facts(log: PartitionLog) -> dict[str, object]:
    """Return all facts that a log reports."""
    return {
        "batches": [one.data for one in log],
        "ends": (log.start_offset, log.next_offset, log.last_stable_offset),
        "epochs": list(log.epochs),
        "producers": sorted(log.producers.entries(), key=lambda entry: entry.producer_id),
        "aborted": list(log.producers.aborted),
    }


class Writer:
    """Writes to a log, and stores its facts after each batch.

    `acknowledged`: the end of the flushed data.
    """

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.sequences: dict[int, int] = {}
        self.after = {0: facts(log)}
        self.ends: dict[int, tuple[int, int]] = {0: (0, 0)}

    def write(self, producer: int, count: int, epoch: int, transactional: bool, size: int) -> None:
        sequence = self.sequences.get(producer, 0)
        data = batch(
            count,
            producer=producer,
            sequence=sequence if producer >= 0 else -1,
            value=b"x" * size,
            transactional=transactional and producer >= 0,
        )
        try:
            self.log.append(data, leader_epoch=epoch, now_ms=NOW_MS)
        except AppendError:  # outside the open transaction
            return
        self.sequences[producer] = sequence + count
        self._note()

    def end(self, producer: int, epoch: int, commit: bool) -> None:
        if producer in self.log.producers.open:
            self.log.append_marker(producer, 0, commit=commit, now_ms=NOW_MS, leader_epoch=epoch, coordinator_epoch=7)
            self._note()

    def _note(self) -> None:
        self.after[self.log.next_offset] = facts(self.log)
        self.ends[self.log.next_offset] = (self.log.active.base_offset, self.log.active.size)

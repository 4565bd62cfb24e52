"""The folder of a partition from a real broker (`broker_folder.py`): we write the same bytes."""

import tarfile
from pathlib import Path

import pytest

from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import LogConfig
from quorate.cluster.storage.checksums import CHECKSUMS
from quorate.codecs.batches import BatchRecord, control_record, read_batches
from tests.cluster.helpers.broker_folder import PACKED
from tests.cluster.helpers.folder import Folder, facts

CONFIG = LogConfig(segment_bytes=1 << 20, segment_ms=7 * 86_400_000)


@pytest.fixture
def theirs(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "theirs")
    folder.path.mkdir(parents=True)
    with tarfile.open(PACKED) as packed:
        packed.extractall(folder.path, filter="data")
    return folder


@pytest.fixture
def ours(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "ours")


def files(folder: Folder) -> dict[str, bytes]:
    """Return the files of both, without topic id, checksums and unfinished indexes."""
    newest = max(folder.path.glob("*.log")).stem
    return {
        path.name: path.read_bytes()
        for path in folder.path.iterdir()
        if path.suffix != ".metadata"
        and path.name != CHECKSUMS
        and (path.stem != newest or path.suffix in (".log", ".snapshot"))
    }


def fill(log: PartitionLog, source: PartitionLog) -> None:
    """Append the batches of another log, as producers and coordinators did."""
    for batch in source:
        if not batch.control:
            sent = bytes(8) + batch.data[8:]  # producers send offset 0
            log.append(sent, leader_epoch=batch.leader_epoch, now_ms=batch.max_timestamp_ms)
            continue
        (read,) = read_batches(batch.data)
        (record,) = read.records()  # type: ignore[union-attr]
        assert isinstance(record, BatchRecord)
        assert record.value is not None
        log.append_marker(
            batch.producer_id,
            batch.producer_epoch,
            commit=control_record(record.key, record.value).name == "COMMIT",
            now_ms=batch.max_timestamp_ms,
            leader_epoch=batch.leader_epoch,
            coordinator_epoch=int.from_bytes(record.value[2:6]),
        )


def test_the_same_batches_result_in_the_files_of_the_broker(theirs: Folder, ours: Folder) -> None:
    with theirs.opened(CONFIG, clean=True) as source, ours.opened(CONFIG) as log:
        fill(log, source)
        assert [segment.base_offset for segment in log.segments] == [segment.base_offset for segment in source.segments]
        assert len(log.segments) > 4
        assert len(log.producers.aborted) > 5
        assert log.last_stable_offset < log.next_offset  # a transaction is open
        assert files(ours) == files(theirs)


def test_all_other_files_are_rebuilt_from_the_segments(theirs: Folder, ours: Folder) -> None:
    expected = files(theirs)
    ours.path.mkdir(parents=True)
    for path in theirs.path.glob("*.log"):
        (ours.path / path.name).write_bytes(path.read_bytes())
    with theirs.opened(CONFIG, clean=True) as source, ours.opened(CONFIG) as log:
        assert ours.cut == 0
        assert files(ours) == expected
        assert facts(log) == facts(source)

"""Kafka's DumpLogSegments prints logs of `FileLog` as we read them, also after compaction.

And large logs.
"""

import subprocess
from pathlib import Path

import pytest

from quorate.cluster import FileLog
from quorate.codecs import encode_record, read_log
from quorate.codecs.batches import Batch, BatchRecord, encode_batch, read_batches
from quorate.codecs.record_model import CoordinatorRecord
from quorate.coordinator import GroupCoordinatorShard, PartitionRuntime
from quorate.coordinator.log import StoredMarker, StoredRecord
from tests.broker.broker import tools
from tests.broker.fixtures import need_broker
from tests.cluster.test_file_log import NOW, commit, write_some
from tests.codecs.test_captures import dump_batch_line, dump_record_line
from tests.coordinator.recordings import Recording, read_recordings
from tests.extent import portion

# Assignments of classic members are not of the consumer protocol, which the tool assumes.
HISTORIES = [
    recording
    for recording in read_recordings()
    if recording.name.endswith(" 0") and not recording.name.startswith(("classic", "mixed"))
]
DUMP = [
    *tools("-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
    "org.apache.kafka.tools.DumpLogSegments",
]


def dumped(paths: list[Path]) -> list[str]:
    """Return the batches and records that `kafka-dump-log.sh --offsets-decoder` prints."""
    requested = ["--files", ",".join(map(str, paths)), "--deep-iteration", "--print-data-log", "--offsets-decoder"]
    command = [*DUMP, *requested]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("baseOffset: ", "| offset: "))]


def ours(paths: list[Path]) -> list[str]:
    """Return the same lines, from our own reader."""
    lines = []
    for path in paths:
        for batch in read_batches(path.read_bytes()):
            assert isinstance(batch, Batch)
            records = [one for one in batch.records() if isinstance(one, BatchRecord)]
            lines.append(dump_batch_line(batch.header))
            lines += [dump_record_line("__consumer_offsets", batch.header, record) for record in records]
    return lines


def write(log: FileLog, history: Recording) -> int:
    """Write a history of our coordinator, one record in a batch; return the number of records."""
    stored = history.play().ours.log.stored
    for one in stored:
        if isinstance(one, StoredMarker):
            log.append_marker(one.producer_id, one.producer_epoch, commit=one.commit, timestamp_ms=one.timestamp_ms)
            continue
        assert isinstance(one, StoredRecord)
        assert isinstance(one.record, CoordinatorRecord)
        producer = {"producer_id": one.producer_id, "producer_epoch": one.producer_epoch}
        log.append([one.record], timestamp_ms=one.timestamp_ms, **producer)
    return len(stored)


@pytest.fixture
def tools() -> None:
    """DumpLogSegments needs the jars of the tools, and of the broker."""
    need_broker()


@pytest.mark.oracle
def test_dump_log_segments_prints_the_written_log(tools: None, tmp_path: Path) -> None:
    with FileLog(tmp_path, leader_epoch=3, fsync="never", segment_bytes=20_000) as log:
        write_some(log)
        count = 8 + sum(write(log, history) for history in HISTORIES)
        paths = log.segments()
        assert len(paths) > 1
    lines = dumped(paths)
    assert lines == ours(paths)
    assert sum(line.startswith("| ") for line in lines) == count
    assert all("isvalid: true" in line for line in lines if line.startswith("base"))


@pytest.mark.oracle
def test_dump_log_segments_prints_the_compacted_log(tools: None, tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never", segment_bytes=20_000) as log:
        for history in HISTORIES:
            write(log, history)
        before = len(dumped(log.segments()))
        done = log.compact(now_ms=NOW)
        paths = log.segments()
    lines = dumped(paths)
    assert lines == ours(paths)
    assert done.records_after < done.records_before
    assert len(lines) < before


def test_a_large_log_loads_the_same_by_records_and_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of commits of each of 500 partitions, of which the last ones remain."""
    times = portion(2000)
    pairs = [encode_record(commit(1, group=f"g{number % 10}", partition=number // 10)) for number in range(500)]
    batch = encode_batch(
        [BatchRecord(offset=at, timestamp_ms=NOW, key=key, value=value) for at, (key, value) in enumerate(pairs)]
    )
    last = [encode_record(commit(2, group=f"g{number % 10}", partition=number // 10)) for number in range(500)]
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    with (folder / f"{0:020}.log").open("wb") as file:
        for number in range(times - 1):
            file.write((500 * number).to_bytes(8) + batch[8:])  # the CRC does not cover the base offset
        newest = [
            BatchRecord(offset=500 * (times - 1) + at, timestamp_ms=NOW, key=key, value=value)
            for at, (key, value) in enumerate(last)
        ]
        file.write(encode_batch(newest))
    found = []
    for by_columns in (True, False):
        with FileLog(tmp_path, fsync="never") as log:
            if not by_columns:
                monkeypatch.setattr(FileLog, "blocks", lambda self: None)
            runtime = PartitionRuntime(GroupCoordinatorShard(new_id=lambda: pytest.fail("requested")), log, now_ms=NOW)
            runtime.load()
            assert log.next_offset == 500 * times
        offsets = runtime.shard.state.offsets
        assert not runtime.shard.state.skipped
        found.append({group: list(offsets.of_group(group)) for group in offsets.committed})
    assert found[0] == found[1]
    assert sorted(found[0]) == [f"g{number}" for number in range(10)]
    reported = [
        (one.value.offset, one.record_offset >= 500 * (times - 1)) for group in found[0].values() for _, _, one in group
    ]
    assert reported == [(2, True)] * 500


def test_written_logs_are_read_by_the_log_readers(tmp_path: Path) -> None:
    with FileLog(tmp_path) as log:
        write_some(log)
        there = [stored.offset for stored in log.read()]
    assert [entry.offset for entry in read_log(tmp_path / "__consumer_offsets-0")] == there  # type: ignore[union-attr]

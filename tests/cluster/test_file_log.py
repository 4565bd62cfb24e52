"""`FileLog`: Kafka reads its files, it reads them back, and a crash loses no acknowledged data."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.cluster import FileLog
from quorate.cluster.file_log import Fsync
from quorate.cluster.storage.checksums import CHECKSUMS
from quorate.codecs import CoordinatorRecord, LogEntry, LogError, Uuid, read_log
from quorate.codecs.batches import Batch, BatchRecord, encode_batch, read_batches
from quorate.codecs.batches.v2 import HEADER_BYTES
from quorate.codecs.messages.classic_group import GroupMetadataKey
from quorate.codecs.record_encode import encode_record
from quorate.coordinator import CoordinatorConfig, GroupCoordinatorShard, PartitionRuntime
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import AppendError, CoordinatorLog, MemoryLog, StoredMarker, StoredRecord
from quorate.coordinator.records import empty_classic_group, offset_commit, tombstone
from tests.extent import portion
from tests.oracle.client import Oracle

CONFIG = CoordinatorConfig()
NOW = 1_800_000_000_000
PRODUCER = 7


def commit(offset: int, *, group: str = "g", partition: int = 0, metadata: str = "") -> CoordinatorRecord:
    return offset_commit(
        CONFIG,
        group=group,
        topic="t",
        partition=partition,
        offset=offset,
        leader_epoch=0,
        metadata=metadata,
        commit_timestamp_ms=NOW,
    )


def write_some(log: CoordinatorLog) -> None:
    log.append([empty_classic_group("g", NOW), commit(1), commit(2, partition=1)], timestamp_ms=NOW)
    log.append([commit(3)], timestamp_ms=NOW + 1, producer_id=PRODUCER, producer_epoch=2)
    log.append([tombstone(GroupMetadataKey(group="gone"))], timestamp_ms=NOW + 2)
    log.append_marker(PRODUCER, 2, commit=True, timestamp_ms=NOW + 3)
    log.append([commit(4)], timestamp_ms=NOW + 4, producer_id=PRODUCER, producer_epoch=2)
    log.append_marker(PRODUCER, 2, commit=False, timestamp_ms=NOW + 5)


def contents(log: CoordinatorLog) -> list[StoredRecord | StoredMarker]:
    return list(log.read())


@pytest.mark.parametrize("fsync", ["always", "never"])
def test_a_log_in_files_reads_as_one_in_memory(tmp_path: Path, fsync: Fsync) -> None:
    expected = MemoryLog()
    write_some(expected)
    with FileLog(tmp_path, fsync=fsync) as log:
        write_some(log)
        assert contents(log) == expected.stored
    with FileLog(tmp_path, fsync=fsync) as again:
        assert contents(again) == expected.stored
        assert (again.next_offset, again.cut_bytes) == (len(expected.stored), 0)


@pytest.mark.oracle
def test_kafka_reads_what_was_written(oracle: Oracle, tmp_path: Path) -> None:
    with FileLog(tmp_path, leader_epoch=3) as log:
        write_some(log)
        (path,) = log.segments()
    response = oracle.call("readSegment", path=str(path))
    assert response["validBytes"] == response["size"] == path.stat().st_size
    assert "error" not in response
    batches = response["batches"]
    assert all(batch["valid"] and batch["partitionLeaderEpoch"] == 3 for batch in batches)
    facts = [(b["baseOffset"], b["lastOffset"], b["producerId"], b["transactional"], b["control"]) for b in batches]
    assert facts == [
        (0, 2, -1, False, False),
        (3, 3, PRODUCER, True, False),
        (4, 4, -1, False, False),
        (5, 5, PRODUCER, True, True),
        (6, 6, PRODUCER, True, False),
        (7, 7, PRODUCER, True, True),
    ]
    key, value = encode_record(commit(1))
    assert key is not None
    assert value is not None
    found = batches[0]["records"][1]
    assert (found["offset"], found["timestamp"], found["key"], found["value"]) == (1, NOW, key.hex(), value.hex())
    assert batches[2]["records"][0]["value"] is None
    dumped = oracle.call("dumpRecord", topic="__consumer_offsets", key=found["key"], value=found["value"])
    assert json.loads(dumped["key"]) == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 0}}
    assert json.loads(dumped["payload"])["data"]["offset"] == 1


def test_segments_are_rolled_at_their_size_and_named_by_their_first_offset(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never", segment_bytes=400) as log:
        for number in range(20):
            assert log.append([commit(number)], timestamp_ms=NOW) == number
        paths = log.segments()
        assert [stored.offset for stored in log.read()] == list(range(20))
    assert len(paths) > 3
    assert all(path.stat().st_size <= 400 for path in paths)
    for path in paths:
        first = next(read_log(path))
        assert isinstance(first, LogEntry)
        assert path.name == f"{first.offset:020}.log"
    assert paths[0].parent.name == "__consumer_offsets-0"
    with FileLog(tmp_path, segment_bytes=400) as again:
        assert again.append([commit(20)], timestamp_ms=NOW) == 20
        assert [stored.offset for stored in again.read()] == list(range(21))


def test_a_batch_larger_than_a_segment_has_its_own_segment(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never", segment_bytes=1) as log:
        log.append([commit(0)], timestamp_ms=NOW)
        log.append([commit(1)], timestamp_ms=NOW)
        assert [path.stem for path in log.segments()] == [f"{0:020}", f"{1:020}"]


def test_a_coordinator_resumes_from_its_files(tmp_path: Path) -> None:
    with FileLog(tmp_path) as log:
        log.append([commit(5)], timestamp_ms=NOW)
    with FileLog(tmp_path) as log:
        runtime = PartitionRuntime(GroupCoordinatorShard(new_id=lambda: pytest.fail("requested")), log, now_ms=NOW)
        runtime.load()
        runtime.end_transaction(PRODUCER, 0, commit=True)
        assert runtime.shard.state.offsets.get("g", "t", 0) is not None
        assert isinstance(contents(log)[-1], StoredMarker)


def test_tombstones_of_expired_offsets_are_split_into_batches(tmp_path: Path) -> None:
    """A single batch would be too large, and nothing would ever expire."""
    with FileLog(tmp_path, fsync="never", max_batch_bytes=1000) as log:
        log.append([empty_classic_group("g", NOW)], timestamp_ms=NOW)
        for partition in range(200):
            log.append([commit(5, partition=partition)], timestamp_ms=NOW)
        runtime = PartitionRuntime(GroupCoordinatorShard(new_id=uuid4), log, now_ms=NOW + 8 * 24 * 3_600_000)
        runtime.load()
        runtime.clean_up()
        assert not runtime.shard.state.groups
        found = contents(log)[201:]
        (path,) = log.segments()
        sizes = [len(batch.data) for batch in read_batches(path.read_bytes()) if isinstance(batch, Batch)][201:]
    assert len(found) == 201
    assert all(isinstance(one, StoredRecord) and one.record.value is None for one in found)
    assert sum(sizes) > 1000 >= max(sizes)
    most = max(sizes) - HEADER_BYTES
    assert min(sizes[:-1]) + most // 20 > 1000, "each is as full as it can be"


def test_tombstones_of_a_deleted_topics_offsets_are_split_into_batches(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never", max_batch_bytes=1000) as log:
        for partition in range(200):
            log.append([commit(5, partition=partition)], timestamp_ms=NOW)
        runtime = PartitionRuntime(GroupCoordinatorShard(new_id=uuid4), log, now_ms=NOW)
        runtime.load()
        topic = TopicImage(name="t", id=Uuid(b"t" * 16), replicas=((1,),) * 200)
        for topics in ([topic], []):
            runtime.take_image(MetadataImage.EMPTY.with_topics(topics))
        assert len(contents(log)) == 400
        assert runtime.shard.state.offsets.get("g", "t", 0) is None


APPENDS = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100), st.binary(max_size=40)), min_size=1, max_size=4),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=portion(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    appends=APPENDS,
    transactional=st.booleans(),
    segment_bytes=st.sampled_from([1, 300, 1 << 20]),
    power_failed=st.booleans(),
    cuts=st.lists(st.floats(0, 1, exclude_max=True), max_size=8),
)
def test_a_crash_at_any_byte_of_a_write_keeps_acknowledged_batches(
    tmp_path_factory: pytest.TempPathFactory,
    appends: list[Any],
    transactional: bool,
    segment_bytes: int,
    power_failed: bool,
    cuts: list[float],
) -> None:
    """`power_failed`: the checksums are on disk, and the batch is not."""
    folder = tmp_path_factory.mktemp("log")
    crashed = folder.with_name(f"{folder.name}-crashed")
    producer = {"producer_id": PRODUCER, "producer_epoch": 0} if transactional else {}
    before: list[StoredRecord | StoredMarker] = []
    with FileLog(folder, fsync="never", segment_bytes=segment_bytes) as log:
        for append in appends:
            before = contents(log)
            checksums = log.folder.joinpath(CHECKSUMS)
            before_sums = checksums.read_bytes() if checksums.exists() else None
            if isinstance(append, bool):
                log.append_marker(PRODUCER, 0, commit=append, timestamp_ms=NOW)
            else:
                records = [commit(at, partition=part, metadata=text.hex()) for part, at, text in append]
                log.append(records, timestamp_ms=NOW, **producer)
        after = contents(log)
        newest = log.segments()[-1]
        if not power_failed and before_sums is not None:
            checksums.write_bytes(before_sums)
        shutil.copytree(folder, crashed)
    size = newest.stat().st_size
    start = start_of_last_batch(newest.read_bytes())
    for end in sorted({start, size, *(start + int(cut * (size - start)) for cut in cuts)}):
        shutil.rmtree(folder)
        shutil.copytree(crashed, folder)
        os.truncate(newest, end)
        with FileLog(folder, fsync="never", segment_bytes=segment_bytes) as log:
            found = contents(log)
            assert found == (after if end == size else before), f"cut at {end} of {start} to {size}"
            assert log.cut_bytes == (0 if end == size else end - start)
            assert log.append([commit(9)], timestamp_ms=NOW) == len(found)
            assert [stored.offset for stored in log.read()] == list(range(len(found) + 1))
    shutil.rmtree(crashed)


def start_of_last_batch(segment: bytes) -> int:
    position = start = 0
    while position < len(segment):
        start = position
        position += 12 + int.from_bytes(segment[position + 8 : position + 12])
    return start


def test_a_batch_inside_a_torn_record_is_not_taken_for_a_batch_of_the_log(tmp_path: Path) -> None:
    inner = encode_batch([BatchRecord(offset=1, timestamp_ms=0, key=b"k", value=b"v")]).decode("latin-1")
    with FileLog(tmp_path, fsync="never") as log:
        log.append([commit(0)], timestamp_ms=NOW)
        first_bytes = log.segments()[0].stat().st_size
        with pytest.MonkeyPatch.context() as patched:
            raw = encode_batch(
                [BatchRecord(offset=1, timestamp_ms=0, key=b"k", value=inner.encode("latin-1") + bytes(9))]
            )
            patched.setattr("quorate.coordinator.log.assemble_batch", lambda *_, **__: raw)
            checksums = log.folder / CHECKSUMS
            acknowledged = checksums.read_bytes()
            log.append([commit(1)], timestamp_ms=NOW)
        (path,) = log.segments()
    checksums.write_bytes(acknowledged)
    os.truncate(path, path.stat().st_size - 3)
    with FileLog(tmp_path, fsync="never") as log:
        assert len(contents(log)) == 1
        assert path.stat().st_size == first_bytes


@pytest.mark.parametrize("fill", [0, 0xFF])
def test_preallocated_space_is_cut_off(tmp_path: Path, fill: int) -> None:
    with FileLog(tmp_path, fsync="never") as log:
        write_some(log)
        expected = contents(log)
        (path,) = log.segments()
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes([fill]) * 5000)
    with FileLog(tmp_path, fsync="never") as log:
        assert contents(log) == expected
        assert log.cut_bytes == 5000
    assert path.stat().st_size == size


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
@pytest.mark.parametrize("at", [9, 80])
def test_damage_before_acknowledged_batches_is_reported_and_nothing_is_cut(
    tmp_path: Path, segment_bytes: int, at: int
) -> None:
    with FileLog(tmp_path, fsync="never", segment_bytes=segment_bytes) as log:
        write_some(log)
        path = log.segments()[0]
    data = bytearray(path.read_bytes())
    data[at] ^= 0x7F
    path.write_bytes(data)
    with pytest.raises(LogError, match=r"position 0: .*restore the file"), FileLog(tmp_path, fsync="never") as log:
        contents(log)
    assert path.read_bytes() == data


def test_a_batch_above_the_limit_is_rejected(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never", max_batch_bytes=500) as log:
        with pytest.raises(AppendError) as refused:
            log.append([commit(0, metadata="m" * 500)], timestamp_ms=NOW)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert contents(log) == []
        assert log.append([commit(0)], timestamp_ms=NOW) == 0


def test_a_partial_write_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, free_bytes = os.pwrite, 20

    def write_until_full(descriptor: int, data: bytes, position: int) -> int:
        nonlocal free_bytes
        if not free_bytes:
            raise OSError(28, "No space left on device")
        free_bytes -= (written := pwrite(descriptor, data[:free_bytes], position))
        return written

    with FileLog(tmp_path, fsync="never") as log:
        log.append([commit(0)], timestamp_ms=NOW)
        (path,) = log.segments()
        size = path.stat().st_size
        monkeypatch.setattr(os, "pwrite", write_until_full)
        with pytest.raises(AppendError) as failed:
            log.append([commit(1)], timestamp_ms=NOW)
        assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (path.stat().st_size, log.next_offset, len(contents(log))) == (size, 1, 1)
        free_bytes = 1 << 20
        assert log.append([commit(1)], timestamp_ms=NOW) == 1
        assert len(contents(log)) == 2


@pytest.mark.parametrize(("fsync", "synced"), [("always", 3), ("never", 0)])
def test_fsync_is_called_for_each_append_if_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: Fsync, synced: int
) -> None:
    with FileLog(tmp_path, fsync=fsync) as log:
        log.append([commit(0)], timestamp_ms=NOW)  # also flushes the folder's entries
        calls: list[int] = []
        monkeypatch.setattr("os.fsync", calls.append)
        for number in range(3):
            log.append([commit(number)], timestamp_ms=NOW)
        assert len(calls) == synced


def test_batches_appended_while_reading_are_not_returned(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never") as log:
        for number in range(2):
            log.append([commit(number)], timestamp_ms=NOW)
        reading = log.read()
        assert next(reading).offset == 0
        log.append([commit(2)], timestamp_ms=NOW)
        assert [stored.offset for stored in reading] == [1]


def test_batches_of_other_writers_are_read_correctly(tmp_path: Path) -> None:
    """An idempotent producer is in no transaction, and a leader change record ends none."""
    key, value = encode_record(commit(1))
    produced = BatchRecord(offset=0, timestamp_ms=NOW, key=key, value=value)
    leader_change = BatchRecord(offset=1, timestamp_ms=NOW, key=bytes((0, 0, 0, 2)), value=bytes(6))
    with FileLog(tmp_path, fsync="never") as log:
        (path,) = log.segments()
    path.write_bytes(
        encode_batch([produced], producer_id=5, producer_epoch=1, base_sequence=0)
        + encode_batch([leader_change], control=True)
    )
    with FileLog(tmp_path, fsync="never") as log:
        assert contents(log) == [StoredRecord(offset=0, timestamp_ms=NOW, record=commit(1))]
        assert log.next_offset == 2


def test_invalid_arguments_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="use 'always' or 'never'"):
        FileLog(tmp_path, fsync="sometimes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="use 1 to"):
        FileLog(tmp_path, segment_bytes=0)
    assert list(tmp_path.iterdir()) == []


def test_appending_nothing_writes_nothing(tmp_path: Path) -> None:
    with FileLog(tmp_path) as log:
        assert log.append([], timestamp_ms=NOW) == 0
        assert log.segments()[0].stat().st_size == 0


READ_ALL = """
import resource, sys
from quorate.cluster import FileLog
with FileLog(sys.argv[1], fsync="never") as log:
    entries = log.read()
    for _ in range(20_000):
        next(entries)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = 20_000 + sum(1 for _ in entries)
    print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux only")
def test_a_large_segment_is_read_in_bounded_memory(tmp_path: Path) -> None:
    pairs = [encode_record(commit(1, group=f"g{number}", metadata="m" * 200)) for number in range(1000)]
    batch = encode_batch(
        [BatchRecord(offset=at, timestamp_ms=NOW, key=key, value=value) for at, (key, value) in enumerate(pairs)]
    )
    with FileLog(tmp_path, fsync="never"):
        pass
    segment = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    with segment.open("wb") as file:
        for number in range(250):
            file.write((1000 * number).to_bytes(8) + batch[8:])  # the CRC does not cover the base offset
    read = subprocess.run(
        [sys.executable, "-P", "-c", READ_ALL, str(tmp_path)], capture_output=True, text=True, timeout=300, check=True
    )
    count, grown_kib = map(int, read.stdout.split())
    assert count == 250_000
    assert segment.stat().st_size > 50_000_000
    assert grown_kib < 16 * 1024

"""Compaction: loading a compacted log results in the same state as loading the full log."""

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quorate.cluster import FileLog
from quorate.codecs import CoordinatorRecord, LogEntry, LogError, read_log
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.messages.classic_group import GroupMetadataKey
from quorate.codecs.messages.offsets import OffsetCommitKey
from quorate.codecs.record_encode import encode_record
from quorate.coordinator import CoordinatorConfig, CoordinatorState
from quorate.coordinator.history.views import view
from quorate.coordinator.log import StoredMarker, StoredRecord
from quorate.coordinator.records import empty_classic_group, offset_commit, tombstone
from quorate.coordinator.state import ClassicGroup
from tests.coordinator.captures import CAPTURES, folders
from tests.extent import portion
from tests.oracle.client import Oracle

NOW = 1_800_000_000_000
FOLDERS = [path for capture in sorted(CAPTURES.iterdir()) for path in folders(capture.name)]


def commit(offset: int, *, group: str = "g", partition: int = 0) -> CoordinatorRecord:
    return offset_commit(
        CoordinatorConfig(),
        group=group,
        topic="t",
        partition=partition,
        offset=offset,
        leader_epoch=0,
        metadata="",
        commit_timestamp_ms=NOW,
    )


def offset_tombstone(*, group: str = "g", partition: int = 0) -> CoordinatorRecord:
    return tombstone(OffsetCommitKey(group=group, topic="t", partition=partition))


def groups_in(stored: Iterable[StoredRecord | StoredMarker]) -> dict[str, Any]:
    """Return each group's state and offsets, without simple groups that have no offsets."""
    state = CoordinatorState()
    for entry in stored:
        if isinstance(entry, StoredMarker):
            state.offsets.end_transaction(entry.producer_id, commit=entry.commit)
        else:
            state.replay(entry.record, offset=entry.offset, producer_id=entry.producer_id, strict=True)
    groups = {}
    for name, group in state.groups.ordered():
        offsets = {(topic, partition): offset for topic, partition, offset in state.offsets.of_group(name)}
        pending = state.offsets.has_pending(name)
        if not (isinstance(group, ClassicGroup) and group.is_simple) or offsets or pending:
            groups[name] = (view(group), offsets, pending)
    return groups


def offsets_of(log: FileLog) -> list[int]:
    return [stored.offset for stored in log.read()]


@pytest.fixture
def log(tmp_path: Path) -> Iterable[FileLog]:
    with FileLog(tmp_path, fsync="never") as opened:
        yield opened


def test_last_record_of_each_key_keeps_its_offset(log: FileLog) -> None:
    log.append([commit(1), commit(1, partition=1), commit(2)], timestamp_ms=NOW)
    log.append([empty_classic_group("h", NOW), commit(3)], timestamp_ms=NOW + 1)
    log.roll()
    log.append([commit(4)], timestamp_ms=NOW + 2)
    before = list(log.read())
    result = log.compact(now_ms=NOW)
    assert list(log.read()) == [stored for stored in before if stored.offset in (1, 3, 4, 5)]
    assert (result.segments, result.records_before, result.records_after) == (1, 5, 3)
    assert result.bytes_after == log.segments()[0].stat().st_size < result.bytes_before


def test_active_segment_is_not_compacted(log: FileLog) -> None:
    log.append([commit(1), commit(2)], timestamp_ms=NOW)
    assert log.compact(now_ms=NOW).segments == 0
    assert offsets_of(log) == [0, 1]


def test_tombstone_is_removed_by_the_second_compaction(log: FileLog) -> None:
    log.append([commit(1), offset_tombstone(), commit(1, partition=1)], timestamp_ms=NOW)
    log.roll()
    log.compact(now_ms=NOW)
    assert offsets_of(log) == [1, 2]
    assert [stored.timestamp_ms for stored in log.read()] == [NOW, NOW]
    log.compact(now_ms=NOW)
    assert offsets_of(log) == [2]


def test_tombstone_is_removed_after_its_retention_time(log: FileLog) -> None:
    log.append([offset_tombstone()], timestamp_ms=NOW)
    log.roll()
    for now_ms, remaining in [(NOW, [0]), (NOW + 99, [0]), (NOW + 100, [])]:
        log.compact(now_ms=now_ms, tombstone_retention_ms=100)
        assert offsets_of(log) == remaining
    assert [path.stat().st_size for path in log.segments()] == [0, 0]  # the first one says where the log starts
    assert log.append([commit(5)], timestamp_ms=NOW) == 1


def test_offsets_continue_after_all_records_are_removed(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never") as log:
        log.append([offset_tombstone(), offset_tombstone()], timestamp_ms=NOW)
        log.roll()
        for _ in range(2):
            log.compact(now_ms=NOW)
    with FileLog(tmp_path, fsync="never") as log:
        assert offsets_of(log) == []
        assert log.append([commit(5)], timestamp_ms=NOW) == 2


def test_aborted_record_is_removed_and_removes_no_other(log: FileLog) -> None:
    log.append([commit(1)], timestamp_ms=NOW)
    log.append([commit(2)], timestamp_ms=NOW, producer_id=7, producer_epoch=0)
    log.append_marker(7, 0, commit=False, timestamp_ms=NOW)
    log.append([commit(3, partition=1)], timestamp_ms=NOW, producer_id=7, producer_epoch=0)
    log.append_marker(7, 0, commit=True, timestamp_ms=NOW)
    log.roll()
    expected = groups_in(log.read())
    # The marker of a transaction without records stays for one compaction.
    for remaining in ([0, 2, 3, 4], [0, 3, 4], [0, 3, 4]):
        log.compact(now_ms=NOW)
        assert offsets_of(log) == remaining
        assert groups_in(log.read()) == expected


def test_marker_of_a_transaction_may_be_in_the_active_segment(log: FileLog) -> None:
    log.append([commit(1)], timestamp_ms=NOW)
    log.append([commit(2)], timestamp_ms=NOW, producer_id=7, producer_epoch=0)
    log.roll()
    log.append_marker(7, 0, commit=False, timestamp_ms=NOW)
    log.compact(now_ms=NOW)
    assert offsets_of(log) == [0, 2]


def test_records_after_the_start_of_an_open_transaction_are_not_compacted(log: FileLog) -> None:
    log.append([commit(1), commit(2)], timestamp_ms=NOW)
    log.roll()
    log.append([commit(3)], timestamp_ms=NOW)
    log.append([commit(4)], timestamp_ms=NOW, producer_id=7, producer_epoch=0)
    log.append([commit(5)], timestamp_ms=NOW)
    log.roll()
    assert log.compact(now_ms=NOW).segments == 1
    assert offsets_of(log) == [1, 2, 3, 4]


def test_damage_is_reported_before_any_change(log: FileLog) -> None:
    for _ in range(2):
        log.append([commit(1), commit(2)], timestamp_ms=NOW)
        log.roll()
    first, second, _ = log.segments()
    second.write_bytes(second.read_bytes()[:-1])
    before = first.read_bytes()
    with pytest.raises(LogError, match="restore the file"):
        log.compact(now_ms=NOW)
    assert first.read_bytes() == before


def write_at_random(random: Random, log: FileLog, count: int) -> None:
    """Append records and markers, or begin a new segment, `count` times."""
    for _ in range(count):
        match random.randrange(10):
            case 0:
                log.append_marker(random.randrange(3), 0, commit=random.random() < 0.5, timestamp_ms=NOW)
            case 1:
                log.roll()
            case 2:
                name = f"c{random.randrange(3)}"
                deletion = tombstone(GroupMetadataKey(group=name))
                log.append([random.choice((deletion, empty_classic_group(name, NOW)))], timestamp_ms=NOW)
            case 3 | 4 | 5:
                records = [commit(random.randrange(99), partition=random.randrange(4)) for _ in range(2)]
                log.append(records, timestamp_ms=NOW, producer_id=random.randrange(3), producer_epoch=0)
            case _:
                partition = random.randrange(4)
                record = random.choice(
                    (commit(random.randrange(99), partition=partition), offset_tombstone(partition=partition))
                )
                log.append([record], timestamp_ms=NOW)


@pytest.mark.parametrize("seed", range(portion(60)))
def test_loading_a_compacted_log_equals_loading_the_full_one(log: FileLog, seed: int) -> None:
    random = Random(seed)
    for _ in range(4):
        write_at_random(random, log, 25)
        expected = groups_in(log.read())
        result = log.compact(now_ms=NOW)
        assert groups_in(log.read()) == expected, f"seed {seed}"
        assert result.records_after <= result.records_before


def test_tombstone_is_not_removed_before_the_records_that_it_deletes(
    log: FileLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append([commit(1), commit(1, group="first")], timestamp_ms=NOW)
    log.roll()
    log.append([offset_tombstone(), commit(1, group="second")], timestamp_ms=NOW)
    log.roll()
    for _ in range(3):
        with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
            patched.setattr(Path, "replace", crashing(1, Path.replace))
            log.compact(now_ms=NOW)
        assert "g" not in groups_in(log.read())


@pytest.mark.parametrize("seed", range(10))
def test_crash_between_segments_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    with FileLog(tmp_path, fsync="never") as log:
        write_at_random(random, log, 60)
        for attempt in range(12):
            expected = groups_in(log.read())
            with monkeypatch.context() as patched:
                patched.setattr(Path, "replace", crashing(attempt % 4, Path.replace))
                patched.setattr(Path, "unlink", crashing(attempt % 4, Path.unlink))
                with contextlib.suppress(KeyboardInterrupt):
                    log.compact(now_ms=NOW)
            assert groups_in(log.read()) == expected, f"seed {seed}, crash after {attempt % 4} segments"


def crashing(successes: int, operation: Any) -> Any:
    """Return the operation so that it succeeds this many times, and then fails."""
    remaining = successes

    def run(*arguments: Any, **options: Any) -> Any:
        nonlocal remaining
        if not remaining:
            raise KeyboardInterrupt
        remaining -= 1
        return operation(*arguments, **options)

    return run


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name[-1]}")
def test_compaction_of_captured_logs_keeps_the_state(tmp_path: Path, folder: Path) -> None:
    shutil.copytree(folder, tmp_path / "__consumer_offsets-0")
    with FileLog(tmp_path, fsync="never") as log:
        log.roll()
        full = groups_in(log.read())
        latest = {}
        for entry in read_log(folder):
            assert isinstance(entry, LogEntry)
            if not isinstance(entry.record, ControlRecord):
                latest[encode_record(entry.record)[0]] = entry.record
        for _ in range(2):
            result = log.compact(now_ms=NOW)
            assert groups_in(log.read()) == full
        values = sum(1 for record in latest.values() if getattr(record, "value", None) is not None)
        assert result.records_after <= values + sum(isinstance(stored, StoredMarker) for stored in log.read())


@pytest.mark.oracle
def test_kafka_reads_compacted_segments(oracle: Oracle, log: FileLog) -> None:
    write_at_random(Random(5), log, 120)
    log.roll()
    log.compact(now_ms=NOW + 7)
    horizons = 0
    for path in log.segments()[:-1]:
        response = oracle.call("readSegment", path=str(path))
        assert response["validBytes"] == response["size"] == path.stat().st_size
        assert all(batch["valid"] and "error" not in batch for batch in response["batches"])
        horizons += sum(batch.get("deleteHorizonMs") == NOW + 7 for batch in response["batches"])
        assert all(record["timestamp"] == NOW for batch in response["batches"] for record in batch["records"])
    assert horizons

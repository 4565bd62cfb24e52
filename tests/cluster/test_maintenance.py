"""Maintenance over time: retention, compaction, deleted records, producers, flushing.

By a manual clock.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.cluster import ManualClock
from quorate.cluster.core import ClusterCore
from quorate.cluster.log import PartitionLog
from quorate.codecs.batches import BatchProblem, BatchRecord, encode_batch, read_batches
from quorate.codecs.configs import ConfigResourceType
from tests.cluster.storage.test_restart import quiet_core

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "disk"])
def core(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[ClusterCore]:
    properties = {"log.cleaner.backoff.ms": 1000, "producer.id.expiration.ms": 2 * HOUR_MS}
    made = quiet_core(tmp_path if request.param == "disk" else None, clock, **properties)
    yield made
    made.close()
    assert made.notes == []


def log_of(core: ClusterCore, **config: object) -> PartitionLog:
    core.create_topic("t", partitions=1, config={name.replace("_", "."): str(value) for name, value in config.items()})
    return core.topics["t"].partitions[0].log


def put(core: ClusterCore, log: PartitionLog, *pairs: tuple[str, str | None], size: int = 0) -> None:
    now_ms = core.clock.now_ms()
    records = [
        BatchRecord(
            offset=at,
            timestamp_ms=now_ms,
            key=key.encode(),
            value=None if value is None else value.encode() + b" " * size,
        )
        for at, (key, value) in enumerate(pairs)
    ]
    log.append(encode_batch(records), leader_epoch=0, now_ms=now_ms)


def content(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """Return offset, key and value of the records that a consumer would get."""
    found = []
    offset = log.start_offset
    while offset < log.next_offset:
        fetched = log.read(offset, 1 << 20, until=log.high_watermark, at_least_one=True)
        if not fetched.records:
            break
        for batch in read_batches(fetched.records):
            assert not isinstance(batch, BatchProblem)
            offset = batch.header.last_offset + 1
            for record in batch.records():
                assert isinstance(record, BatchRecord)
                assert record.key is not None
                value = None if record.value is None else record.value.decode().strip()
                found.append((record.offset, record.key.decode(), value))
    return found


def test_segments_are_deleted_by_retention_ms(core: ClusterCore, clock: ManualClock) -> None:
    log = log_of(core, retention_ms=2 * HOUR_MS, segment_ms=HOUR_MS)
    for number in range(4):
        put(core, log, ("k", str(number)))
        clock.advance(HOUR_MS + 1)
    assert [value for _, _, value in content(log)] == ["2", "3"]
    assert (log.start_offset, log.next_offset) == (2, 4)
    clock.advance(3 * HOUR_MS)
    assert content(log) == []
    assert (log.start_offset, log.next_offset) == (4, 4)
    put(core, log, ("k", "later"))
    assert content(log) == [(4, "k", "later")]


def test_segments_are_deleted_by_retention_bytes(core: ClusterCore, clock: ManualClock) -> None:
    log = log_of(core, retention_bytes=2500)
    for number in range(6):
        put(core, log, ("k", str(number)), size=1000)
        log.roll(clock.now_ms())
    core.maintenance.retain()
    assert [value for _, _, value in content(log)] == ["3", "4", "5"]


def test_changed_configs_take_effect_at_once(core: ClusterCore, clock: ManualClock) -> None:
    log = log_of(core)
    put(core, log, ("k", "v"))
    clock.advance(HOUR_MS)
    assert len(content(log)) == 1
    core.change_configs(ConfigResourceType.TOPIC, "t", {"retention.ms": "1000"})
    clock.advance(HOUR_MS)
    assert content(log) == []


def test_compaction_keeps_the_last_value_of_each_key_and_tombstones_for_a_while(
    core: ClusterCore, clock: ManualClock
) -> None:
    log = log_of(core, cleanup_policy="compact", delete_retention_ms=HOUR_MS, segment_ms=60_000)
    for number in range(3):
        put(core, log, ("a", f"a{number}"), ("b", f"b{number}"), ("c", f"c{number}"))
    put(core, log, ("b", None))
    clock.advance(61_000)
    put(core, log, ("d", "closes the segment"), size=1000)
    clock.advance(1000)
    kept = [(6, "a", "a2"), (8, "c", "c2"), (9, "b", None), (10, "d", "closes the segment")]
    assert content(log) == kept
    clock.advance(HOUR_MS)
    put(core, log, ("e", "makes it dirty again"))
    clock.advance(1000)
    assert [key for _, key, _ in content(log)] == ["a", "c", "d", "e"]
    assert log.next_offset == 12


def test_compaction_follows_min_and_max_compaction_lag_ms(core: ClusterCore, clock: ManualClock) -> None:
    log = log_of(core, cleanup_policy="compact", min_compaction_lag_ms=HOUR_MS, max_compaction_lag_ms=2 * HOUR_MS)
    put(core, log, ("a", "1"))
    put(core, log, ("a", "2"))
    log.roll(clock.now_ms())
    clock.advance(HOUR_MS // 2)
    assert len(content(log)) == 2
    clock.advance(HOUR_MS)
    assert content(log) == [(1, "a", "2")]
    put(core, log, ("a", "3"))
    clock.advance(2 * HOUR_MS + 2000)
    assert content(log) == [(2, "a", "3")]


def test_records_after_an_open_transaction_are_not_compacted(core: ClusterCore, clock: ManualClock) -> None:
    log = log_of(core, cleanup_policy="compact")
    record = [BatchRecord(offset=0, timestamp_ms=clock.now_ms(), key=b"k", value=b"open")]
    data = encode_batch(record, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(data, leader_epoch=0, now_ms=clock.now_ms())
    for value in ("1", "2"):
        put(core, log, ("a", value))
    log.roll(clock.now_ms())
    clock.advance(5000)
    assert len(content(log)) == 3
    log.append_marker(5, 0, commit=False, now_ms=clock.now_ms(), leader_epoch=0)
    log.roll(clock.now_ms())
    clock.advance(5000)
    assert [one[:3] for one in content(log)][:1] == [(2, "a", "2")]


def test_a_large_log_is_compacted_in_slices_during_writes(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.cluster.maintenance._SLICE_S", 0.0)
    core = quiet_core(None, clock)
    log = log_of(core, cleanup_policy="compact")
    for number in range(50):
        put(core, log, ("a", str(number)))
    log.roll(clock.now_ms())
    slices = []
    run = core.maintenance._slice

    def sliced() -> None:
        slices.append(log.next_offset)
        put(core, log, ("b", str(len(slices))))
        run()

    monkeypatch.setattr(core.maintenance, "_slice", sliced)
    core.maintenance.compact()
    clock.advance(0)
    assert len(slices) > 40
    found = content(log)
    assert found[0] == (49, "a", "49")
    assert [value for _, key, value in found if key == "b"] == [str(one + 1) for one in range(len(slices))]


def test_inactive_producers_expire(core: ClusterCore, clock: ManualClock) -> None:
    log = log_of(core)
    data = encode_batch(
        [BatchRecord(offset=0, timestamp_ms=clock.now_ms(), key=None, value=b"")],
        producer_id=3,
        producer_epoch=0,
        base_sequence=0,
    )
    log.append(data, leader_epoch=0, now_ms=clock.now_ms())
    clock.advance(HOUR_MS)
    assert list(log.producers.by_id) == [3]
    clock.advance(2 * HOUR_MS)
    assert list(log.producers.by_id) == []


def test_deleted_records_stay_deleted_after_a_crash(tmp_path: Path, clock: ManualClock) -> None:
    core = quiet_core(tmp_path, clock)
    log = log_of(core)
    put(core, log, ("a", "1"), ("b", "2"), ("c", "3"))
    put(core, log, ("d", "4"))
    log.delete_before(2)
    assert core.data is not None
    core.data.release()
    again = quiet_core(tmp_path, clock)
    found = again.topics["t"].partitions[0].log
    assert (found.start_offset, found.next_offset) == (2, 4)


def test_records_are_flushed_within_flush_ms(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr("quorate.cluster.storage.stores.os.fsync", flushed.append)
    core = quiet_core(tmp_path, clock)
    log = log_of(core, flush_ms=500)
    put(core, log, ("a", "1"))
    put(core, log, ("a", "2"))
    clock.advance(499)
    assert not flushed
    clock.advance(1)
    assert (len(flushed), log.flushed_offset) == (2, 2)  # the segment and its folder
    clock.advance(5000)
    assert len(flushed) == 2


def test_a_failed_flush_is_reported_once(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    core = quiet_core(tmp_path, clock)
    log = log_of(core, flush_ms=500)
    put(core, log, ("a", "1"))
    with monkeypatch.context() as patch:
        patch.setattr("quorate.cluster.storage.stores.os.fsync", fails)
        clock.advance(500)
    assert [note for note in core.notes if "Input/output error" in note] == core.notes
    assert len(core.notes) == 1

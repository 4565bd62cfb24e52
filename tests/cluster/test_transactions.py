"""Transaction coordinators: loading logs, leader changes, and timeouts (KIP-98, KIP-890)."""

from dataclasses import replace
from pathlib import Path

import pytest

from quorate.cluster import ManualClock
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.cluster.core import ClusterCore
from quorate.codecs import CoordinatorRecord
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError, StoredRecord
from quorate.coordinator.transactions.records import Status, record_of, transaction_of
from tests.cluster.helpers.damage import crash
from tests.cluster.storage.test_killed import Steps
from tests.cluster.storage.test_restart import quiet_core

MINUTE_MS = 60_000


def with_topics(data: Path | None, clock: ManualClock) -> ClusterCore:
    core = quiet_core(data, clock)
    core.internal_topic(TRANSACTION_STATE)
    core.create_topic("orders", partitions=2)
    return core


def write(core: ClusterCore, producer_id: int, epoch: int, partition: int = 0, sequence: int = 0) -> None:
    log = core.topics["orders"].partitions[partition].log
    record = BatchRecord(offset=0, timestamp_ms=core.clock.now_ms(), key=b"k", value=b"v")
    data = encode_batch(
        [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    log.append(data, leader_epoch=0, now_ms=core.clock.now_ms())


def begin(core: ClusterCore, transactional_id: str = "t", timeout_ms: int = MINUTE_MS) -> tuple[int, int]:
    """Begin a transaction of a producer in one partition."""
    producer_id, epoch = core.transactions.init_producer_id(transactional_id, timeout_ms, -1, -1)
    core.transactions.add_partitions(transactional_id, producer_id, epoch, [("orders", 0)])
    write(core, producer_id, epoch)
    return producer_id, epoch


def stable(core: ClusterCore) -> tuple[int, int]:
    log = core.topics["orders"].partitions[0].log
    return log.last_stable_offset, log.next_offset


def records(core: ClusterCore, transactional_id: str = "t") -> list[tuple[str, int, int]]:
    """Return status, producer id and epoch of each record."""
    partition = core.transactions.partition_for(transactional_id)
    assert partition is not None
    found = []
    for stored in PartitionCoordinatorLog(partition).read():
        assert isinstance(stored, StoredRecord)
        assert isinstance(stored.record, CoordinatorRecord)
        one = stored.record
        if one.value is None:
            found.append(("gone", -1, -1))
        else:
            read = transaction_of(one.key, one.value)  # type: ignore[arg-type]
            assert record_of(read, 1) == one
            found.append((read.status.name, read.producer_id, read.epoch))
    return found


def test_each_step_of_a_transaction_is_written_as_by_kafka() -> None:
    core = with_topics(None, ManualClock())
    producer_id, epoch = begin(core)
    assert core.transactions.end("t", producer_id, epoch, commit=True, bump_epoch=True) == (0, 1)
    core.transactions.add_partitions("t", 0, 1, [("orders", 1)], version=0)
    assert core.transactions.end("t", 0, 1, commit=False, bump_epoch=False) == (0, 1)
    assert records(core) == [
        ("EMPTY", 0, 0),
        ("ONGOING", 0, 0),
        ("PREPARE_COMMIT", 0, 1),  # with KIP-890 the markers have the next epoch
        ("COMPLETE_COMMIT", 0, 1),
        ("ONGOING", 0, 1),
        ("PREPARE_ABORT", 0, 1),
        ("COMPLETE_ABORT", 0, 1),
    ]
    assert stable(core) == (2, 2)


def test_a_new_leader_has_the_state_of_the_old_one() -> None:
    core = with_topics(None, ManualClock())
    producer_id, epoch = begin(core)
    before = core.transactions.find("t")
    partition = core.transactions.partition_for("t")
    assert partition is not None
    was = partition.leader
    core.stop_broker(was)
    assert partition.leader != was
    assert [one.transactional_id for one in core.transactions.coordinated_by(partition.leader)] == ["t"]
    assert core.transactions.find("t") == before
    with pytest.raises(ApiError) as refusal:
        core.transactions.check_coordinator(was, "t")
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    core.transactions.end("t", producer_id, epoch, commit=True, bump_epoch=True)
    assert stable(core) == (2, 2)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_transaction_is_aborted_after_its_timeout_and_its_producer_is_fenced(tmp_path: Path, restarted: bool) -> None:
    clock = ManualClock()
    core = with_topics(tmp_path, clock)
    producer_id, epoch = begin(core)
    clock.advance(MINUTE_MS // 2)
    if restarted:
        assert core.data is not None
        core.data.release()
        core = quiet_core(tmp_path, clock)
    assert stable(core) == (0, 1)
    clock.advance(MINUTE_MS // 2 - 1)
    assert stable(core) == (0, 1)
    clock.advance(1)
    assert stable(core) == (2, 2)
    log = core.topics["orders"].partitions[0].log
    assert log.aborted_between(0, 2) == [(producer_id, 0)]
    with pytest.raises(ApiError) as refusal:
        core.transactions.end("t", producer_id, epoch, commit=True, bump_epoch=False)
    assert refusal.value.code is ErrorCode.PRODUCER_FENCED
    with pytest.raises(ApiError) as refusal:  # the epoch looks like that of a retry
        core.transactions.end("t", producer_id, epoch, commit=True, bump_epoch=True)
    assert refusal.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_prepared_commit_of_a_killed_process_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    core = with_topics(tmp_path / "data", clock)
    producer_id, epoch = begin(core)
    with monkeypatch.context() as patched:
        steps = Steps(tmp_path / "data", tmp_path / "copies", patched)
        core.transactions.end("t", producer_id, epoch, commit=True, bump_epoch=True)
    crash(core)
    ends = []
    for copy, _, _ in steps.copies:
        again = quiet_core(copy, clock)
        found = again.transactions.find("t")
        assert found is not None
        assert (found.status, found.epoch) == (Status.COMPLETE_COMMIT, epoch + 1)
        assert again.topics["orders"].partitions[0].log.producers.aborted == []
        ends.append(stable(again))
        crash(again)
    # Twice each, before and after the checksum: killed after the PREPARE_COMMIT record, after the
    # marker, which is then written again, and after the COMPLETE_COMMIT record.
    assert ends == [(2, 2)] * 2 + [(3, 3)] * 2 + [(2, 2)] * 2


def test_after_the_last_epoch_a_new_producer_id_is_allocated_and_markers_have_the_old_one() -> None:
    core = with_topics(None, ManualClock())
    producer_id, epoch = begin(core)
    for _ in range(3):
        producer_id, epoch = core.transactions.end("t", producer_id, epoch, commit=False, bump_epoch=True)
    (coordinator,) = core.transactions.runtime
    last = 0x7FFE
    coordinator.shard.by_id["t"] = replace(coordinator.shard.by_id["t"], epoch=last)
    core.transactions.add_partitions("t", producer_id, last, [("orders", 0)])
    write(core, producer_id, last)
    new_id, new_epoch = core.transactions.end("t", producer_id, last, commit=True, bump_epoch=True)
    assert new_id != producer_id
    assert new_epoch == 0
    assert stable(core)[0] == stable(core)[1]
    assert records(core)[-2:] == [("PREPARE_COMMIT", producer_id, 0x7FFF), ("COMPLETE_COMMIT", new_id, 0)]
    # A retry after a lost response.
    assert core.transactions.end("t", producer_id, last, commit=True, bump_epoch=True) == (new_id, 0)


def test_unused_transactional_ids_expire() -> None:
    clock = ManualClock()
    core = with_topics(None, clock)
    core.transactions.init_producer_id("idle", MINUTE_MS, -1, -1)
    begin(core, "busy", timeout_ms=900_000)
    clock.advance(8 * 24 * 60 * MINUTE_MS)
    assert "idle" not in core.transactions.by_id
    assert ("gone", -1, -1) in records(core, "idle")
    assert core.transactions.init_producer_id("idle", MINUTE_MS, -1, -1)[1] == 0


def test_a_transaction_change_that_cannot_be_written_has_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = with_topics(tmp_path, ManualClock())
    producer_id, epoch = begin(core)
    before = core.transactions.find("t")

    def full(descriptor: int, data: bytes, position: int) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("quorate.cluster.storage.stores.os.pwrite", full)
        with pytest.raises(ApiError) as refusal:
            core.transactions.end("t", producer_id, epoch, commit=True, bump_epoch=True)
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR  # the client looks up the coordinator, and retries
    assert core.transactions.find("t") == before
    core.transactions.end("t", producer_id, epoch, commit=True, bump_epoch=True)
    assert stable(core) == (2, 2)


def test_markers_that_cannot_be_written_are_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    from quorate.cluster.log import PartitionLog

    clock = ManualClock()
    core = with_topics(None, clock)
    producer_id, epoch = begin(core)
    with monkeypatch.context() as patched:

        def refuse(*arguments: object, **options: object) -> int:
            raise AppendError(ErrorCode.KAFKA_STORAGE_ERROR)

        patched.setattr(PartitionLog, "append_marker", refuse)
        core.transactions.end("t", producer_id, epoch, commit=True, bump_epoch=True)
        with pytest.raises(ApiError) as refusal:
            core.transactions.add_partitions("t", producer_id, epoch + 1, [("orders", 0)])
        assert refusal.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
        clock.advance(1000)
    assert stable(core) == (0, 1)
    clock.advance(1000)
    assert stable(core) == (2, 2)
    reported = [note for note in core.notes if note.startswith("markers of t ")]  # not for each of ten tries
    assert [note.split(":")[0] for note in reported] == [
        "markers of t could not be written; retrying",
        "markers of t were written",
    ]
    core.transactions.add_partitions("t", producer_id, epoch + 1, [("orders", 0)])

"""Full disks: which requests fail, what is reported, and what is written later."""

from pathlib import Path

import pytest

from quorate.cluster import ClusterError, ManualClock
from quorate.cluster.log import PartitionLog
from quorate.cluster.storage.log_files import LogFiles
from quorate.cluster.storage.segment import LogSegment
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.configs import ConfigResourceType
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError
from tests.cluster.storage.test_restart import quiet_core
from tests.cluster.test_log import batch


def test_new_topics_and_partitions_are_rejected_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    core.create_topic("a", partitions=1)
    made = LogFiles.new_segment

    def full(files: LogFiles, base_offset: int, now_ms: int) -> LogSegment:
        if files.home.name.endswith("-2"):
            raise OSError(28, "No space left on device")
        return made(files, base_offset, now_ms)

    with monkeypatch.context() as patched:
        patched.setattr(LogFiles, "new_segment", full)
        for action in (lambda: core.create_topic("b", partitions=4), lambda: core.add_partitions("a", 4)):
            with pytest.raises(ApiError, match="No space left") as refusal:
                action()
            assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert [(topic.name, len(topic.partitions)) for topic in core.topics.values()] == [("a", 1)]
    core.add_partitions("a", 4)
    core.create_topic("b", partitions=4)
    core.close()
    again = quiet_core(tmp_path, clock)
    assert [(topic.name, len(topic.partitions)) for topic in again.topics.values()] == [("a", 4), ("b", 4)]
    assert again.notes == []


def test_changes_by_clients_are_rejected_and_changes_of_brokers_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    topic = core.create_topic("old", partitions=1)
    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "append_own", fail_disk_full)
        for change in (
            lambda: core.change_configs(ConfigResourceType.TOPIC, "old", {"retention.ms": "7"}),
            lambda: core.change_features({}),
            core.transactions.new_producer_id,
        ):
            with pytest.raises(ApiError):
                change()
        assert (topic.config, core.state.next_producer_id) == ({}, 0)
        assert core.features
        core.stop_broker(2)
        assert "No space left on device; free some space" in core.notes[-1]
        assert not core.brokers[2].alive
    epoch = topic.partitions[0].leader_epoch
    core.create_topic("last", partitions=1)
    core.data.release()  # a crash
    again = quiet_core(tmp_path, clock)
    assert {one.name: one.config for one in again.topics.values()} == {"old": {}, "last": {}}
    assert again.topics["old"].partitions[0].leader_epoch == epoch + 1


def fail_disk_full(log: PartitionLog, data: bytes, now_ms: int) -> None:
    raise AppendError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")


def test_topic_changes_that_cannot_be_written_are_rejected_without_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 14: the folders of a deleted topic were gone, and the next start failed."""
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    topic = core.create_topic("a", partitions=1, assignment=[[1]])
    topic.partitions[0].log.append(batch(3), leader_epoch=0, now_ms=0)
    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "append_own", fail_disk_full)
        for change in (
            lambda: core.create_topic("b", partitions=2),
            lambda: core.delete_topic("a"),
            lambda: core.add_partitions("a", 3),
            lambda: core.reassign(topic.partitions[0], [2]),
        ):
            with pytest.raises(ApiError, match="No space left") as refusal:
                change()
            assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert sorted(path.name for path in tmp_path.glob("broker-*/*-*") if path.is_dir()) == ["a-0"]
    core.data.release()  # a crash
    again = quiet_core(tmp_path, clock)
    (same,) = again.topics.values()
    (only,) = same.partitions
    assert (same.name, same.id, only.replicas, only.log.next_offset) == ("a", topic.id, (1,), 3)
    again.delete_topic("a")
    assert not list(tmp_path.glob("broker-*/a-*"))


def test_a_full_disk_is_reported_at_most_once_a_second_and_prevents_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    log = core.create_topic("a", partitions=1).partitions[0].log

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("quorate.cluster.storage.stores.os.pwrite", full)
        for wait_ms in (0, 10, 10, 2_000):
            clock.advance(wait_ms)
            with pytest.raises(AppendError):
                log.append(batch(1), leader_epoch=0, now_ms=clock.now_ms())
    home = tmp_path / "broker-1" / "a-0"
    assert core.notes == [f"{home}: the log cannot be written: No space left on device"] * 2
    core.close()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", full)
        with pytest.raises(ClusterError, match="No space left on device; free some space, and start again"):
            quiet_core(tmp_path, clock)
    assert quiet_core(tmp_path, clock).topics.keys() == {"a"}


def test_a_recreated_topic_does_not_get_records_whose_deletion_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = quiet_core(tmp_path, ManualClock())
    core.create_topic("a", partitions=1, replicas=2).partitions[0].log.append(batch(3), leader_epoch=0, now_ms=0)

    def refused(path: Path, target: Path) -> Path:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refused)
        core.delete_topic("a")
    assert "could not be deleted" in core.notes[-1]
    log = core.create_topic("a", partitions=1, replicas=2).partitions[0].log
    assert log.next_offset == 0
    assert len(list(tmp_path.glob("broker-*/a-0.*-stray"))) == 2

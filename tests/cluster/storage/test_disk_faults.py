"""Disk errors while a cluster runs, and remains of deleted topics: no acknowledged data is lost."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import ClusterError, EmbeddedCluster, ManualClock
from quorate.cluster.core import ClusterCore
from quorate.cluster.log import PartitionLog
from quorate.cluster.storage.data import DataDirectory
from quorate.cluster.storage.log_files import LogFiles
from quorate.cluster.storage.segment import LogSegment
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import (
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.message import TRANSACTION_STATE, Message
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError
from quorate.coordinator.results import RequestContext
from tests.cluster.storage.test_restart import quiet_core
from tests.cluster.test_log import batch


@contextmanager
def opened(data: Path) -> Iterator[ClusterCore]:
    core = quiet_core(data, ManualClock())
    try:
        yield core
    finally:
        core.close()


def crash(core: ClusterCore) -> None:
    """Stop without a shutdown."""
    assert core.data is not None
    core.data.release()


def log_of(core: ClusterCore, topic: str) -> PartitionLog:
    partition = core.state.partition(topic, 0)
    assert partition is not None
    return partition.log


def put(core: ClusterCore, topic: str, count: int) -> int:
    """Append a batch; return its first offset."""
    return log_of(core, topic).append(batch(count), leader_epoch=0, now_ms=core.clock.now_ms()).base_offset


@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_a_recreated_topic_begins_at_offset_0(tmp_path: Path, restarts: bool) -> None:
    with opened(tmp_path) as core:
        core.create_topic("t", partitions=1, replicas=1)
        put(core, "t", 10)
        log_of(core, "t").delete_before(5)
        if restarts:
            core.close()
            core = quiet_core(tmp_path, ManualClock())
        core.delete_topic("t")
        core.create_topic("t", partitions=1, replicas=1)
        assert put(core, "t", 3) == 0
        crash(core)
    with opened(tmp_path) as core:
        assert (log_of(core, "t").start_offset, log_of(core, "t").next_offset) == (0, 3)


def test_records_are_not_deleted_if_the_checkpoint_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(tmp_path) as core:
        core.create_topic("t", partitions=1, replicas=1)
        put(core, "t", 10)
        with monkeypatch.context() as patch:
            patch.setattr("quorate.cluster.storage.data.write_atomically", fails)
            with pytest.raises(AppendError):
                log_of(core, "t").delete_before(5)
        assert log_of(core, "t").start_offset == 0
        log_of(core, "t").delete_before(5)
        crash(core)
    with opened(tmp_path) as core:
        assert log_of(core, "t").start_offset == 5


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_failed_segment_creation_does_not_affect_later_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    make = os.open

    def fails(path: Path | str, *arguments: int) -> int:
        if str(path).endswith(suffix) and arguments[0] & os.O_CREAT:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return make(path, *arguments)

    with opened(tmp_path) as core:
        core.create_topic("t", partitions=1, replicas=1)
        log = log_of(core, "t")
        put(core, "t", 10)
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", fails)
            with pytest.raises(AppendError):
                log.roll(0)
        put(core, "t", 10)
        log.roll(0)
        put(core, "t", 10)
        crash(core)
    with opened(tmp_path) as core:
        assert log_of(core, "t").next_offset == 30
        assert [one.base_offset for one in log_of(core, "t")] == [0, 10, 20]


def transactional(sequence: int) -> bytes:
    return batch(producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)


@pytest.mark.parametrize(
    ("method", "write"),
    [
        ("write_epochs", lambda log: log.append(transactional(1), leader_epoch=1, now_ms=0)),
        ("add_aborted", lambda log: log.append_marker(7, 0, commit=False, now_ms=0, leader_epoch=0)),
    ],
)
def test_a_full_disk_for_an_index_leaves_no_partial_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, write: Callable[[PartitionLog], object]
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(tmp_path) as core:
        core.create_topic("t", partitions=1, replicas=1)
        log = log_of(core, "t")
        log.append(transactional(0), leader_epoch=0, now_ms=0)
        with monkeypatch.context() as patch:
            patch.setattr(LogFiles, method, fails)
            with pytest.raises(AppendError):
                write(log)
        assert (log.next_offset, log.epochs) == (1, [(0, 0)])
        assert not log.append(transactional(1), leader_epoch=1, now_ms=0).duplicate
        log.append_marker(7, 0, commit=False, now_ms=0, leader_epoch=1)
    with opened(tmp_path) as core:
        log = log_of(core, "t")
        assert (log.next_offset, log.last_stable_offset, log.epochs) == (3, 3, [(0, 0), (1, 1)])
        assert log.aborted_between(0, 3) == [(7, 0)]


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("retried", [True, False])
def test_a_failed_abort_marker_leaves_no_entry_in_the_transaction_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashes: bool, retried: bool
) -> None:
    """Each retry left one, and after a restart a fetch listed the transaction as often."""

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def abort(log: PartitionLog) -> None:
        log.append_marker(7, 0, commit=False, now_ms=0, leader_epoch=0)

    with opened(tmp_path) as core:
        core.create_topic("t", partitions=1, replicas=1)
        log = log_of(core, "t")
        for _ in range(2):
            log.append(transactional(log.next_offset - log.next_offset // 2), leader_epoch=0, now_ms=0)
            with monkeypatch.context() as patch:
                patch.setattr(LogSegment, "append", fails)
                for _ in range(3):
                    with pytest.raises(AppendError):
                        abort(log)
            if retried:
                abort(log)
            else:
                log.append(transactional(1), leader_epoch=0, now_ms=0)
                break
        if crashes:
            crash(core)
    with opened(tmp_path) as core:
        log = log_of(core, "t")
        if retried:
            assert log.aborted_between(0, 4) == [(7, 0), (7, 2)]
        else:
            assert log.aborted_between(0, 2) == []
            abort(log)
            assert log.aborted_between(0, 3) == [(7, 0)]


def test_an_index_entry_that_could_not_be_removed_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with opened(tmp_path) as core:
        core.create_topic("t", partitions=1, replicas=1)
        log = log_of(core, "t")
        log.append(transactional(0), leader_epoch=0, now_ms=0)
        with monkeypatch.context() as patch:
            patch.setattr(LogSegment, "append", fails)
            patch.setattr(os, "truncate", fails)
            with pytest.raises(AppendError):
                log.append_marker(7, 0, commit=False, now_ms=0, leader_epoch=0)
        log.append(transactional(1), leader_epoch=0, now_ms=0)
        log.append_marker(7, 0, commit=False, now_ms=0, leader_epoch=0)
    with opened(tmp_path) as core:
        assert log_of(core, "t").aborted_between(0, 3) == [(7, 0)]


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_failed_maintenance_of_one_log_does_not_affect_others_and_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    roll = LogFiles.new_segment

    def fails(files: LogFiles, *arguments: int) -> LogSegment:
        if files.home.name == "bad-0":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return roll(files, *arguments)

    lag = {"cleanup.policy": "compact", "max.compaction.lag.ms": "1000"}
    config = lag if policy == "compact" else {"retention.ms": "1000"}
    with opened(tmp_path) as core:
        clock = core.clock
        assert isinstance(clock, ManualClock)
        for topic in ("bad", "good"):
            core.create_topic(topic, partitions=1, replicas=1, config=config)
            keyed = encode_batch([BatchRecord(offset=0, timestamp_ms=clock.now_ms(), key=b"k", value=b"v")])
            log_of(core, topic).append(keyed, leader_epoch=0, now_ms=clock.now_ms())
        look = core.maintenance.compact if policy == "compact" else core.maintenance.retain
        clock.advance(2_000)
        with monkeypatch.context() as patch:
            patch.setattr(LogFiles, "new_segment", fails)
            look()
            clock.advance(0)  # run the slices of the compaction
        assert [log_of(core, topic).active.base_offset for topic in ("bad", "good")] == [0, 1]
        assert any(note.startswith(("bad-0 could not be", "old records of bad-0 could not be")) for note in core.notes)
        look()
        assert log_of(core, "bad").active.base_offset == 1


def damage_once_checked(monkeypatch: pytest.MonkeyPatch, segment: Path) -> None:
    """Make the disk return other bytes than those that the start has checked."""
    check = DataDirectory.inspect

    def inspect(data: DataDirectory, partitions: Any) -> None:
        check(data, partitions)
        content = bytearray(segment.read_bytes())
        content[-1] ^= 0xFF
        segment.write_bytes(content)

    monkeypatch.setattr(DataDirectory, "inspect", inspect)


def test_a_transaction_log_damaged_at_runtime_has_no_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as core:
        core.internal_topic(TRANSACTION_STATE)
        for _ in range(2):
            core.transactions.init_producer_id("t", 60_000, -1, -1)
        led = core.transactions.partition_for("t")
        assert led is not None
        assert led.log.files is not None
        segment = led.log.files.path(led.log.active)
    damage_once_checked(monkeypatch, segment)
    with opened(tmp_path) as core:
        for _ in range(2):
            with pytest.raises(ApiError) as refused:
                core.transactions.init_producer_id("t", 60_000, -1, -1)
            assert refused.value.code == ErrorCode.NOT_COORDINATOR
        (note,) = core.notes
        assert f"the transactions of {TRANSACTION_STATE}-{led.index} have no coordinator: " in note


def test_an_offsets_log_damaged_at_runtime_has_no_coordinator_and_loses_no_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(group_id="g", topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)),
        )
    )
    commits = [
        OffsetCommitRequest(
            group_id="g",
            topics=(
                OffsetCommitRequestTopic(
                    name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=offset),)
                ),
            ),
        )
        for offset in (1, 2)
    ]

    def ask(core: ClusterCore, request: Message, version: int) -> Any:
        return core.groups.request(
            led.leader, "g", request, RequestContext(api_version=version, now_ms=core.clock.now_ms())
        )

    with opened(tmp_path) as core:
        core.create_topic("t", partitions=1, replicas=1)
        core.internal_topic(CONSUMER_OFFSETS)
        led = core.groups.partition_for("g")
        assert led is not None
        for commit in commits:
            ask(core, commit, 8)
        assert ask(core, fetch, 8).groups[0].topics[0].partitions[0].committed_offset == 2
        assert led.log.files is not None
        segment = led.log.files.path(led.log.active)
    damage_once_checked(monkeypatch, segment)
    with opened(tmp_path) as core:
        led = core.groups.partition_for("g")
        assert led is not None
        for _ in range(2):
            assert ask(core, fetch, 8).groups[0].error_code == ErrorCode.NOT_COORDINATOR
        listed = core.groups.list_groups(led.leader, ListGroupsRequest(), RequestContext(api_version=4, now_ms=0))
        assert listed == ListGroupsResponse()
        (note,) = core.notes
        assert f"the groups of {CONSUMER_OFFSETS}-{led.index} have no coordinator: " in note
        assert "restore the partition's folder from a copy" in note


@pytest.mark.parametrize("end", ["stop", "checkpoint"])
def test_a_leader_change_on_a_full_disk_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    def full(*_: object) -> None:
        raise AppendError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")

    with opened(tmp_path) as core:
        (partition,) = core.create_topic("t", assignment=[[1, 2]]).partitions
        with monkeypatch.context() as patch:
            patch.setattr(PartitionLog, "append_own", full)
            core.stop_broker(1)
            if end == "checkpoint":
                core.maintenance.checkpoint()
        assert (partition.leader, partition.leader_epoch) == (2, 1)
        if end == "checkpoint":
            core.maintenance.checkpoint()
            crash(core)
    with opened(tmp_path) as core:
        assert core.topics["t"].partitions[0].leader_epoch == 2


@pytest.mark.parametrize(
    ("fault", "raised", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), ClusterError, "free some space, and start again"),
        (RuntimeError("unexpected"), RuntimeError, "unexpected"),
    ],
    ids=["disk full", "another"],
)
def test_a_failed_start_leaves_no_broker_listening_and_no_directory_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, raised: type[Exception], said: str
) -> None:
    def fails(*_: object) -> None:
        raise fault

    made = EmbeddedCluster(data=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(DataDirectory, "directory_id", fails)
        with pytest.raises(raised, match=said):
            made.__enter__()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", made.core.brokers[1].port))
    with EmbeddedCluster(data=tmp_path):
        pass

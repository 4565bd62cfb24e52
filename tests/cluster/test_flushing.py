"""A disk that takes its time: who waits for it, who does not, and what they are told. The disk is the tests': it is done when they say so.

More than 400 lines, as all of it needs that disk.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.cluster.core import ClusterCore
from quorate.cluster.flushing import Unflushed
from quorate.cluster.log_config import LogConfig
from quorate.cluster.storage.checksums import CHECKSUMS
from quorate.cluster.storage.cleaning import clean
from quorate.cluster.transaction_records import Status
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import OffsetCommitRequest, OffsetFetchRequest
from quorate.codecs.api.broker import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    EndTxnRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from quorate.codecs.api.broker.delete_topics import DeleteTopicState
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.results import Pending
from tests.cluster.conftest import QUICK
from tests.cluster.folder import Folder
from tests.cluster.test_log import NOW_MS, batch
from tests.cluster.wire import Wire


class Disk:
    """`fsync` of the flushing thread waits until `free` is set; `begun` says that it does. `done`: whether it was called in that thread; `names`: for which files."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.begun = threading.Semaphore(0)
        self.error: OSError | None = None
        self.done: list[bool] = []
        self.names: list[str] = []

    def fsync(self, file: int) -> None:
        self.names.append(Path(f"/proc/self/fd/{file}").readlink().name)
        ours = threading.current_thread().name.startswith("quorate-flush")
        self.done.append(ours)
        if ours:
            self.begun.release()
            assert self.free.wait(30)
            if self.error is not None:
                raise self.error

    def wait_begun(self) -> None:
        assert self.begun.acquire(timeout=30)

    def stall(self, cluster: EmbeddedCluster) -> None:
        """Take time from now on, when what was to be done is done."""
        self.free.set()
        arrived = threading.Event()
        cluster.call(lambda: cluster.core.flusher.after(lambda _: arrived.set()))
        assert arrived.wait(30)
        self.free.clear()
        while self.begun.acquire(blocking=False):
            pass
        self.done.clear()
        self.names.clear()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    made = Disk()
    monkeypatch.setattr(os, "fsync", made.fsync)
    yield made
    made.free.set()


@pytest.fixture
def running(tmp_path: Path, disk: Disk) -> Iterator[Callable[..., EmbeddedCluster]]:
    clusters = []

    def start(brokers: int = 1, **properties: object) -> EmbeddedCluster:
        made = EmbeddedCluster(brokers=brokers, data=tmp_path, properties={**QUICK, **properties}, seed=1)
        made.__enter__()
        clusters.append(made)
        return made

    yield start
    disk.free.set()
    for one in clusters:
        one.close()


def with_topic(cluster: EmbeddedCluster, **config: object) -> EmbeddedCluster:
    settings = {name.replace("_", "."): str(value) for name, value in config.items()}
    cluster.call(lambda: cluster.core.create_topic("t", partitions=1, replicas=1, config=settings))
    return cluster


def wire_to(cluster: EmbeddedCluster) -> Wire:
    return Wire(cluster.core.brokers[1].port, timeout_s=30)


def produce(topic: str = "t") -> ProduceRequest:
    part = PartitionProduceData(index=0, records=batch(1))
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(TopicProduceData(name=topic, partition_data=(part,)),))


def fetched(wire: Wire) -> tuple[int, int, bool]:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", partitions=(part,))
    found = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=(topic,)), 12).responses[0].partitions[0]
    return found.high_watermark, found.last_stable_offset, bool(found.records)


def latest(wire: Wire) -> int:
    request = ListOffsetsRequest(topics=(ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(timestamp=-1),)),))
    offset: int = wire.ask(request, 7).topics[0].partitions[0].offset
    return offset


def nothing_came(wire: Wire) -> bool:
    wire.socket.setblocking(False)
    try:
        return not wire.socket.recv(1)
    except BlockingIOError:
        return True
    finally:
        wire.socket.settimeout(30)


def told(wire: Wire) -> Any:
    return wire.receive(ProduceRequest, 9).responses[0].partition_responses[0]


def test_who_wrote_waits_for_the_disk_and_others_are_answered(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = with_topic(running(), flush_messages=1)
    with wire_to(cluster) as producer, wire_to(cluster) as other:
        producer.send(produce(), 9)
        disk.wait_begun()
        assert other.ask(MetadataRequest(), 12).brokers
        assert (fetched(other), latest(other)) == ((0, 0, False), 0)
        assert nothing_came(producer)
        disk.free.set()
        assert (told(producer).error_code, told_log(cluster).flushed_offset) == (ErrorCode.NONE, 1)
        assert (fetched(other), latest(other)) == ((1, 1, True), 1)


def told_log(cluster: EmbeddedCluster, topic: str = "t") -> Any:
    return cluster.core.topics[topic].partitions[0].log


def test_a_fetch_that_waits_is_answered_when_the_disk_has_it(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = with_topic(running(), flush_messages=1)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    waits = FetchRequest(max_wait_ms=30_000, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(part,)),))
    with wire_to(cluster) as producer, wire_to(cluster) as consumer:
        consumer.send(waits, 12)
        producer.send(produce(), 9)
        disk.wait_begun()
        assert nothing_came(consumer)
        disk.free.set()
        assert consumer.receive(FetchRequest, 12).responses[0].partitions[0].records


def test_what_comes_while_the_disk_is_busy_shares_the_next_flush(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = with_topic(running(), flush_messages=1)
    wires = [wire_to(cluster) for _ in range(20)]
    wires[0].send(produce(), 9)
    disk.wait_begun()
    for wire in wires[1:]:
        wire.send(produce(), 9)
    with wire_to(cluster) as other:  # what came before it has been read by then, as all is in one loop
        while cluster.call(lambda: told_log(cluster).next_offset) < len(wires):
            other.ask(MetadataRequest(), 12)
    disk.free.set()
    assert sorted(told(wire).base_offset for wire in wires) == list(range(20))
    assert disk.done == [True, True, True]  # the file and the folder, then the file
    for wire in wires:
        wire.socket.close()


def test_who_wrote_is_told_that_the_disk_did_not_take_it(running: Callable[..., EmbeddedCluster], disk: Disk) -> None:
    cluster = with_topic(running(), flush_messages=1)
    disk.error = OSError(5, "Input/output error")
    disk.free.set()
    with wire_to(cluster) as producer:
        producer.send(produce(), 9)
        assert told(producer).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert any("Input/output error" in note for note in cluster.core.notes)
        disk.error = None
        producer.send(produce(), 9)
        assert told(producer).error_code == ErrorCode.NONE
        assert disk.done[-2:] == [True, True]  # the folder, too, as that is not known to be there
    assert told_log(cluster).flushed_offset == 2


def test_a_file_that_cannot_be_closed_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [os.open(tmp_path / name, os.O_CREAT | os.O_WRONLY) for name in ("one", "two")]
    closed = []
    close = os.close

    def failing(file: int) -> None:
        close(file)
        closed.append(file)
        raise OSError(5, "Input/output error")

    work = Unflushed(files=list(files))
    with monkeypatch.context() as patched:
        patched.setattr(os, "close", failing)
        assert work.flush() is None
    assert closed == files
    assert work.done


def commit(offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(part,)),))


def test_offsets_are_acknowledged_and_told_when_the_disk_has_them(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = with_topic(running(**{"log.flush.interval.messages": 1}))
    cluster.call(lambda: cluster.core.internal_topic(CONSUMER_OFFSETS))
    disk.stall(cluster)
    with wire_to(cluster) as member, wire_to(cluster) as admin, wire_to(cluster) as other:
        member.send(commit(7), 8)
        disk.wait_begun()
        admin.send(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),)), 8)
        assert other.ask(MetadataRequest(), 12).brokers
        assert nothing_came(member)
        assert nothing_came(admin)
        disk.free.set()
        assert member.receive(OffsetCommitRequest, 8).topics[0].partitions[0].error_code == ErrorCode.NONE
        (group,) = admin.receive(OffsetFetchRequest, 8).groups
        assert group.topics[0].partitions[0].committed_offset == 7
        disk.error = OSError(28, "No space left on device")
        answer = member.ask(commit(8), 8)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_an_answer_that_others_complete_waits_for_the_disk_too(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    """As that of a SyncGroup, which the leader's completes."""
    cluster = with_topic(running(), flush_messages=1)
    answer: Pending[str] = Pending()
    later = cluster.call(lambda: cluster.core.flusher.held(answer, lambda: "failed"))
    with wire_to(cluster) as producer:
        producer.send(produce(), 9)
        disk.wait_begun()
        cluster.call(lambda: answer.complete("done"))
        assert not later.done
        disk.free.set()
        assert told(producer).error_code == ErrorCode.NONE
    assert cluster.call(lambda: later.response) == "done"


def test_flushes_by_time_hold_up_nobody(running: Callable[..., EmbeddedCluster], disk: Disk) -> None:
    cluster = with_topic(running(), flush_ms=1)
    with wire_to(cluster) as producer, wire_to(cluster) as other:
        producer.send(produce(), 9)
        assert told(producer).error_code == ErrorCode.NONE
        disk.wait_begun()
        assert fetched(other) == (1, 1, True)  # it was told already
        disk.free.set()


@pytest.fixture
def with_transaction(running: Callable[..., EmbeddedCluster], disk: Disk) -> tuple[EmbeddedCluster, EndTxnRequest]:
    """A cluster that flushes, with an open transaction in `t`, and the request that commits it; the disk is stalled."""
    cluster = with_topic(running(**{"log.flush.interval.messages": 1}))

    def begin() -> tuple[int, int]:
        cluster.core.internal_topic(TRANSACTION_STATE)
        producer = cluster.core.transactions.begin("x", 60_000, -1, -1)
        cluster.core.transactions.add("x", *producer, [("t", 0)])
        return producer

    producer_id, epoch = cluster.call(begin)
    disk.stall(cluster)
    return cluster, EndTxnRequest(transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=True)


def status(cluster: EmbeddedCluster) -> Status:
    found = cluster.call(lambda: cluster.core.transactions.find("x"))
    assert found is not None
    return found.status


def test_markers_are_written_when_the_decision_is_on_the_disk_and_others_are_answered_meanwhile(
    with_transaction: tuple[EmbeddedCluster, EndTxnRequest], disk: Disk
) -> None:
    cluster, commit_it = with_transaction
    with wire_to(cluster) as producer, wire_to(cluster) as other:
        producer.send(commit_it, 3)
        disk.wait_begun()
        assert other.ask(MetadataRequest(), 12).brokers
        assert nothing_came(producer)
        assert (told_log(cluster).next_offset, status(cluster)) == (0, Status.PREPARE_COMMIT)
        disk.free.set()
        assert producer.receive(EndTxnRequest, 3).error_code == ErrorCode.NONE
        assert (told_log(cluster).flushed_offset, status(cluster)) == (1, Status.COMPLETE_COMMIT)
    assert all(disk.done)


def test_a_producer_that_begins_anew_while_its_transaction_ends_is_told_to_ask_again(
    with_transaction: tuple[EmbeddedCluster, EndTxnRequest], disk: Disk
) -> None:
    cluster, _ = with_transaction
    with wire_to(cluster) as producer:
        begin = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        producer.send(begin, 4)
        disk.wait_begun()
        disk.free.set()
        assert producer.receive(InitProducerIdRequest, 4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        while (answer := producer.ask(begin, 4)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            pass
        assert answer.error_code == ErrorCode.NONE
    assert status(cluster) is Status.EMPTY


def test_a_decision_that_the_disk_did_not_take_is_written_once_more_and_told_of_once(
    with_transaction: tuple[EmbeddedCluster, EndTxnRequest], disk: Disk
) -> None:
    cluster, commit_it = with_transaction
    disk.error = OSError(5, "Input/output error")
    disk.free.set()
    with wire_to(cluster) as producer:
        assert producer.ask(commit_it, 3).error_code == ErrorCode.NOT_COORDINATOR
        assert told_log(cluster).next_offset == 0
        failures = len(disk.names)
        while len(disk.names) < failures + 2:  # it was tried again, twice
            producer.ask(MetadataRequest(), 12)
        disk.error = None
        while producer.ask(commit_it, 3).error_code != ErrorCode.NONE:
            pass
    assert (told_log(cluster).flushed_offset, status(cluster)) == (1, Status.COMPLETE_COMMIT)
    notes = [note for note in cluster.core.notes if note.startswith("markers of x")]
    assert notes == [
        "markers of x could not be written, and will be: the disk did not take the decision",
        "markers of x are written",
    ]


def test_what_a_transaction_writes_is_not_on_the_disk_before_it_is_known_whose_it_is(
    with_transaction: tuple[EmbeddedCluster, EndTxnRequest], disk: Disk
) -> None:
    cluster, commit_it = with_transaction

    def add() -> int:
        cluster.core.create_topic("u", partitions=1, replicas=1)
        cluster.core.transactions.add("x", commit_it.producer_id, commit_it.producer_epoch, [("u", 0)], at_once=True)
        found = cluster.core.transactions.partition_for("x")
        assert found is not None
        return found.log.next_offset - found.log.flushed_offset

    assert cluster.call(add) == 0


def test_a_topic_is_made_when_it_is_written_down_on_the_disk_and_others_are_answered_meanwhile(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = running(**{"log.flush.interval.messages": 1})
    disk.stall(cluster)
    made = CreateTopicsRequest(topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),))
    with wire_to(cluster) as admin, wire_to(cluster) as other:
        admin.send(made, 7)
        disk.wait_begun()
        assert other.ask(MetadataRequest(), 12).brokers
        assert nothing_came(admin)
        disk.free.set()
        assert admin.receive(CreateTopicsRequest, 7).topics[0].error_code == ErrorCode.NONE
        assert not cluster.core.data.metadata.is_flushing  # type: ignore[union-attr]
    assert all(disk.done)


def after_power_failure(data: Path, copy: Path, size: int) -> ClusterCore:
    """A cluster with a copy of a directory, where the disk has `size` bytes of the metadata log."""
    shutil.copytree(data, copy)
    os.truncate(copy / "controller" / "__cluster_metadata-0" / f"{0:020}.log", size)
    (copy / ".lock").write_text("the machine has started again since")
    return ClusterCore({1: None, 2: None}, data=copy, properties=QUICK)


@pytest.mark.parametrize("change", ["delete", "reassign"])
def test_folders_of_partitions_stay_until_the_disk_has_the_change_that_removes_them(
    running: Callable[..., EmbeddedCluster], disk: Disk, tmp_path: Path, change: str
) -> None:
    """After a power failure in between, the next start was refused or found the topic without its records."""
    cluster = running(brokers=2, **{"log.flush.interval.messages": 1})
    core = cluster.core
    cluster.call(lambda: core.create_topic("t", assignment=[[1]]))
    cluster.call(lambda: told_log(cluster).append(batch(3), leader_epoch=0, now_ms=NOW_MS))
    disk.stall(cluster)
    assert core.data is not None
    noted = list(core.notes)
    size = core.data.metadata.log.size_bytes
    changes = {
        "delete": lambda: core.delete_topic("t"),
        "reassign": lambda: core.reassign(core.topics["t"].partitions[0], [2]),
    }
    cluster.call(changes[change])
    disk.wait_begun()
    again = after_power_failure(core.data.path, tmp_path.with_name(f"{tmp_path.name}-copy"), size)
    assert again.topics["t"].partitions[0].replicas == (1,)
    assert again.topics["t"].partitions[0].log.next_offset == 3
    again.close()
    disk.done.clear()
    disk.free.set()
    with wire_to(cluster) as other:
        while (core.data.path / "broker-1" / "t-0").exists():
            other.ask(MetadataRequest(), 12)
    assert all(disk.done)
    assert core.notes == noted


def test_folders_of_a_deleted_topic_are_removed_in_the_end_where_the_disk_was_busy(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = running(**{"log.flush.interval.messages": 1})
    core = cluster.core
    assert core.data is not None
    with_topic(cluster)
    disk.stall(cluster)
    with wire_to(cluster) as admin:
        admin.send(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000), 6)
        disk.wait_begun()
        threading.Timer(0.05, disk.free.set).start()
        cluster.close()
        cluster.close = lambda **_: None  # type: ignore[method-assign]
    assert not list(core.data.path.glob("broker-1/t-0*"))


def test_a_topic_of_the_same_name_waits_for_the_disk_to_have_the_deletion(
    running: Callable[..., EmbeddedCluster], disk: Disk, tmp_path: Path
) -> None:
    cluster = running(**{"log.flush.interval.messages": 1})
    core = cluster.core
    with_topic(cluster)
    disk.stall(cluster)
    noted = list(core.notes)

    def change() -> int:
        core.delete_topic("t")
        assert core.data is not None
        deleted = core.data.metadata.log.next_offset
        core.create_topic("t", partitions=1)
        return core.data.metadata.log.flushed_offset - deleted

    assert cluster.call(change) == 0
    disk.free.set()
    with wire_to(cluster) as other:
        assert other.ask(CreateTopicsRequest(topics=(CreatableTopic(name="t"),)), 7).topics[0].error_code == (
            ErrorCode.TOPIC_ALREADY_EXISTS
        )
    assert core.notes == noted
    cluster.close()
    cluster.close = lambda **_: None  # type: ignore[method-assign]
    with EmbeddedCluster(data=tmp_path) as again:
        assert again.core.start_notes == ()
        assert list(again.core.topics) == ["t"]


def test_where_a_log_begins_is_on_the_disk_when_records_count_as_deleted(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = with_topic(running(**{"log.flush.interval.messages": 1}))
    cluster.call(lambda: told_log(cluster).append(batch(3), leader_epoch=0, now_ms=NOW_MS))
    disk.stall(cluster)
    part = DeleteRecordsPartition(partition_index=0, offset=2)
    deletion = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(part,)),), timeout_ms=1000)
    with wire_to(cluster) as admin:
        admin.send(deletion, 2)
        disk.wait_begun()
        assert nothing_came(admin)
        disk.free.set()
        (found,) = admin.receive(DeleteRecordsRequest, 2).topics[0].partitions
    assert (found.error_code, found.low_watermark) == (ErrorCode.NONE, 2)
    assert disk.names == ["log-start-offset-checkpoint.tmp", "broker-1"]
    assert all(disk.done)


def test_nobody_waits_while_what_compaction_left_is_brought_to_the_disk(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = with_topic(running(), segment_bytes=1024, cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")

    def fill() -> None:
        log = told_log(cluster)
        for number in range(30):
            keyed = BatchRecord(offset=0, timestamp_ms=NOW_MS, key=b"%d" % (number % 2 * number), value=b"v" * 50)
            log.append(encode_batch([keyed]), leader_epoch=0, now_ms=NOW_MS)

    cluster.call(fill)
    size = cluster.call(lambda: told_log(cluster).size_bytes)
    disk.stall(cluster)
    with wire_to(cluster) as other:
        cluster.call(cluster.core.maintenance.compact)
        disk.wait_begun()
        assert other.ask(MetadataRequest(), 12).brokers
        assert cluster.call(lambda: told_log(cluster).size_bytes) == size
        disk.free.set()
        while cluster.call(lambda: told_log(cluster).size_bytes) == size:
            other.ask(MetadataRequest(), 12)
    files = told_log(cluster).files
    assert files is not None
    others = {name for name in disk.names if not name.endswith(".log.cleaned")}
    assert others == {CHECKSUMS, files.home.name}  # which no longer say what the segment was
    assert len(disk.names) > len(others)
    assert all(disk.done)


def test_metadata_that_grew_is_written_anew_while_the_cluster_runs_and_changes_meanwhile_are_kept(
    running: Callable[..., EmbeddedCluster], disk: Disk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("quorate.cluster.storage.metadata._AT_LEAST_BYTES", 4000)
    cluster = with_topic(running())
    core = cluster.core
    assert core.data is not None
    metadata = core.data.metadata

    def change(to: int) -> int:
        core.topics["t"].config = {"retention.ms": str(to)}
        core.settings_changed()
        return metadata.log.next_offset

    ends = []
    while not disk.begun.acquire(blocking=False):
        ends.append(cluster.call(lambda: change(len(ends))))
        assert len(ends) < 500
    ends.append(
        cluster.call(lambda: change(len(ends)))
    )  # what is under way does not have it, and is not put into the place
    disk.free.set()
    size = metadata.log.size_bytes
    while metadata.log.size_bytes >= size:
        ends.append(cluster.call(lambda: change(len(ends))))
        size = max(size, metadata.log.size_bytes)
    assert "compacted.tmp" in disk.names
    assert ends == sorted(ends)
    last = str(len(ends) - 1)
    assert cluster.call(lambda: change(len(ends) - 1)) >= ends[-1]
    cluster.close()
    cluster.close = lambda **_: None  # type: ignore[method-assign]
    with EmbeddedCluster(data=tmp_path) as again:
        assert again.core.topics["t"].config == {"retention.ms": last}


def test_stopping_waits_for_the_disk(running: Callable[..., EmbeddedCluster], disk: Disk) -> None:
    cluster = with_topic(running(), flush_messages=1)
    log = told_log(cluster)
    with wire_to(cluster) as producer:
        producer.send(produce(), 9)
        disk.wait_begun()
        threading.Timer(0.05, disk.free.set).start()
        cluster.close()
        cluster.close = lambda **_: None  # type: ignore[method-assign]
    assert log.flushed_offset == log.next_offset == 1


def test_a_segment_that_is_compacted_while_it_is_flushed_is_on_the_disk_afterwards(tmp_path: Path, disk: Disk) -> None:
    config = LogConfig(segment_bytes=300, compact=True, delete=False)
    with Folder(tmp_path).opened(config) as log:
        for _ in range(12):
            keyed = BatchRecord(offset=0, timestamp_ms=NOW_MS, key=b"%d" % log.next_offset, value=b"v" * 100)
            log.append(encode_batch([keyed]), leader_epoch=0, now_ms=NOW_MS)
        work = log.unflushed()
        disk.done.clear()
        for _ in clean(log, now_ms=NOW_MS):
            pass
        assert disk.done
        assert work.flush() is None

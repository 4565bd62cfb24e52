"""When and in which order `fsync` is called, and responses to requests whose data is not flushed.

The disk is simulated. The module is long because all tests need that disk.
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
from quorate.cluster.log_config import LogConfig
from quorate.cluster.storage.checksums import CHECKSUMS
from quorate.cluster.storage.cleaning import clean
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import OffsetCommitRequest, OffsetFetchRequest
from quorate.codecs.api.broker import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    ElectLeadersRequest,
    EndTxnRequest,
    FetchRequest,
    InitProducerIdRequest,
    ProduceRequest,
    UpdateFeaturesRequest,
)
from quorate.codecs.api.broker.alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from quorate.codecs.api.broker.elect_leaders import TopicPartitions
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.broker.update_features import FeatureUpdateKey
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.configs import ConfigResourceType
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.transactions.records import Status
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.folder import Folder
from tests.cluster.helpers.wire import Wire
from tests.cluster.test_log import NOW_MS, batch

FAILED = OSError(5, "Input/output error")


class Disk:
    """A disk whose `fsync` calls wait until `free` is set; `begun`: a call has begun.

    `before`: called before a call does anything. `synced`: folder and name of each file, and the
    name of each folder, in order. `error`: raised by calls for which `fails` is true.
    """

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.begun = threading.Semaphore(0)
        self.error: OSError | None = None
        self.fails: Callable[[str], bool] = lambda name: True
        self.synced: list[str] = []
        self.before: Callable[[], object] = lambda: None

    def fsync(self, file: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        self.before()
        self.synced.append(path.name if path.is_dir() else f"{path.parent.name}/{path.name}")
        if threading.current_thread() is not threading.main_thread():
            self.begun.release()
            assert self.free.wait(30)
        if self.error is not None and self.fails(self.synced[-1]):
            raise self.error

    def wait_begun(self) -> None:
        assert self.begun.acquire(timeout=30)

    def stall(self) -> None:
        """Delay calls from now on."""
        self.free.clear()
        while self.begun.acquire(blocking=False):
            pass
        self.synced.clear()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    made = Disk()
    monkeypatch.setattr(os, "fsync", made.fsync)
    yield made
    made.error = None
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
    disk.error = None
    disk.free.set()
    for cluster in clusters:
        cluster.close()


DURABLE = {"log.flush.interval.messages": 1}


def with_topic(cluster: EmbeddedCluster, **config: object) -> EmbeddedCluster:
    settings = {name.replace("_", "."): str(value) for name, value in config.items()}
    cluster.call(lambda: cluster.core.create_topic("t", partitions=1, replicas=1, config=settings))
    return cluster


def close(cluster: EmbeddedCluster) -> None:
    cluster.close()
    cluster.close = lambda **_: None  # type: ignore[method-assign]


def wire_to(cluster: EmbeddedCluster) -> Wire:
    return Wire(cluster.core.brokers[1].port, timeout_s=30)


def log_of(cluster: EmbeddedCluster) -> Any:
    return cluster.core.topics["t"].partitions[0].log


def segment(folder: str = "t-0") -> str:
    return f"{folder}/{0:020}.log"


METADATA = segment("__cluster_metadata-0")


def produce() -> ProduceRequest:
    part = PartitionProduceData(index=0, records=batch(1))
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(TopicProduceData(name="t", partition_data=(part,)),))


def produced(wire: Wire) -> Any:
    return wire.receive(ProduceRequest, 9).responses[0].partition_responses[0]


def nothing_came(wire: Wire) -> bool:
    wire.socket.setblocking(False)
    try:
        return not wire.socket.recv(1)
    except BlockingIOError:
        return True
    finally:
        wire.socket.settimeout(30)


def test_produce_responses_and_fetches_wait_for_the_flush(running: Callable[..., EmbeddedCluster], disk: Disk) -> None:
    cluster = with_topic(running(), flush_messages=1)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    waits = FetchRequest(max_wait_ms=30_000, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(part,)),))
    disk.stall()
    with wire_to(cluster) as producer, wire_to(cluster) as consumer:
        consumer.send(waits, 12)
        producer.send(produce(), 9)
        disk.wait_begun()
        assert nothing_came(producer)
        assert nothing_came(consumer)
        disk.free.set()
        assert (produced(producer).error_code, log_of(cluster).flushed_offset) == (ErrorCode.NONE, 1)
        assert consumer.receive(FetchRequest, 12).responses[0].partitions[0].records
    assert disk.synced == [segment(), "t-0"]


@pytest.mark.parametrize("fails", [segment(), "t-0"])
def test_records_that_cannot_be_flushed_are_rejected_and_removed(
    running: Callable[..., EmbeddedCluster], disk: Disk, fails: str
) -> None:
    cluster = with_topic(running(), flush_messages=1)
    log = log_of(cluster)
    disk.error, disk.fails = FAILED, lambda name: name == fails
    with wire_to(cluster) as producer:
        producer.send(produce(), 9)
        assert produced(producer).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert any("Input/output error" in note for note in cluster.core.notes)
        assert (log.next_offset, log.active.size, log.files.path(log.active).stat().st_size) == (0, 0, 0)
        disk.error = None
        disk.synced.clear()
        producer.send(produce(), 9)
        found = produced(producer)
        assert (found.error_code, found.base_offset) == (ErrorCode.NONE, 0)
        assert disk.synced == [segment(), "t-0"]  # the folder, too, which may not be on disk
    assert log.flushed_offset == 1
    kept = [one.data for one in log]
    close(cluster)
    with EmbeddedCluster(data=cluster.core.data.path) as again:  # type: ignore[union-attr]
        assert again.core.start_notes == ()
        assert [one.data for one in log_of(again)] == kept


def commit(offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(part,)),))


def test_commits_are_acknowledged_after_the_flush_and_have_no_effect_if_it_fails(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = with_topic(running(**DURABLE))
    cluster.call(lambda: cluster.core.internal_topic(CONSUMER_OFFSETS))

    def committed(wire: Wire) -> int:
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=None),))
        offset: int = wire.request(request, 8).groups[0].topics[0].partitions[0].committed_offset
        return offset

    with wire_to(cluster) as member:
        disk.stall()
        member.send(commit(7), 8)
        disk.wait_begun()
        assert nothing_came(member)
        disk.free.set()
        assert member.receive(OffsetCommitRequest, 8).topics[0].partitions[0].error_code == ErrorCode.NONE
        disk.error = FAILED
        response = member.request(commit(8), 8)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert committed(member) == 7
        cluster.call(cluster.core.groups.runtime.restart)
        assert committed(member) == 7


@pytest.fixture
def with_transaction(running: Callable[..., EmbeddedCluster], disk: Disk) -> tuple[EmbeddedCluster, EndTxnRequest]:
    """A cluster that flushes, with an open transaction in `t`, and the request that commits it."""
    cluster = with_topic(running(**DURABLE))

    def begin() -> tuple[int, int]:
        cluster.core.internal_topic(TRANSACTION_STATE)
        producer = cluster.core.transactions.init_producer_id("x", 60_000, -1, -1)
        cluster.core.transactions.add_partitions("x", *producer, [("t", 0)])
        return producer

    producer_id, epoch = cluster.call(begin)
    disk.synced.clear()
    return cluster, EndTxnRequest(transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=True)


def status(cluster: EmbeddedCluster) -> Status:
    found = cluster.call(lambda: cluster.core.transactions.find("x"))
    assert found is not None
    return found.status


def decisions(cluster: EmbeddedCluster) -> str:
    found = cluster.core.transactions.partition_for("x")
    assert found is not None
    return segment(f"{TRANSACTION_STATE}-{found.index}")


def test_a_commit_is_flushed_before_the_markers_and_these_before_its_completion(
    with_transaction: tuple[EmbeddedCluster, EndTxnRequest], disk: Disk
) -> None:
    cluster, commit_it = with_transaction
    ends: list[int] = []
    disk.before = lambda: ends.append(log_of(cluster).next_offset)
    with wire_to(cluster) as producer:
        assert producer.request(commit_it, 3).error_code == ErrorCode.NONE
    assert disk.synced == [decisions(cluster), segment(), "t-0", decisions(cluster)]
    assert ends == [0, 0, 0, 1]  # the marker takes effect after the flush
    assert (log_of(cluster).flushed_offset, status(cluster)) == (1, Status.COMPLETE_COMMIT)


def test_a_commit_that_cannot_be_flushed_is_rejected_and_the_transaction_stays_open(
    with_transaction: tuple[EmbeddedCluster, EndTxnRequest], disk: Disk
) -> None:
    cluster, commit_it = with_transaction
    disk.error = FAILED
    with wire_to(cluster) as producer:
        assert producer.request(commit_it, 3).error_code == ErrorCode.NOT_COORDINATOR
        assert (log_of(cluster).next_offset, status(cluster)) == (0, Status.ONGOING)
        disk.error = None
        assert producer.request(commit_it, 3).error_code == ErrorCode.NONE
    assert (log_of(cluster).flushed_offset, status(cluster)) == (1, Status.COMPLETE_COMMIT)


def test_markers_that_cannot_be_flushed_are_retried(
    with_transaction: tuple[EmbeddedCluster, EndTxnRequest], disk: Disk
) -> None:
    cluster, commit_it = with_transaction
    disk.error, disk.fails = FAILED, lambda name: name == segment()
    with wire_to(cluster) as producer:
        assert producer.request(commit_it, 3).error_code == ErrorCode.NONE
        assert status(cluster) is Status.PREPARE_COMMIT
        while disk.synced.count(segment()) < 3:
            assert producer.request(commit_it, 3).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        disk.error = None
        while producer.request(commit_it, 3).error_code != ErrorCode.NONE:
            pass
    assert (log_of(cluster).flushed_offset, status(cluster)) == (1, Status.COMPLETE_COMMIT)
    notes = [note for note in cluster.core.notes if note.startswith("markers of x")]
    assert len(notes) == 2
    assert notes[0].startswith("markers of x could not be written; retrying: ")
    assert notes[1] == "markers of x were written"


def test_an_added_partition_is_flushed_before_records_are_written(
    with_transaction: tuple[EmbeddedCluster, EndTxnRequest], disk: Disk
) -> None:
    cluster, producer = with_transaction

    def add() -> int:
        cluster.core.create_topic("u", partitions=1, replicas=1)
        cluster.core.transactions.add_partitions("x", producer.producer_id, producer.producer_epoch, [("u", 0)])
        found = cluster.core.transactions.partition_for("x")
        assert found is not None
        return found.log.next_offset - found.log.flushed_offset

    assert cluster.call(add) == 0


CREATE = CreateTopicsRequest(topics=(CreatableTopic(name="new", num_partitions=1, replication_factor=1),))
CONFIG = AlterConfigsRequest(
    resources=(
        AlterConfigsResource(
            resource_type=2, resource_name="t", configs=(AlterableConfig(name="retention.ms", value="7"),)
        ),
    )
)
FEATURE = UpdateFeaturesRequest(
    feature_updates=(FeatureUpdateKey(feature="streams.version", max_version_level=0, upgrade_type=2),)
)
PRODUCER_ID = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
ELECT = ElectLeadersRequest(
    election_type=0, topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),), timeout_ms=1000
)


def test_a_topic_exists_after_its_metadata_is_flushed(running: Callable[..., EmbeddedCluster], disk: Disk) -> None:
    cluster = running(**DURABLE)
    disk.stall()
    with wire_to(cluster) as admin:
        admin.send(CREATE, 7)
        disk.wait_begun()
        assert nothing_came(admin)
        disk.free.set()
        assert admin.receive(CreateTopicsRequest, 7).topics[0].error_code == ErrorCode.NONE
    assert METADATA in disk.synced


@pytest.mark.parametrize(
    ("request_", "version", "code_of", "code"),
    [
        (CREATE, 7, lambda found: found.topics[0], ErrorCode.KAFKA_STORAGE_ERROR),
        (CONFIG, 2, lambda found: found.responses[0], ErrorCode.KAFKA_STORAGE_ERROR),
        (FEATURE, 1, lambda found: found, ErrorCode.KAFKA_STORAGE_ERROR),
        (ELECT, 2, lambda found: found, ErrorCode.KAFKA_STORAGE_ERROR),
        (PRODUCER_ID, 4, lambda found: found, ErrorCode.NOT_COORDINATOR),
    ],
    ids=lambda one: type(one).__name__.removesuffix("Request"),
)
def test_metadata_changes_fail_while_they_cannot_be_flushed(
    running: Callable[..., EmbeddedCluster],
    disk: Disk,
    request_: Any,
    version: int,
    code_of: Callable[[Any], Any],
    code: ErrorCode,
) -> None:
    cluster = running(brokers=2, **DURABLE)
    core = cluster.core

    def lead() -> None:
        partition = core.create_topic("t", assignment=[[2, 1]]).partitions[0]
        partition.leader = 1

    cluster.call(lead)
    disk.error, disk.fails = FAILED, lambda name: name == METADATA
    with wire_to(cluster) as admin:
        found = code_of(admin.request(request_, version))
        assert found.error_code == code
        assert "the cluster's metadata could not be written" in core.notes[-1]
        assert "new" not in core.topics
        disk.error = None
        assert code_of(admin.request(request_, version)).error_code == ErrorCode.NONE


def after_power_failure(copy: Path, size: int) -> ClusterCore:
    """Start a cluster from a copy of a directory, with `size` bytes of the metadata log."""
    os.truncate(copy / "controller" / "__cluster_metadata-0" / f"{0:020}.log", size)
    (copy / ".lock").write_text("the machine has started again since")
    return ClusterCore({1: None, 2: None}, data=copy, properties=QUICK)


@pytest.mark.parametrize("change", ["delete", "reassign"])
def test_folders_of_deleted_partitions_remain_until_the_deletion_is_flushed(
    running: Callable[..., EmbeddedCluster], disk: Disk, tmp_path: Path, change: str
) -> None:
    """After a power failure in between, the start failed, or the topic had lost its records."""
    cluster = running(brokers=2, **DURABLE)
    core = cluster.core
    cluster.call(lambda: core.create_topic("t", assignment=[[1]]))
    cluster.call(lambda: log_of(cluster).append(batch(3), leader_epoch=0, now_ms=NOW_MS))
    assert core.data is not None
    noted = list(core.notes)
    size = core.data.metadata.log.size_bytes
    copy = tmp_path.with_name(f"{tmp_path.name}-copy")
    disk.synced.clear()
    disk.before = lambda: None if disk.synced else shutil.copytree(tmp_path, copy)
    changes = {
        "delete": lambda: core.delete_topic("t"),
        "reassign": lambda: core.reassign(core.topics["t"].partitions[0], [2]),
    }
    cluster.call(changes[change])
    assert disk.synced[0] == METADATA
    assert not (tmp_path / "broker-1" / "t-0").exists()
    assert core.notes == noted
    again = after_power_failure(copy, size)
    assert again.topics["t"].partitions[0].replicas == (1,)
    assert again.topics["t"].partitions[0].log.next_offset == 3
    again.close()


def test_the_log_start_offset_is_flushed_before_records_are_deleted(
    running: Callable[..., EmbeddedCluster], disk: Disk
) -> None:
    cluster = with_topic(running(**DURABLE))
    cluster.call(lambda: log_of(cluster).append(batch(3), leader_epoch=0, now_ms=NOW_MS))
    part = DeleteRecordsPartition(partition_index=0, offset=2)
    deletion = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(part,)),), timeout_ms=1000)
    with wire_to(cluster) as admin:
        disk.error = FAILED
        (found,) = admin.request(deletion, 2).topics[0].partitions
        assert (found.error_code, log_of(cluster).start_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
        disk.error = None
        disk.stall()
        admin.send(deletion, 2)
        disk.wait_begun()
        assert nothing_came(admin)
        disk.free.set()
        (found,) = admin.receive(DeleteRecordsRequest, 2).topics[0].partitions
    assert (found.error_code, found.low_watermark) == (ErrorCode.NONE, 2)
    assert disk.synced == ["broker-1/log-start-offset-checkpoint.tmp", "broker-1"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_compacted_segment_is_flushed_before_it_replaces_the_old_one(tmp_path: Path, disk: Disk, fails: bool) -> None:
    config = LogConfig(segment_bytes=1000, compact=True, delete=False)
    with Folder(tmp_path).opened(config) as log:
        for number in range(12):
            keyed = BatchRecord(offset=0, timestamp_ms=NOW_MS, key=b"%d" % (number % 2 * number), value=b"v" * 100)
            log.append(encode_batch([keyed]), leader_epoch=0, now_ms=NOW_MS)
        before = [one.data for one in log]
        sizes: list[int] = []
        disk.before = lambda: sizes.append(log.size_bytes)
        if fails:
            disk.error, disk.fails = FAILED, lambda name: name.endswith(".log.cleaned")
            with pytest.raises(OSError, match="Input/output error"):
                list(clean(log, now_ms=NOW_MS))
            assert [one.data for one in log] == before
            assert not list((tmp_path / "broker-0" / "t-0").glob("*.cleaned"))
        else:
            size = log.size_bytes
            list(clean(log, now_ms=NOW_MS))
            assert log.size_bytes < size
            # The checksums first, which no longer include the segment's.
            assert disk.synced[:3] == [f"t-0/{CHECKSUMS}", "t-0", f"{segment()}.cleaned"]
            assert sizes[:3] == [size] * 3


def test_a_metadata_snapshot_is_flushed_before_it_replaces_the_log(
    running: Callable[..., EmbeddedCluster], disk: Disk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("quorate.cluster.storage.metadata._MIN_COMPACT_BYTES", 4000)
    cluster = with_topic(running())
    core = cluster.core
    assert core.data is not None
    metadata = core.data.metadata
    sizes: list[int] = []
    disk.before = lambda: sizes.append(metadata.log.size_bytes)

    def change(to: int) -> int:
        core.change_configs(ConfigResourceType.TOPIC, "t", {"retention.ms": str(to)})
        return metadata.log.next_offset

    ends = []
    while not sizes:
        ends.append(cluster.call(lambda: change(len(ends))))
        assert len(ends) < 500
    assert disk.synced == ["__cluster_metadata-0/compacted.tmp"]
    assert metadata.log.size_bytes < sizes[0]
    assert ends == sorted(ends)
    close(cluster)
    with EmbeddedCluster(data=tmp_path) as again:
        assert again.core.topics["t"].config == {"retention.ms": str(len(ends) - 1)}


def test_a_stopped_cluster_has_flushed_everything(running: Callable[..., EmbeddedCluster], disk: Disk) -> None:
    cluster = with_topic(running())
    log = log_of(cluster)
    with wire_to(cluster) as producer:
        producer.send(produce(), 9)
        assert produced(producer).error_code == ErrorCode.NONE
    assert not disk.synced
    close(cluster)
    assert {segment(), "t-0", METADATA} <= set(disk.synced)
    assert log.flushed_offset == log.next_offset == 1

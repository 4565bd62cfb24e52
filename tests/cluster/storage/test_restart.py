"""Restarts after a stop or a crash: what clients see, and what Kafka's tools read."""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer

from quorate.cluster import ClusterError, EmbeddedCluster, ManualClock
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.cluster.core import ClusterCore
from quorate.codecs import read_log
from quorate.codecs.batches import Batch, BatchRecord, read_batches
from quorate.codecs.configs import ConfigResourceType
from quorate.codecs.message import CONSUMER_OFFSETS, TRANSACTION_STATE
from quorate.coordinator import GroupCoordinatorShard, PartitionRuntime
from quorate.coordinator.log import ColumnarLog
from tests.broker.broker import tools
from tests.broker.fixtures import need_broker
from tests.cluster.conftest import QUICK
from tests.cluster.test_clients import VALUES, fill, read
from tests.cluster.test_file_log import commit
from tests.cluster.test_log import batch
from tests.codecs.test_captures import dump_batch_line, dump_record_line
from tests.coordinator.snapshots import snapshot

DUMP = [
    *tools("-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
    "org.apache.kafka.tools.DumpLogSegments",
]


def running(data: Path, **options: object) -> EmbeddedCluster:
    return EmbeddedCluster(brokers=3, racks=["a", "b", "c"], properties=QUICK, data=data, seed=1, **options)  # type: ignore[arg-type]


def quiet_core(data: Path | None, clock: ManualClock, **properties: object) -> ClusterCore:
    """Create a cluster without sockets, whose brokers are registered."""
    core = ClusterCore({1: "a", 2: "b"}, data=data, clock=clock, seed=1, properties={**QUICK, **properties})
    for broker in core.brokers.values():
        broker.serving = True
    core.started()
    return core


def consumer(cluster: EmbeddedCluster, protocol: str) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"group-{protocol}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": protocol,
        }
    )
    made.subscribe(["orders"])
    return made


def write_transactions(cluster: EmbeddedCluster) -> Producer:
    """Write one that commits, one that aborts, and one that stays open."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(20)
    for value, end in (
        (b"committed", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
        (b"open", None),
    ):
        producer.begin_transaction()
        producer.produce("payments", value, key=b"k")
        producer.flush(300)
        if end is not None:
            end(20)
    return producer


def test_clients_resume_after_a_stop_and_after_a_crash(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as cluster:
        cluster.call(lambda: cluster.core.create_topic("orders", partitions=6, replicas=3))
        cluster.call(lambda: cluster.core.create_topic("payments", partitions=1, replicas=2))
        fill(cluster, "orders")
        for protocol in ("classic", "consumer"):
            member = consumer(cluster, protocol)
            assert sorted(read(member, len(VALUES))) == sorted(VALUES)
            member.commit(asynchronous=False)
            member.close()
        fill(cluster, "orders")
        producer = write_transactions(cluster)
        cluster_id, topic_id = cluster.core.cluster_id, cluster.core.topics["orders"].id
        crashed = tmp_path / "crashed"
        cluster.call(lambda: shutil.copytree(data, crashed))  # the files after a kill
        del producer
    for directory in (data, crashed):
        with running(directory) as again:
            core = again.core
            assert (core.cluster_id, core.topics["orders"].id) == (cluster_id, topic_id)
            for protocol in ("classic", "consumer"):
                member = consumer(again, protocol)
                assert sorted(read(member, len(VALUES))) == sorted(VALUES)  # those after the committed offsets
                member.close()
            assert (
                core.topics["payments"].partitions[0].log.last_stable_offset == 4
            )  # the start of the open transaction
            producer = Producer({"bootstrap.servers": again.bootstrap_servers, "transactional.id": "t"})
            producer.init_transactions(20)  # aborts it
            log = core.topics["payments"].partitions[0].log
            assert log.last_stable_offset == log.next_offset == 6
            assert len(log.producers.aborted) == 2
            fresh = Producer({"bootstrap.servers": again.bootstrap_servers, "enable.idempotence": True})
            fresh.produce("payments", b"later")
            assert fresh.flush(300) == 0
            assert not core.failures
        assert core.state.next_producer_id > 1000  # no producer id is allocated twice


def test_metadata_survives_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    core.create_topic("a", partitions=3, replicas=2, config={"retention.ms": "5000"})
    core.create_topic("gone", partitions=2)
    core.delete_topic("gone")
    core.add_partitions("a", 4)
    core.change_configs(ConfigResourceType.GROUP, "g", {"consumer.session.timeout.ms": "50000"})
    core.change_configs(ConfigResourceType.TOPIC, "a", {"segment.ms": "7000"})
    partition = core.topics["a"].partitions[0]
    core.reassign(partition, [partition.replicas[1]])
    ids = [core.transactions.new_producer_id() for _ in range(1001)]
    before = {one.index: (one.replicas, one.leader_epoch) for one in core.topics["a"].partitions}
    core.close()

    again = quiet_core(tmp_path, clock)
    assert again.cluster_id == core.cluster_id
    assert list(again.topics) == ["a"]
    topic = again.topics["a"]
    assert (topic.id, topic.config, again.topics_by_id[topic.id]) == (
        core.topics["a"].id,
        {"segment.ms": "7000"},
        topic,
    )
    assert {one.index: (one.replicas, one.leader_epoch - 1) for one in topic.partitions} == before
    assert topic.partitions[0].log.config.segment_ms == 7000
    assert again.groups.configs["g"] == {"group_consumer_session_timeout_ms": 50_000}
    assert again.transactions.new_producer_id() not in ids
    assert not list(tmp_path.glob("*/gone-*"))
    folders = {path.parent.name for path in tmp_path.glob("*/a-0")}
    assert folders == {f"broker-{topic.partitions[0].replicas[0]}"}
    again.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_power_failure_at_any_byte_of_the_metadata_log_leaves_a_change_complete_or_absent(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    states = [{}]
    for number in range(6):
        core.create_topic(f"t{number}", partitions=1 + number % 3, config={"retention.ms": str(number)})
        states.append({topic.name: len(topic.partitions) for topic in core.topics.values()})
        if number % 2:
            core.delete_topic(f"t{number - 1}")
            states.append({topic.name: len(topic.partitions) for topic in core.topics.values()})
    assert core.data is not None
    core.data.release()
    path = tmp_path / "controller" / "__cluster_metadata-0" / f"{0:020}.log"
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content) // 4, len(content))])
    (tmp_path / ".lock").write_text("the machine has started again since")
    again = quiet_core(tmp_path, clock)
    found = {topic.name: len(topic.partitions) for topic in again.topics.values()}
    assert found in states, f"seed {seed}"
    there = {path.name for path in tmp_path.glob("broker-*/t*") if not path.name.endswith("-stray")}
    left = there - {f"{name}-{index}" for name, count in found.items() for index in range(count)}
    assert all(any(f"/{name} belongs to no partition" in text for text in again.start_notes) for name in left)
    again.close()


def test_files_move_with_reassigned_replicas(tmp_path: Path) -> None:
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    partition = core.create_topic("a", partitions=1, replicas=1).partitions[0]
    partition.log.append(batch(3), leader_epoch=0, now_ms=clock.now_ms())
    for brokers in ([1, 2], [2], [1], [2, 1]):
        core.reassign(partition, brokers)
        partition.log.append(batch(2), leader_epoch=0, now_ms=clock.now_ms())
        assert {int(path.parent.name[-1]) for path in tmp_path.glob("broker-*/a-0")} == set(brokers)
    content = [one.data for one in partition.log]
    assert core.data is not None
    core.data.release()
    again = quiet_core(tmp_path, clock)
    assert [one.data for one in again.topics["a"].partitions[0].log] == content
    assert partition.log.next_offset == 11


def test_a_deleted_internal_topic_is_recreated_empty(tmp_path: Path) -> None:
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    core.internal_topic(TRANSACTION_STATE)
    core.create_topic("a", partitions=1)
    producer_id, epoch = core.transactions.init_producer_id("t", 60_000, -1, -1)
    core.transactions.add_partitions("t", producer_id, epoch, [("a", 0)])
    core.delete_topic(TRANSACTION_STATE)
    clock.advance(120_000)
    assert core.notes == []
    core.internal_topic(TRANSACTION_STATE)
    assert core.transactions.find("t") is None
    assert core.transactions.init_producer_id("t", 60_000, -1, -1) == (producer_id + 1, 0)


def test_a_closed_cluster_cannot_be_started_again(tmp_path: Path) -> None:
    cluster = running(tmp_path)
    with cluster:
        pass
    with pytest.raises(ClusterError, match="was closed; create another one with this directory"):
        cluster.__enter__()
    with running(tmp_path):
        pass


def test_a_large_metadata_log_is_replaced_by_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.cluster.storage.metadata._MIN_COMPACT_BYTES", 1000)
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    topic = core.create_topic("a", partitions=2)
    for number in range(300):
        core.change_configs(ConfigResourceType.TOPIC, "a", {"retention.ms": str(number)})
    core.close()
    (path,) = (tmp_path / "controller" / "__cluster_metadata-0").glob("*.log")
    assert 0 < path.stat().st_size < 9_000  # 300 changes of some 90 bytes each are 27,000
    again = quiet_core(tmp_path, clock)
    assert again.topics["a"].config == {"retention.ms": "299"}
    again.close()
    assert quiet_core(tmp_path, clock).topics["a"].id == topic.id


def test_large_offsets_logs_load_the_same_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    partition = core.internal_topic(CONSUMER_OFFSETS).partitions[0]
    monkeypatch.setattr(PartitionCoordinatorLog, "min_columns_bytes", 1)
    log = PartitionCoordinatorLog(partition)
    for number in range(50):
        log.append([commit(number, group=f"g{number % 7}")], timestamp_ms=clock.now_ms())
        if number == 20:
            partition.log.roll(clock.now_ms())
    log.append([commit(99, group="g1")], timestamp_ms=clock.now_ms(), producer_id=5, producer_epoch=0)
    log.append_marker(5, 0, commit=True, timestamp_ms=clock.now_ms())
    assert isinstance(log, ColumnarLog)
    assert log.blocks() is not None
    found = []
    for least in (1, 1 << 30):
        monkeypatch.setattr(PartitionCoordinatorLog, "min_columns_bytes", least)
        shard = GroupCoordinatorShard(new_id=uuid4)
        PartitionRuntime(shard, PartitionCoordinatorLog(partition), now_ms=clock.now_ms()).load()
        found.append(snapshot(shard.state))
        committed = shard.state.offsets.get("g1", "t", 0)
        assert committed is not None
        assert committed.value.offset == 99
    assert found[0] == found[1]


SERVE = """
import sys
from quorate.cluster import EmbeddedCluster
with EmbeddedCluster(data=sys.argv[1]) as kafka:
    print(kafka.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


def test_acknowledged_records_survive_a_killed_process(tmp_path: Path) -> None:
    acknowledged: set[bytes] = set()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SERVE, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "message.timeout.ms": 1000})

        def reported(error: object, message: Message) -> None:
            if error is None:
                acknowledged.add(message.value() or b"")

        number = 0
        while len(acknowledged) < 3000:
            producer.produce("orders", str(number).encode(), on_delivery=reported)
            producer.poll(0.01 if number - len(acknowledged) > 500 else 0)
            number += 1
        process.kill()
        producer.flush(0.5)
        producer.purge()
    with EmbeddedCluster(data=tmp_path) as again:
        log = again.core.topics["orders"].partitions[0].log
        values = [
            record.value for batch in read_batches(b"".join(one.data for one in log)) for record in batch.records()
        ]  # type: ignore[union-attr]
        assert acknowledged <= set(values)
        assert len(values) == len(set(values)) <= number


# ---- Kafka's tool


def dumped(paths: Iterable[Path], *options: str) -> list[str]:
    """Return the output of `kafka-dump-log.sh`.

    It always exits with 0, and prints errors.
    """
    command = [*DUMP, *options, "--files", ",".join(map(str, sorted(paths)))]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Exception" not in done.stderr
    return done.stdout.splitlines()


def lines_of(paths: Iterable[Path], topic: str) -> list[str]:
    """Return the lines that it prints of batches and records, from our own reader."""
    lines = []
    for path in sorted(paths):
        for one in read_batches(path.read_bytes()):
            assert isinstance(one, Batch)
            lines.append(dump_batch_line(one.header))
            lines += [
                dump_record_line(topic, one.header, record)
                for record in one.records()
                if isinstance(record, BatchRecord)
            ]
    return lines


@pytest.mark.oracle
def test_kafkas_tool_reads_every_file_of_the_directory(tmp_path: Path) -> None:
    need_broker()
    with running(tmp_path) as cluster:
        small = {"segment.bytes": "20000", "index.interval.bytes": "1000"}
        cluster.call(lambda: cluster.core.create_topic("orders", partitions=2, replicas=3, config=small))
        cluster.call(lambda: cluster.core.create_topic("payments", partitions=1, replicas=2))
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.num.messages": 10})
        sent = [f"{number}-{'x' * (number % 150)}" for number in range(1200)]
        for place, value in enumerate(sent):
            producer.produce("orders", value, partition=place % 2, key=str(place))
        assert producer.flush(300) == 0
        member = consumer(cluster, "consumer")
        assert len(read(member, len(sent))) == len(sent)
        member.commit(asynchronous=False)
        member.close()
        write_transactions(cluster)
    broker = next(one.parent for one in tmp_path.glob("broker-*/payments-0"))
    indexes = [*broker.glob("*/*.index"), *broker.glob("*/*.timeindex")]
    assert len(list(broker.glob("orders-0/*.index"))) > 2
    checked = dumped(indexes, "--index-sanity-check")
    assert sum("passed sanity check" in line or line.endswith("is empty.") for line in checked) == len(indexes)
    everything = dumped([*indexes, *broker.glob("*/*.txnindex"), *broker.glob("*/*.snapshot")])
    assert not [line for line in everything if "mismatch" in line.lower() or "out of order" in line.lower()]
    assert any(line.startswith("version: 0 producerId:") for line in everything)

    printed = dumped(broker.glob("orders-*/*.log"), "--print-data-log")
    payloads = {line.rpartition("payload: ")[2] for line in printed if line.startswith("| offset")}
    assert payloads == set(sent)
    assert all("isvalid: true" in line for line in printed if line.startswith("baseOffset"))
    for topic, decoder in (
        ("__consumer_offsets", "--offsets-decoder"),
        ("__transaction_state", "--transaction-log-decoder"),
    ):
        logs = list(broker.glob(f"{topic}-*/*.log"))
        found = [one for one in dumped(logs, decoder) if one.startswith(("baseOffset: ", "| offset: "))]
        assert sorted(found) == sorted(lines_of(logs, topic))
        assert len(found) > 4
    metadata = dumped(tmp_path.glob("controller/__cluster_metadata-0/*.log"), "--cluster-metadata-decoder")
    kinds = {
        kind
        for kind in ("TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "REGISTER_BROKER_RECORD")
        if any(kind in line for line in metadata)
    }
    assert len(kinds) == 4
    assert not [line for line in metadata if "Error" in line or "Could not" in line]
    groups = {
        getattr(entry.record.key, "group", None) or entry.record.key.group_id
        for entry in read_log(broker, topic="__consumer_offsets")
    }  # type: ignore[union-attr]
    assert groups == {"group-consumer"}

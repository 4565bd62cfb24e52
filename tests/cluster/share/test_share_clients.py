"""Share consumers of librdkafka and of Kafka on an embedded cluster."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer

from quorate.cluster import EmbeddedCluster
from quorate.cluster.waiting import wait_for
from quorate.coordinator.results import Pending
from tests.broker.broker import missing_tools, tools
from tests.broker.fixtures import need_broker
from tests.cluster.share.members import initialize

QUICK = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.record.lock.duration.ms": 1_000,
}
COUNT = 60


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, properties=QUICK, seed=1) as made:
        core = made.core
        made.call(lambda: core.change_features({**core.features, "share.version": 1}))
        made.call(lambda: core.create_topic("t", partitions=2, replicas=2))
        yield made


def configure(cluster: EmbeddedCluster, group: str, **configs: Any) -> None:
    """Prepare a group that reads from the beginning."""
    core = cluster.core

    def change() -> Pending[Any]:
        given = {name.replace("_", "."): str(value) for name, value in configs.items()}
        core.state.group_configs[group] = {"share.auto.offset.reset": "earliest", **given}
        core.share_configs.changed()
        return initialize(core, group)

    pending = cluster.call(change)
    wait_for("the share state is initialized", lambda: pending.done, 60_000)


def produce(cluster: EmbeddedCluster, count: int = COUNT) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    for number in range(count):
        producer.produce("t", value=b"%d" % number, partition=number % 2)
    assert producer.flush(60) == 0


class Consuming:
    """A share consumer of librdkafka, and what it received: value → how often."""

    def __init__(self, cluster: EmbeddedCluster, group: str, **config: Any) -> None:
        given = {name.replace("_", "."): value for name, value in config.items()}
        self.consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, **given})
        self.consumer.subscribe(["t"])
        self.received: Counter[int] = Counter()

    def poll(self, timeout_s: float = 0.5) -> list[Any]:
        found = list(self.consumer.poll(timeout=timeout_s))
        for one in found:
            assert one.error() is None, one.error()
            self.received[int(one.value())] += 1
        return found

    def poll_until(self, enough: int, limit_s: float = 60) -> None:
        until = time.monotonic() + limit_s
        while sum(self.received.values()) < enough:
            assert time.monotonic() < until, self.received
            self.poll()


def test_librdkafka_receives_each_accepted_record_once(cluster: EmbeddedCluster) -> None:
    configure(cluster, "g")
    produce(cluster)
    first = Consuming(cluster, "g")
    first.poll_until(COUNT)
    first.consumer.commit_sync(timeout=10)
    first.consumer.close()
    second = Consuming(cluster, "g")
    produce(cluster, 4)
    second.poll_until(4)
    second.consumer.close()
    assert first.received == Counter(range(COUNT))
    assert second.received == Counter(range(4))


def test_librdkafka_receives_released_records_until_the_delivery_limit(cluster: EmbeddedCluster) -> None:
    configure(cluster, "g", share_delivery_count_limit=3)
    produce(cluster, 4)
    member = Consuming(cluster, "g", share_acknowledgement_mode="explicit")
    until = time.monotonic() + 60
    while member.received != Counter({0: 1, 1: 3, 2: 1, 3: 3}) and time.monotonic() < until:
        for one in member.poll():
            kind = AcknowledgeType.RELEASE if int(one.value()) % 2 else AcknowledgeType.ACCEPT
            member.consumer.acknowledge(one, kind)
    for one in (*member.poll(1), *member.poll(1)):
        pytest.fail(f"{one.value()!r} was delivered again")
    member.consumer.close()
    assert member.received == Counter({0: 1, 1: 3, 2: 1, 3: 3})


def test_two_members_share_the_records(cluster: EmbeddedCluster) -> None:
    configure(cluster, "g")
    members = [Consuming(cluster, "g"), Consuming(cluster, "g")]
    for member in members:
        member.poll(1)
    produce(cluster)
    until = time.monotonic() + 60
    while sum(sum(member.received.values()) for member in members) < COUNT and time.monotonic() < until:
        for member in members:
            member.poll(0.2)
    for member in members:
        member.consumer.close()
    assert members[0].received + members[1].received == Counter(range(COUNT))


def test_kafkas_verifiable_share_consumers_read_and_acknowledge_each_record_once(cluster: EmbeddedCluster) -> None:
    need_broker()
    if (reason := missing_tools()) is not None:
        pytest.skip(reason)
    for group in ("auto", "sync", "async"):
        configure(cluster, group)
    produce(cluster)

    def consume(mode: str) -> list[dict[str, Any]]:
        options = ("--topic", "t", "--group-id", mode, "--max-messages", str(COUNT), "--acknowledgement-mode", mode)
        at = ("--bootstrap-server", cluster.bootstrap_servers)
        command = [*tools("-Xmx128m"), "org.apache.kafka.tools.VerifiableShareConsumer", *at, *options]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stderr[-2000:]
        return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]

    with ThreadPoolExecutor() as pool:
        for mode, events in zip(("auto", "sync", "async"), pool.map(consume, ("auto", "sync", "async")), strict=True):
            read = [
                (part["partition"], offset)
                for one in events
                if one["name"] == "records_consumed"
                for part in one["partitions"]
                for offset in part["offsets"]
            ]
            assert sorted(read) == [(partition, offset) for partition in (0, 1) for offset in range(COUNT // 2)], mode
            acknowledged = [one for one in events if one["name"] == "offsets_acknowledged"]
            assert all(one["success"] for one in acknowledged)
            assert sum(one["count"] for one in acknowledged) == COUNT, mode

"""Kafka's verifiable share consumer on an embedded cluster.

tests/integration/test_share_groups.py has scenarios with librdkafka's, also on real brokers.
"""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer

from quorate.cluster import EmbeddedCluster
from tests.broker.broker import missing_tools, tools
from tests.broker.fixtures import need_broker
from tests.cluster.share.group_configs import configure

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
        made.call(lambda: core.create_topic("t", partitions=2, replicas=2))
        yield made


def produce(cluster: EmbeddedCluster, count: int = COUNT) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    for number in range(count):
        producer.produce("t", value=b"%d" % number, partition=number % 2)
    assert producer.flush(60) == 0


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

"""Unmodified clients: they produce, consume in groups of both protocols, and use transactions."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from quorate.cluster import EmbeddedCluster
from quorate.cluster.waiting import wait_for

VALUES = [str(number).encode() for number in range(100)]


def create(cluster: EmbeddedCluster, topic: str, partitions: int = 6) -> None:
    cluster.call(lambda: cluster.core.create_topic(topic, partitions=partitions, replicas=3))


def fill(cluster: EmbeddedCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(300) == 0


def read(consumer: Any, count: int, timeout_s: float = 300) -> list[bytes]:
    found: list[bytes] = []
    until = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < until:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None
            found.append(message.value())
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_consumes_in_a_group_and_resumes_at_its_offsets(cluster: EmbeddedCluster, protocol: str) -> None:
    create(cluster, "orders")
    fill(cluster, "orders")
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "group.protocol": protocol,
    }
    for expected in (VALUES, []):
        consumer = Consumer(config)
        consumer.subscribe(["orders"])
        assert sorted(read(consumer, len(expected), 20 if expected else 1.5)) == sorted(expected)
        if expected:
            consumer.commit(asynchronous=False)
        consumer.close()


def test_kafka_python_produces_consumes_and_administers(cluster: EmbeddedCluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    admin.create_topics({"orders": {"num_partitions": 6, "replication_factor": 3}})
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    for value in VALUES:
        producer.send("orders", value)
    producer.flush()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        consumer_timeout_ms=300_000,
    )
    assert sorted(next(consumer).value for _ in VALUES) == sorted(VALUES)
    consumer.commit()
    consumer.close()
    assert [(group["group_id"], group["group_type"]) for group in admin.list_groups()] == [("g", "classic")]
    producer.close()
    admin.close()


def test_records_of_a_transaction_are_visible_after_a_commit_and_never_after_an_abort(cluster: EmbeddedCluster) -> None:
    create(cluster, "orders", partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(20)
    for value, commit in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce("orders", value)
        producer.flush(300)
        (producer.commit_transaction if commit else producer.abort_transaction)(20)
    seen = {}
    for level in ("read_committed", "read_uncommitted"):
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": level,
                "auto.offset.reset": "earliest",
                "isolation.level": level,
            }
        )
        consumer.subscribe(["orders"])
        seen[level] = read(consumer, 2, 4)
        consumer.close()
    assert seen == {"read_committed": [b"committed"], "read_uncommitted": [b"aborted", b"committed"]}


def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: EmbeddedCluster) -> None:
    create(cluster, "orders")
    fill(cluster, "orders")
    cluster.call(lambda: setattr(cluster.faults, "recording", True))
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "client.rack": "b",
            "client.id": "in-b",
        }
    )
    consumer.subscribe(["orders"])
    assert sorted(read(consumer, 100)) == sorted(VALUES)
    (in_rack_b,) = (broker.id for broker in cluster.core.brokers.values() if broker.rack == "b")

    def fetched() -> list[int]:
        return [one.broker for one in cluster.faults.seen if one.api == "Fetch" and one.client_id == "in-b"]

    wait_for("it fetches in its rack", lambda: not consumer.poll(0.1) and set(fetched()[-6:]) == {in_rack_b}, 300_000)
    fill(cluster, "orders")
    assert sorted(read(consumer, 100)) == sorted(VALUES)
    consumer.close()
    assert set(fetched()) == {1, 2, 3}  # leaders return the preferred read replica
    assert set(fetched()[-3:]) == {in_rack_b}

"""A hundred consumers in ten groups, next to real clients, with failures of all kinds.

`make test-full` has two hundred for longer, and `bench/cluster_load.py` runs the same for minutes.
"""

import asyncio
import threading
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer
from kafka.errors import KafkaError

from quorate.cluster import EmbeddedCluster
from tests.cluster.helpers.load import PROPERTIES, TOPIC, Broken, Ledger, Load
from tests.extent import is_full

SECONDS = 8 if is_full() else 5


class RealClients:
    """Consumers of librdkafka and kafka-python in threads, in groups of their own."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.stop = threading.Event()
        self.read: dict[str, set[tuple[int, int]]] = {"librdkafka": set(), "kafka-python": set()}
        self._threads = [threading.Thread(target=one) for one in (self._librdkafka, self._kafka_python)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _librdkafka(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "librdkafka",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([TOPIC])
        while not self.stop.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.read["librdkafka"].add((message.partition(), message.offset()))
        consumer.close()

    def _kafka_python(self) -> None:
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self.servers,
            group_id="kafka-python",
            auto_offset_reset="earliest",
            reconnect_backoff_ms=50,
            metadata_max_age_ms=1_000,
        )
        # kafka-python 3.0.12 joins again if it learns of partitions later, and never gets its
        # assignment if `poll` times out before the response to SyncGroup.
        known = None
        while not known and not self.stop.is_set():
            with suppress(KafkaError):
                known = consumer.partitions_for_topic(TOPIC)
        while not self.stop.is_set():
            try:
                polled = consumer.poll(200)
            except KafkaError:  # reported by the client; the next poll continues
                self.stop.wait(0.1)
                continue
            for records in polled.values():
                self.read["kafka-python"] |= {(record.partition, record.offset) for record in records}
        consumer.close(autocommit=False)


def test_every_record_is_processed_no_partition_has_two_owners_and_offsets_never_decrease() -> None:
    seed = 8
    with EmbeddedCluster(brokers=3, racks=["a", "b", "c"], properties=PROPERTIES, seed=seed) as cluster:
        load = Load(cluster, groups=10, members=20 if is_full() else 10, partitions=12, seed=seed)
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 5}
        )
        clients = RealClients(cluster.bootstrap_servers)
        sent = 0

        async def produce() -> None:
            nonlocal sent
            for _ in range(20):
                producer.produce(TOPIC, str(sent).encode(), key=str(sent).encode())
                sent += 1
            producer.poll(0)
            await asyncio.sleep(0.2)

        async def run() -> None:
            await load.run(SECONDS, produce)

        try:
            asyncio.run(run())
            assert producer.flush(300) == 0
            ends = {partition.index: partition.log.next_offset for partition in load.partitions}
            everything = {(index, offset) for index, end in ends.items() for offset in range(end)}
            for _ in range(1500):
                if all(found >= everything for found in clients.read.values()):
                    break
                threading.Event().wait(0.2)
        finally:
            clients.close()
        assert {name: len(everything - found) for name, found in clients.read.items()} == dict.fromkeys(clients.read, 0)
        assert sum(ends.values()) == sent  # an idempotent producer writes each record once
        assert {"kill", "leave", "rack", "cut", "broker"} == load.troubles.keys()
        assert cluster.core.failures == []


def test_the_ledger_detects_two_owners_and_decreasing_offsets() -> None:
    ledger = Ledger()
    ledger.takes("g", 0, "m")
    ledger.commits("g", 0, 5)
    with pytest.raises(Broken, match="still m's"):
        ledger.takes("g", 0, "n")
    with pytest.raises(Broken, match="back to 4"):
        ledger.finds("g", 0, 4)

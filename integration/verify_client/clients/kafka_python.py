"""kafka-python's consumer and producer, and quorate's consumer on it."""

import time
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from quorate.consumers import kafka_python as consumer_protocol
from quorate.integration.verify_client.clients.environment import (
    COMMIT_MS,
    HEARTBEAT_MS,
    RECORDS_EVERY_S,
    SESSION_MS,
    ClientEnvironment,
    Stopping,
    run_action,
)


class _Slow(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, environment: ClientEnvironment) -> None:
        self._environment = environment

    def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            self._environment.called_back()

    def on_partitions_assigned(self, assigned: Any) -> None:
        pass


def _consume(environment: ClientEnvironment, stopping: Stopping, kind: Any = KafkaConsumer, **config: Any) -> None:
    consumer = kind(
        bootstrap_servers=environment.bootstrap,
        group_id=environment.group,
        client_id=environment.client_id,
        client_rack=environment.rack,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=COMMIT_MS,
        **config,
    )
    consumer.subscribe([environment.topic], listener=_Slow(environment))
    while not stopping:
        consumer.poll(timeout_ms=200)
    consumer.close()


def _consume_classic(environment: ClientEnvironment, stopping: Stopping) -> None:
    _consume(environment, stopping, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS)


def _consume_consumer(environment: ClientEnvironment, stopping: Stopping) -> None:
    _consume(environment, stopping, consumer_protocol.KafkaConsumer, group_protocol="consumer")


def _produce(environment: ClientEnvironment, stopping: Stopping) -> None:
    producer = KafkaProducer(bootstrap_servers=environment.bootstrap, client_id=environment.client_id, acks="all")
    while not stopping:
        producer.send(environment.topic, b"a record")
        time.sleep(RECORDS_EVERY_S)
    producer.close(timeout=10)


def _transact(environment: ClientEnvironment, stopping: Stopping) -> None:
    producer = KafkaProducer(
        bootstrap_servers=environment.bootstrap,
        client_id=environment.client_id,
        transactional_id=environment.transactional_id,
    )
    producer.init_transactions()
    while not stopping:
        producer.begin_transaction()
        try:
            for _ in range(5):
                producer.send(environment.topic, b"a record")
            producer.commit_transaction()
        except KafkaError as error:
            if not getattr(error, "retriable", False) and "Fenced" in type(error).__name__:
                break
            producer.abort_transaction()
    producer.close(timeout=10)


if __name__ == "__main__":
    run_action(
        {
            "consume": _consume_classic,
            "consume-consumer": _consume_consumer,
            "produce": _produce,
            "transact": _transact,
        }
    )

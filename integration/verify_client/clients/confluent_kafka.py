"""confluent-kafka's (librdkafka's) consumer and producer."""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from quorate.integration.verify_client.clients.environment import (
    COMMIT_MS,
    HEARTBEAT_MS,
    RECORDS_EVERY_S,
    SESSION_MS,
    ClientEnvironment,
    Stopping,
    run_action,
)


def _consume(environment: ClientEnvironment, stopping: Stopping, config: dict[str, Any]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": environment.bootstrap,
            "group.id": environment.group,
            "client.id": environment.client_id,
            "client.rack": environment.rack,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": COMMIT_MS,
            **config,
        }
    )

    def revoked(_: Any, partitions: Any) -> None:
        if partitions:
            environment.called_back()

    consumer.subscribe([environment.topic], on_revoke=revoked)
    while not stopping:
        consumer.poll(0.2)
    consumer.close()


def _consume_classic(environment: ClientEnvironment, stopping: Stopping) -> None:
    _consume(environment, stopping, {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS})


def _consume_consumer(environment: ClientEnvironment, stopping: Stopping) -> None:
    _consume(environment, stopping, {"group.protocol": "consumer"})


def _produce(environment: ClientEnvironment, stopping: Stopping) -> None:
    config = {
        "bootstrap.servers": environment.bootstrap,
        "client.id": environment.client_id,
        "enable.idempotence": True,
        "linger.ms": 0,
    }
    producer = Producer(config)
    while not stopping:
        producer.produce(environment.topic, b"a record")
        producer.poll(0)
        time.sleep(RECORDS_EVERY_S)
    producer.flush(10)


def _transact(environment: ClientEnvironment, stopping: Stopping) -> None:
    producer = Producer(
        {
            "bootstrap.servers": environment.bootstrap,
            "client.id": environment.client_id,
            "transactional.id": environment.transactional_id,
        }
    )
    producer.init_transactions(20)
    while not stopping:
        producer.begin_transaction()
        try:
            for _ in range(5):
                producer.produce(environment.topic, b"a record")
            producer.commit_transaction(10)
        except KafkaException as error:
            reason = error.args[0]
            if reason.fatal():
                break
            if reason.txn_requires_abort():
                producer.abort_transaction(10)


if __name__ == "__main__":
    run_action(
        {
            "consume": _consume_consumer,
            "consume-classic": _consume_classic,
            "produce": _produce,
            "transact": _transact,
        }
    )

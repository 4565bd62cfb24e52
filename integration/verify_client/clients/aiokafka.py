"""aiokafka's consumer and producer, and quorate's consumer on it."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError, ProducerFenced

from quorate.consumers import aiokafka as consumer_protocol
from quorate.integration.verify_client.clients.environment import (
    COMMIT_MS,
    HEARTBEAT_MS,
    RECORDS_EVERY_S,
    SESSION_MS,
    ClientEnvironment,
    Stopping,
    run_action,
)


class _Slow(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, environment: ClientEnvironment) -> None:
        self._environment = environment

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            await asyncio.sleep(self._environment.callback_s)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        pass


async def _consume(environment: ClientEnvironment, stopping: Stopping, kind: Any, **config: Any) -> None:
    consumer = kind(
        bootstrap_servers=environment.bootstrap,
        group_id=environment.group,
        client_id=environment.client_id,
        client_rack=environment.rack,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=COMMIT_MS,
        **config,
    )
    await consumer.start()
    consumer.subscribe([environment.topic], listener=_Slow(environment))
    while not stopping:
        await consumer.getmany(timeout_ms=200)
    await consumer.stop()


def _consume_classic(environment: ClientEnvironment, stopping: Stopping) -> None:
    config = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
    asyncio.run(_consume(environment, stopping, AIOKafkaConsumer, **config))


def _consume_consumer(environment: ClientEnvironment, stopping: Stopping) -> None:
    kind = consumer_protocol.AIOKafkaConsumer
    asyncio.run(_consume(environment, stopping, kind, group_protocol="consumer"))


def _produce(environment: ClientEnvironment, stopping: Stopping) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=environment.bootstrap, client_id=environment.client_id, enable_idempotence=True
        )
        await producer.start()
        while not stopping:
            await producer.send(environment.topic, b"a record")
            await asyncio.sleep(RECORDS_EVERY_S)
        await producer.stop()

    asyncio.run(run())


def _transact(environment: ClientEnvironment, stopping: Stopping) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=environment.bootstrap,
            client_id=environment.client_id,
            transactional_id=environment.transactional_id,
        )
        await producer.start()
        while not stopping:
            try:
                async with producer.transaction():
                    for _ in range(5):
                        await producer.send(environment.topic, b"a record")
            except ProducerFenced:
                break
            except KafkaError:
                continue  # the transaction was aborted
        await producer.stop()

    asyncio.run(run())


if __name__ == "__main__":
    run_action(
        {
            "consume": _consume_classic,
            "consume-consumer": _consume_consumer,
            "produce": _produce,
            "transact": _transact,
        }
    )

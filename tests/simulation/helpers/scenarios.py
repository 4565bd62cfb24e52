"""Scenarios of aiokafka clients that tests and benchmarks share."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from quorate.simulation import Simulation

TOPIC = "orders"


class Owner(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Reports which partitions a member uses in which generation."""

    def __init__(self, sim: Simulation, name: str) -> None:
        self.sim = sim
        self.name = name
        self.consumer: Any = None

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.sim.note(f"{self.name} gives back {sorted(tp.partition for tp in revoked)}")

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.sim.note(f"{self.name} gets {sorted(tp.partition for tp in assigned)}")
        self.sim.owns(self.name, self.consumer._coordinator.generation, [tp.partition for tp in assigned])


class Work:
    """Records that are sent, and the consumers of one group that process them."""

    def __init__(self, sim: Simulation, servers: str, *, strict: bool, **options: Any) -> None:
        self.sim = sim
        self.strict = strict
        self.servers = servers
        self.options = options
        self.done = asyncio.Event()

    async def stop(self, client: Any, what: str) -> None:
        """Stop a client.

        aiokafka 0.14's consumer may raise `CancelledError`: `Fetcher.close` awaits tasks that it
        cancelled.
        """
        try:
            await self.sim.within(60, client.stop(), f"stop() of {what}")
        except asyncio.CancelledError:
            if self.strict:
                raise
            self.sim.note(f"stop() of {what} raises CancelledError")

    async def started(self, make: Callable[[], Any], what: str) -> Any:
        """Start a client; after a failure a new one, as a client cannot be started twice."""
        while True:
            client = make()
            try:
                await client.start()
            except KafkaError:
                await self.stop(client, what)
                await asyncio.sleep(0.5)
            else:
                return client

    def new_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self.servers, client_id="producer", acks="all", retry_backoff_ms=50, linger_ms=1
        )

    async def produce(self, count: int, every_s: float) -> None:
        producer = await self.started(self.new_producer, "the producer")
        try:
            for number in range(count):
                try:
                    await producer.send_and_wait(TOPIC, str(number).encode(), partition=number % 4)
                except KafkaError:
                    continue  # not acknowledged: it may or may not be in the log
                self.sim.acknowledged(number)
                await asyncio.sleep(every_s * self.sim.random.random() * 2)
        finally:
            await self.stop(producer, "the producer")

    async def consume(self, name: str, starts_s: float, for_s: float | None = None) -> None:
        await asyncio.sleep(starts_s)
        owner = Owner(self.sim, name)

        def new_consumer() -> AIOKafkaConsumer:
            owner.consumer = AIOKafkaConsumer(
                bootstrap_servers=self.servers,
                client_id=name,
                group_id="group",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=10_000,
                heartbeat_interval_ms=1_000,
                rebalance_timeout_ms=15_000,
                max_poll_interval_ms=60_000,
                retry_backoff_ms=50,
                **self.options,
            )
            owner.consumer.subscribe([TOPIC], listener=owner)
            return owner.consumer

        consumer = await self.started(new_consumer, name)
        until = self.sim.now_ms + (1e12 if for_s is None else for_s * 1000)
        try:
            while not self.done.is_set() and self.sim.now_ms < until:
                try:
                    found = await consumer.getmany(timeout_ms=500, max_records=20)
                    for records in found.values():
                        for record in records:
                            self.sim.consumed(int(record.value))
                    if found:
                        await consumer.commit()
                except KafkaError as error:
                    self.sim.note(f"{name}: {type(error).__name__}")
                    await asyncio.sleep(0.1)
        finally:
            await self.stop(consumer, name)


async def consumers(
    sim: Simulation, *, records: int = 60, every_s: float = 0.3, strict: bool = False, **options: Any
) -> None:
    """Run the standard scenario: a producer, two consumers that stay and one that comes and leaves.

    When the chaos has ended, the consumers get a minute for what is left.
    """
    kafka = await sim.cluster(brokers=3, topics={TOPIC: 4})
    work = Work(sim, kafka.bootstrap_servers, strict=strict, **options)
    tasks = [
        asyncio.create_task(work.produce(records, every_s), name="producing"),
        asyncio.create_task(work.consume("a", 0), name="a"),
        asyncio.create_task(work.consume("b", sim.random.random() * 5), name="b"),
        asyncio.create_task(work.consume("c", sim.random.random() * 10, for_s=5), name="c"),
    ]
    await tasks[0]
    await sim.calm()
    for _ in range(600):
        if not sim.unconsumed:
            break
        await asyncio.sleep(0.1)
    work.done.set()
    await asyncio.gather(*tasks)

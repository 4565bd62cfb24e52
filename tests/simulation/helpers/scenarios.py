"""Scenarios of aiokafka clients that tests and benchmarks share."""

import asyncio
from asyncio import Task
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from quorate.cluster.embedded import EmbeddedCluster
from quorate.codecs.batches import read_batches
from quorate.simulation import InvariantBroken, Simulation

TOPIC = "orders"
CLASSIC = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 1_000, "rebalance_timeout_ms": 15_000}


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

    def __init__(
        self,
        sim: Simulation,
        servers: str,
        *,
        strict: bool = False,
        consumer: Any = None,
        partitions: int = 4,
        work_s: float = 0.0,
        idempotent: bool = False,
        max_records: int = 20,
        **options: Any,
    ) -> None:
        """`work_s`: the most time between poll and commit. `options`: of consumers."""
        self.sim = sim
        self.strict = strict
        self.consumer = consumer or AIOKafkaConsumer
        self.servers = servers
        self.options = options
        self.partitions = partitions
        self.work_s = work_s
        self.idempotent = idempotent
        self.max_records = max_records
        self.consumers: dict[str, Any] = {}
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

    def check_error(self, error: KafkaError, what: str) -> None:
        """Raise `InvariantBroken` for what aiokafka raises if it does not know an error."""
        if self.strict and type(error) is KafkaError:
            raise InvariantBroken("clients raise documented exceptions only", f"{what} raises {error!r}")

    async def started(self, make: Callable[[], Any], what: str) -> Any:
        """Start a client; after a failure a new one, as a client cannot be started twice."""
        while True:
            client = make()
            try:
                await client.start()
            except KafkaError as error:
                self.check_error(error, f"start() of {what}")
                await self.stop(client, what)
                await asyncio.sleep(0.5)
            else:
                return client

    def new_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self.servers,
            client_id="producer",
            acks="all",
            retry_backoff_ms=50,
            linger_ms=1,
            enable_idempotence=self.idempotent,
        )

    async def produce(self, count: int, every_s: float, first: int = 0) -> None:
        producer = await self.started(self.new_producer, "the producer")
        try:
            for number in range(first, first + count):
                try:
                    await producer.send_and_wait(TOPIC, str(number).encode(), partition=number % self.partitions)
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
            options = {**CLASSIC, **self.options} if "group_protocol" not in self.options else self.options
            if "group_instance_id" in options:
                options = {**options, "group_instance_id": name}
            owner.consumer = self.consumer(
                bootstrap_servers=self.servers,
                client_id=name,
                group_id="group",
                auto_offset_reset="earliest",
                max_poll_interval_ms=60_000,
                **{"enable_auto_commit": False, "retry_backoff_ms": 50, **options},
            )
            owner.consumer.subscribe([TOPIC], listener=owner)
            return owner.consumer

        consumer = self.consumers[name] = await self.started(new_consumer, name)
        until = self.sim.now_ms + (1e12 if for_s is None else for_s * 1000)
        try:
            while not self.done.is_set() and self.sim.now_ms < until:
                try:
                    found = await consumer.getmany(timeout_ms=500, max_records=self.max_records)
                    for records in found.values():
                        for record in records:
                            self.sim.consumed(int(record.value))
                    if found and self.work_s:
                        await asyncio.sleep(self.work_s * self.sim.random.random())
                    if found and not self.options.get("enable_auto_commit"):
                        offsets = {tp: records[-1].offset + 1 for tp, records in found.items()}
                        await consumer.commit(offsets)
                        self.sim.committed("group", {tuple(tp): offset for tp, offset in offsets.items()})
                except KafkaError as error:
                    self.check_error(error, name)
                    self.sim.note(f"{name}: {type(error).__name__}")
                    await asyncio.sleep(0.1)
        finally:
            del self.consumers[name]
            await self.stop(consumer, name)

    @property
    def converged(self) -> bool:
        """Whether the consumers have each partition once."""
        owned = sorted(tp.partition for one in self.consumers.values() for tp in one.assignment())
        return owned == list(range(self.partitions))

    async def converge(self, seconds: float = 60) -> None:
        """Wait until the consumers have each partition once. Raises `InvariantBroken`."""
        for _ in range(int(seconds * 10)):
            if self.converged:
                return
            await asyncio.sleep(0.1)
        owned = {name: sorted(tp.partition for tp in one.assignment()) for name, one in self.consumers.items()}
        raise InvariantBroken("groups converge", f"{seconds} s after the last fault the members have {owned}")


async def consumers(
    sim: Simulation,
    *,
    records: int = 60,
    every_s: float = 0.3,
    strict: bool = False,
    data: bool = False,
    **options: Any,
) -> None:
    """Run the standard scenario: a producer, two consumers that stay and one that comes and leaves.

    When the chaos has ended, the consumers get a minute for what is left.
    """
    kafka = await sim.cluster(brokers=3, topics={TOPIC: 4}, data=data)
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
    else:
        sim.check()
    await tasks[3]  # its last rebalance
    await work.converge()
    work.done.set()
    await asyncio.gather(*tasks)


async def end(sim: Simulation, producing: Task[None], staying: list[Task[None]], passing: list[Task[None]]) -> None:
    """Wait until all records are consumed, two minutes at most after the chaos; stop who stays."""
    await producing
    await sim.calm()
    for _ in range(1_200):
        if not sim.unconsumed or any(task.done() for task in staying):
            break
        await asyncio.sleep(0.1)
    await asyncio.gather(*passing)
    for task in staying:
        if not task.done():
            task.cancel()
    for ended in await asyncio.gather(*staying, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended


async def long_run(sim: Simulation, *, minutes: int = 8, **options: Any) -> None:
    """Run a producer and a consumer for some minutes; measure the memory after each."""
    kafka = await sim.cluster(brokers=3, topics={TOPIC: 4})
    work = Work(sim, kafka.bootstrap_servers, strict=False, **options)
    consuming = asyncio.create_task(work.consume("a", 0), name="a")
    for minute in range(minutes):
        began = sim.now_ms
        await work.produce(10, 1.0, first=10 * minute)
        await asyncio.sleep(60 - (sim.now_ms - began) / 1000)
        sim.memory()
    await sim.calm()
    await work.converge()
    work.done.set()
    await consuming


def records_of(cluster: EmbeddedCluster, topic: str = TOPIC) -> list[list[bytes]]:
    """Return the values in the log of each partition."""
    found = []
    for partition in cluster.core.topics[topic].partitions:
        batches = read_batches(b"".join(batch.data for batch in partition.log))
        found.append([r.value for one in batches if not one.header.control for r in one.records()])
    return found


async def idempotent(
    sim: Simulation,
    *,
    records: int = 80,
    every_s: float = 2.0,
    strict: bool = False,
    data: bool = False,
    **options: Any,
) -> None:
    """Send with an idempotent producer: logs have each acknowledged record once, in order."""
    kafka = await sim.cluster(brokers=3, topics={TOPIC: 3}, data=data)
    work = Work(sim, kafka.bootstrap_servers, strict=strict)

    def new_producer() -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=work.servers,
            client_id="producer",
            enable_idempotence=True,
            retry_backoff_ms=50,
            request_timeout_ms=20_000,
            **options,
        )

    producer = await work.started(new_producer, "the producer")
    acknowledged: dict[int, list[bytes]] = {number: [] for number in range(3)}

    async def send(number: int) -> None:
        value = str(number).encode()
        try:
            await (await producer.send(TOPIC, value, partition=number % 3))
        except KafkaError as error:
            sim.note(f"{number}: {type(error).__name__}")
        else:
            acknowledged[number % 3].append(value)

    sending = []
    for number in range(records):
        sending.append(asyncio.create_task(send(number)))
        await asyncio.sleep(every_s * sim.random.random() * (number % 5 == 0))
    await asyncio.wait(sending, timeout=300)
    if left := [task for task in sending if not task.done()]:
        raise InvariantBroken("every send ends", f"{len(left)} of {records} do not, after 300 s")
    for task in sending:
        task.result()
    await sim.calm()
    await work.stop(producer, "the producer")
    for index, log in enumerate(records_of(kafka)):
        if len(set(log)) < len(log):
            twice = next(value for value in log if log.count(value) > 1)
            raise InvariantBroken("an idempotent producer writes no record twice", f"{twice!r} in {TOPIC}-{index}")
        if missing := [value for value in acknowledged[index] if value not in log]:
            raise InvariantBroken("acknowledged records are in the log", f"{missing} of {TOPIC}-{index}")
        if log != sorted(log, key=int):
            raise InvariantBroken("an idempotent producer keeps the order", f"{TOPIC}-{index} has {log}")


class Aborted(Exception):
    """An application aborts a transaction."""


async def transactions(
    sim: Simulation, *, records: int = 30, strict: bool = False, data: bool = False, **options: Any
) -> None:
    """Copy a topic in transactions, with two copiers: the copy has each record once."""
    kafka = await sim.cluster(brokers=3, topics={TOPIC: 2, "copy": 2}, data=data)
    work = Work(sim, kafka.bootstrap_servers, strict=strict, partitions=2, idempotent=True)
    producing = asyncio.create_task(work.produce(records, 0.3), name="producing")

    async def copy(name: str, partition: int) -> None:
        tp = TopicPartition(TOPIC, partition)

        def new_consumer() -> AIOKafkaConsumer:
            return AIOKafkaConsumer(
                bootstrap_servers=work.servers,
                client_id=name,
                group_id=name,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                retry_backoff_ms=50,
            )

        def new_producer() -> AIOKafkaProducer:
            return AIOKafkaProducer(
                bootstrap_servers=work.servers,
                client_id=f"{name}-producer",
                transactional_id=name,
                retry_backoff_ms=50,
                transaction_timeout_ms=30_000,
                request_timeout_ms=20_000,
            )

        while not work.done.is_set():
            consumer = await work.started(new_consumer, name)
            producer = await work.started(new_producer, f"{name}'s producer")
            consumer.assign([tp])
            try:
                while not work.done.is_set():
                    found = await consumer.getmany(timeout_ms=500, max_records=5)
                    if not found:
                        continue
                    async with producer.transaction():
                        for record in found[tp]:
                            await producer.send_and_wait("copy", record.value, partition=partition)
                        if sim.random.random() < 0.2:
                            raise Aborted
                        await producer.send_offsets_to_transaction({tp: found[tp][-1].offset + 1}, name)
                    for record in found[tp]:
                        sim.consumed(int(record.value))
            except (KafkaError, Aborted) as error:
                sim.note(f"{name}: {type(error).__name__}")
            await work.stop(producer, f"{name}'s producer")
            await work.stop(consumer, name)

    copying = [asyncio.create_task(copy(f"copier-{number}", number), name=f"copier-{number}") for number in range(2)]
    await producing
    await sim.calm()
    for _ in range(1200):
        if not sim.unconsumed or any(task.done() for task in copying):
            break
        await asyncio.sleep(0.1)
    work.done.set()
    await asyncio.gather(*copying)
    reader = AIOKafkaConsumer(bootstrap_servers=work.servers, isolation_level="read_committed", client_id="reader")
    await reader.start()
    copies = [TopicPartition("copy", number) for number in range(2)]
    reader.assign(copies)
    await reader.seek_to_beginning()
    found: list[int] = []
    ends = await reader.end_offsets(copies)
    async with asyncio.timeout(60):
        while any([await reader.position(tp) < ends[tp] for tp in copies]):
            for some in (await reader.getmany(timeout_ms=200)).values():
                found += [int(record.value) for record in some]
    await work.stop(reader, "reader")
    if twice := [number for number in found if found.count(number) > 1]:
        raise InvariantBroken("a transaction copies each record once", f"{sorted(set(twice))} more than once")
    if missing := [number for number in sim.acknowledged_records if number not in found]:
        raise InvariantBroken("a transaction copies each record", f"{missing} are missing")

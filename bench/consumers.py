"""Compare quorate's consumers with the clients' own and with librdkafka's, on one broker.

The broker is an embedded one in another process, whose share of the time is the same for all. The
time of the first message begins with the creation of the consumer.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

import aiokafka
import kafka
import kafka.admin
from _report import Report
from _servers import embedded
from confluent_kafka import Consumer, Producer

from quorate.consumers.aiokafka import AIOKafkaConsumer
from quorate.consumers.kafka_python import KafkaConsumer

TOPIC, PARTITIONS = "orders", 8
AIO, AIO_OWN = "ours, aiokafka", "aiokafka, classic"
OWN, RDKAFKA, RDKAFKA_CLASSIC = "kafka-python, classic", "librdkafka, consumer", "librdkafka, classic"

Poll = Callable[[], int]
"""Polls once, and returns the number of messages."""


@contextmanager
def python(kind: Any, address: str, group: str, **config: Any) -> Iterator[tuple[Any, Poll]]:
    """Create a consumer of kafka-python's API."""
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": group}
    with closing(kind(TOPIC, bootstrap_servers=address, **defaults, **config)) as consumer:
        yield consumer, lambda: sum(map(len, consumer.poll(timeout_ms=100).values()))


@contextmanager
def aio(kind: Any, address: str, group: str, **config: Any) -> Iterator[tuple[Any, Poll]]:
    """Create a consumer of aiokafka's API, with an event loop in a thread of its own."""
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": group}
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def create() -> Any:
        consumer = kind(bootstrap_servers=address, **defaults, **config)
        await consumer.start()
        consumer.subscribe([TOPIC])  # not before: start would wait for the assignment
        return consumer

    async def poll() -> int:
        found = await consumer.getmany(timeout_ms=100, max_records=500)  # as many as kafka-python
        return sum(map(len, found.values()))

    consumer = run(create())
    try:
        yield consumer, lambda: run(poll())
    finally:
        run(consumer.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def rdkafka(address: str, group: str, protocol: str) -> Iterator[tuple[Any, Poll]]:
    """Create a librdkafka consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    try:
        yield consumer, lambda: len(consumer.consume(500, 0.1))
    finally:
        consumer.close()


def clients(address: str) -> dict[str, Callable[[str], Any]]:
    """Return the clients by name; each creates a consumer of a group."""
    return {
        "ours": lambda group: python(KafkaConsumer, address, group, group_protocol="consumer"),
        AIO: lambda group: aio(AIOKafkaConsumer, address, group, group_protocol="consumer"),
        AIO_OWN: lambda group: aio(aiokafka.AIOKafkaConsumer, address, group),
        OWN: lambda group: python(kafka.KafkaConsumer, address, group),
        RDKAFKA: lambda group: rdkafka(address, group, "consumer"),
        RDKAFKA_CLASSIC: lambda group: rdkafka(address, group, "classic"),
    }


def produce(address: str, messages: int) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50})
    for number in range(messages):
        producer.produce(TOPIC, b"x" * 100, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def first_message(create: Callable[[str], Any]) -> float:
    """Return the seconds from the creation of a consumer to its first message."""
    started = time.perf_counter()
    with create(str(uuid4())) as (_, poll):
        while not poll():
            pass
        return time.perf_counter() - started


def throughput(create: Callable[[str], Any], messages: int) -> float:
    """Return messages per second, after the first ones."""
    with create(str(uuid4())) as (_, poll):
        while not (received := poll()):
            pass
        started, first = time.perf_counter(), received
        while received < messages:
            received += poll()
        return (received - first) / (time.perf_counter() - started)


def join(create: Callable[[str], Any], members: int) -> float:
    """Return the seconds in which so many members join, until each partition has an owner.

    Each member polls in a thread of its own. Members of kafka-python request the topic's metadata
    first: a classic leader of kafka-python 3.0 that joins before it has them assigns nothing, and
    does not join again when they arrive.
    """
    group, done = str(uuid4()), threading.Event()
    owning: set[int] = set()

    def member(number: int) -> None:
        with create(group) as (consumer, poll):
            if isinstance(consumer, kafka.KafkaConsumer):
                consumer.partitions_for_topic(TOPIC)
            while not done.is_set():
                poll()
                (owning.add if list(consumer.assignment()) else owning.discard)(number)
                if len(owning) >= min(members, PARTITIONS):
                    done.set()

    with ThreadPoolExecutor(members) as pool:
        started = time.perf_counter()
        running = [pool.submit(member, number) for number in range(members)]
        while not done.wait(0.1):
            for ended in running:
                if ended.done():
                    done.set()
        taken = time.perf_counter() - started
        for each in running:
            each.result()
    return taken


def main() -> None:
    """Run all cases."""
    report = Report("Consumers", __doc__.splitlines()[0])
    messages = report.pick(400_000, quick=100_000, smoke=2_000)
    rounds = report.pick(5, quick=3, smoke=1)
    members = report.pick(8, quick=4, smoke=2)
    with embedded() as server:
        with closing(kafka.admin.KafkaAdminClient(bootstrap_servers=server.address)) as admin:
            admin.create_topics([kafka.admin.NewTopic(TOPIC, PARTITIONS, 1)])
        produce(server.address, messages)
        every = clients(server.address)
        first: dict[str, list[float]] = {name: [] for name in every}
        rates: dict[str, list[float]] = {name: [] for name in every}
        for _ in range(rounds):  # in turns, so that a busy moment affects all
            for name, create in every.items():
                first[name].append(first_message(create))
                rates[name].append(throughput(create, messages))
        joins = {name: join(create, members) for name, create in every.items()}
    for peer in (OWN, RDKAFKA, RDKAFKA_CLASSIC):
        goal = "peer / 1.2" if peer == RDKAFKA else ""
        report.cost("first message", median(first["ours"]), median(first[peer]), peer, "s", goal)
    for peer in (OWN, RDKAFKA, RDKAFKA_CLASSIC):
        goal = "0.97 of it" if peer == OWN else ""
        report.rate("throughput", median(rates["ours"]), median(rates[peer]), peer, "messages/s", goal)
    for peer in (OWN, RDKAFKA, RDKAFKA_CLASSIC):
        report.cost(f"join of {members} members", joins["ours"], joins[peer], peer, "s")
    report.cost("first message, aiokafka", median(first[AIO]), median(first[AIO_OWN]), AIO_OWN, "s")
    report.rate("throughput, aiokafka", median(rates[AIO]), median(rates[AIO_OWN]), AIO_OWN, "messages/s", "0.97 of it")
    report.cost(f"join of {members} members, aiokafka", joins[AIO], joins[AIO_OWN], AIO_OWN, "s")
    report.finish()


if __name__ == "__main__":
    main()

"""Consumers for bench/consumers.py, and many of them in processes of their own.

As a program it runs members: it reads a command per line, and prints a JSON line for each. Client
libraries are imported where they are used: such a process has members of one of them.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Self

OURS, AIO, AIO_OWN = "ours", "ours, aiokafka", "aiokafka, classic"
OWN, RDKAFKA, RDKAFKA_CLASSIC = "kafka-python, classic", "librdkafka, consumer", "librdkafka, classic"

_MODULES = {
    OURS: "quorate.consumers.kafka_python",
    AIO: "quorate.consumers.aiokafka",
    AIO_OWN: "aiokafka",
    OWN: "kafka",
    RDKAFKA: "confluent_kafka",
    RDKAFKA_CLASSIC: "confluent_kafka",
}
_TOO_LONG_S = 120

Poll = Callable[[], Any]
"""Polls once, and returns messages: by partition, or a list of librdkafka's."""


def load(client: str) -> None:
    """Import what a client needs, which is not measured."""
    import_module(_MODULES[client])


def count(messages: Any) -> int:
    """Return the number of messages of a poll."""
    return sum(map(len, messages.values())) if isinstance(messages, dict) else len(messages)


def _partitions(messages: Any) -> set[int]:
    if isinstance(messages, dict):
        return {at.partition for at in messages}
    return {message.partition() for message in messages if message.error() is None}


@contextmanager
def _python(kind: Any, address: str, topic: str, group: str, **config: Any) -> Iterator[tuple[Any, Poll]]:
    """Create a consumer of kafka-python's API."""
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": group}
    with closing(kind(topic, bootstrap_servers=address, **defaults, **config)) as consumer:
        yield consumer, lambda: consumer.poll(timeout_ms=100)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Start an event loop in a thread, for all consumers of the process.

    The first call must not be made by several threads.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


@contextmanager
def _aio(kind: Any, address: str, topic: str, group: str, **config: Any) -> Iterator[tuple[Any, Poll]]:
    """Create a consumer of aiokafka's API."""
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": group}

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, _loop()).result()

    async def create() -> Any:
        consumer = kind(bootstrap_servers=address, **defaults, **config)
        await consumer.start()
        consumer.subscribe([topic])  # not before: start would wait for the assignment
        return consumer

    async def poll() -> Any:
        return await consumer.getmany(timeout_ms=100, max_records=500)  # as many as kafka-python

    consumer = run(create())
    try:
        yield consumer, lambda: run(poll())
    finally:
        run(consumer.stop())


@contextmanager
def _rdkafka(address: str, topic: str, group: str, protocol: str, batch: int) -> Iterator[tuple[Any, Poll]]:
    """Create a librdkafka consumer. `batch`: a poll waits for as many messages, or for 100 ms."""
    from confluent_kafka import Consumer

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
    consumer.subscribe([topic])
    try:
        yield consumer, lambda: consumer.consume(batch, 0.1)
    finally:
        consumer.close()


def clients(address: str, topic: str, batch: int = 500) -> dict[str, Callable[[str], Any]]:
    """Return the clients by name; each creates a consumer of a group."""

    def ours(group: str) -> Any:
        from quorate.consumers.kafka_python import KafkaConsumer

        return _python(KafkaConsumer, address, topic, group, group_protocol="consumer")

    def own(group: str) -> Any:
        from kafka import KafkaConsumer

        return _python(KafkaConsumer, address, topic, group)

    def ours_aio(group: str) -> Any:
        from quorate.consumers.aiokafka import AIOKafkaConsumer

        return _aio(AIOKafkaConsumer, address, topic, group, group_protocol="consumer")

    def own_aio(group: str) -> Any:
        from aiokafka import AIOKafkaConsumer

        return _aio(AIOKafkaConsumer, address, topic, group)

    return {
        OURS: ours,
        AIO: ours_aio,
        AIO_OWN: own_aio,
        OWN: own,
        RDKAFKA: lambda group: _rdkafka(address, topic, group, "consumer", batch),
        RDKAFKA_CLASSIC: lambda group: _rdkafka(address, topic, group, "classic", batch),
    }


class Members:
    """Members of one group. `sizes`: members of each process; `here`: all in this process."""

    def __init__(
        self, client: str, address: str, topic: str, group: str, sizes: Sequence[int], *, here: bool = False
    ) -> None:
        kind = _Here if here else _Apart
        self._stack = ExitStack()
        self._processes = [
            self._stack.enter_context(closing(kind(client, address, topic, group, size))) for size in sizes
        ]
        for process in self._processes:
            process.request("ready")

    def start(self, number: int) -> None:
        """Create the consumers of a process."""
        self._processes[number].request("start")

    def owners(self) -> dict[int, list[str]]:
        """Return the owners of each partition: number of the process, and of the member."""
        found: dict[int, list[str]] = {}
        for number, process in enumerate(self._processes):
            for member, partitions in process.request("owned").items():
                for partition in partitions:
                    found.setdefault(partition, []).append(f"{number}.{member}")
        return found

    def settle(self, partitions: int, members: int) -> dict[int, str]:
        """Wait until each partition has one owner and each member a partition; return owners."""
        deadline = time.monotonic() + _TOO_LONG_S
        while time.monotonic() < deadline:
            owners = self.owners()
            once = {partition: those[0] for partition, those in owners.items() if len(those) == 1}
            if len(once) == partitions and len(set(once.values())) == min(members, partitions):
                return once
            time.sleep(0.02)
        raise SystemExit(f"error: members do not share {partitions} partitions after {_TOO_LONG_S} s: {owners}")

    def arrivals(self) -> dict[int, list[tuple[float, str]]]:
        """Return the times at which messages of each partition arrived, and at which member."""
        found: dict[int, list[tuple[float, str]]] = {}
        for number, process in enumerate(self._processes):
            for partition, those in process.request("arrivals").items():
                found.setdefault(int(partition), []).extend((at, f"{number}.{member}") for at, member in those)
        return {partition: sorted(those) for partition, those in found.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class _Apart:
    """Members in a process of their own."""

    def __init__(self, client: str, address: str, topic: str, group: str, size: int) -> None:
        command = [sys.executable, "-P", str(Path(__file__)), client, address, topic, group, str(size)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def request(self, command: str) -> Any:
        """Run a command of `_Here`."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{command}\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise SystemExit("error: a process with members ended; see above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class _Member(threading.Thread):
    """A consumer that polls in a thread. `arrivals`: times of polls, with their partitions."""

    def __init__(self, client: str, address: str, topic: str, group: str) -> None:
        super().__init__(daemon=True)
        self._client, self._topic, self._group = client, topic, group
        self._create = clients(address, topic, batch=1)[client]
        self.owned: list[int] = []
        self.arrivals: list[tuple[float, set[int]]] = []
        self.ending = threading.Event()

    def run(self) -> None:
        with self._create(self._group) as (consumer, poll):
            if self._client == OWN:
                # A classic leader of kafka-python 3.0 that joins before it has the topic's metadata
                # assigns nothing, and does not join again when they arrive.
                consumer.partitions_for_topic(self._topic)
            while not self.ending.is_set():
                if messages := poll():
                    self.arrivals.append((time.monotonic(), _partitions(messages)))
                self.owned = [at.partition for at in consumer.assignment()]


class _Here:
    """Members in this process."""

    def __init__(self, client: str, address: str, topic: str, group: str, size: int) -> None:
        load(client)
        self._members = [_Member(client, address, topic, group) for _ in range(size)]
        _loop()

    def request(self, command: str) -> Mapping[int, Any] | None:
        """Run a command: ready, start, owned (by member) or arrivals (by partition)."""
        match command:
            case "start":
                for member in self._members:
                    member.start()
            case "owned":
                if any(not member.is_alive() and member.ident for member in self._members):
                    raise SystemExit("error: a member ended")
                return {number: member.owned for number, member in enumerate(self._members)}
            case "arrivals":
                by_partition: dict[int, list[tuple[float, int]]] = {}
                for number, member in enumerate(self._members):
                    for at, partitions in list(member.arrivals):
                        for partition in partitions:
                            by_partition.setdefault(partition, []).append((at, number))
                return by_partition
        return None

    def close(self) -> None:
        """End the members."""
        for member in self._members:
            member.ending.set()
        for member in self._members:
            if member.ident:
                member.join()


def _serve(client: str, address: str, topic: str, group: str, size: str) -> None:
    with closing(_Here(client, address, topic, group, int(size))) as members:
        for line in sys.stdin:
            print(json.dumps(members.request(line.strip())), flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])

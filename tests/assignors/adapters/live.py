"""Consumers of all clients in one group, for tests against a real broker.

Each consumer runs in its own thread and records what happens to it:

    with KafkaPython(broker, "g", ["t"], kafka_python.Range()) as one:
        wait_for(lambda: len(one.assigned) == 4)

Tests wait for conditions, never for a fixed time.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.broker.broker import Broker, java

LIMIT_S = 300
PROCESS = Path(__file__).with_name("member_process.py")

TP = tuple[str, int]


def wait_for(condition: Callable[[], Any], *watched: "Member", limit_s: float = LIMIT_S) -> Any:
    """Wait until `condition` holds. Fails at once if one of `watched` ended with an error."""
    until = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        for member in watched:
            if member.error is not None:
                raise AssertionError(f"{member!r} ended") from member.error
        if time.monotonic() > until:
            raise AssertionError(f"not within {limit_s} s: {[repr(member) for member in watched]}")
        time.sleep(0.02)


class Member:
    """A consumer in its own thread."""

    def __init__(self, broker: Broker, group: str, topics: Sequence[str]) -> None:
        self.broker, self.group, self.topics = broker, group, list(topics)
        self.assigned: frozenset[TP] = frozenset()
        self.events: list[tuple[str, frozenset[TP]]] = []
        self.records: list[tuple[TP, int, float]] = []
        self.error: BaseException | None = None
        self.consumer: Any = None
        self._stop = threading.Event()
        self.polls = threading.Event()
        """Cleared, it does not poll, as if it was processing records."""
        self.polls.set()
        self.ends_within_s: float = LIMIT_S
        self.works_s = 0.0
        """The processing time after each poll."""
        self.polled = 0
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __repr__(self) -> str:
        held = ", ".join(f"{topic}-{number}" for topic, number in sorted(self.assigned))
        return f"{type(self).__name__}({self.group}: [{held}] {self.error!r})"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stop.set()
        self.polls.set()
        self._thread.join(self.ends_within_s)
        assert not self._thread.is_alive(), f"{self!r} does not end"

    def offsets_of(self, partition: TP) -> list[int]:
        return [offset for at, offset, _ in self.records if at == partition]

    def revoked(self) -> set[TP]:
        """Return all partitions that were ever revoked from it."""
        return {at for kind, those in self.events if kind == "revoked" for at in those}

    def _note(self, kind: str, partitions: Any) -> None:
        self.events.append((kind, frozenset((at.topic, at.partition) for at in partitions)))

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001  # the test reports it
            self.error = error

    def _run(self) -> None:
        raise NotImplementedError


class OfPython(Member):
    """A consumer with configs of these names."""

    def __init__(self, broker: Broker, group: str, topics: Sequence[str], *assignors: Any, **config: Any) -> None:
        super().__init__(broker, group, topics)
        self.config = {
            "bootstrap_servers": broker.bootstrap_servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "partition_assignment_strategy": list(assignors),
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 6000,
            "metadata_max_age_ms": 1000,
            "enable_auto_commit": False,
            **config,
        }
        pattern = self.config.pop("pattern", None)
        self.subscription = {"topics": self.topics} if pattern is None else {"pattern": pattern}


class KafkaPython(OfPython):
    """kafka-python's consumer."""

    def _run(self) -> None:
        from kafka import ConsumerRebalanceListener
        from kafka.errors import RetriableError, UnknownBrokerIdError

        member = self

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                member._note("revoked", revoked)

            def on_partitions_assigned(self, assigned: Any) -> None:
                member._note("assigned", assigned)

            def on_partitions_lost(self, lost: Any) -> None:
                member._note("lost", lost)

        with closing(self._new_consumer()) as self.consumer:
            self.consumer.subscribe(**self.subscription, listener=Listener())
            while not self._stop.is_set():
                self.polls.wait()
                try:
                    polled = self.consumer.poll(timeout_ms=100)
                except RetriableError:
                    continue  # kafka-python's poll() raises errors of the coordinator lookup
                except UnknownBrokerIdError as error:
                    # A leader that has just left the metadata. kafka-python (3.0.12) would wait
                    # for the response to a fetch that it has not sent.
                    self.consumer._fetcher._nodes_with_pending_fetch_requests.difference_update(error.args)
                    continue
                for at, records in polled.items():
                    now = time.monotonic()
                    self.records += [((at.topic, at.partition), record.offset, now) for record in records]
                self.assigned = frozenset((at.topic, at.partition) for at in self.consumer.assignment())
                self.polled += 1
                self._stop.wait(self.works_s)
        self.assigned = frozenset()

    def _new_consumer(self) -> Any:
        from kafka import KafkaConsumer

        return KafkaConsumer(**self.config)


class ConsumerProtocol(KafkaPython):
    """quorate's subclass of kafka-python's consumer, in the consumer protocol."""

    def __init__(self, broker: Any, group: str, topics: Sequence[str], **config: Any) -> None:
        super().__init__(broker, group, topics, **config)
        for classic_only in ("partition_assignment_strategy", "heartbeat_interval_ms", "session_timeout_ms"):
            del self.config[classic_only]

    def _new_consumer(self) -> Any:
        from quorate.consumers.kafka_python import KafkaConsumer

        return KafkaConsumer(group_protocol="consumer", **self.config)


class Aio(OfPython):
    """aiokafka's consumer in its own event loop."""

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        from aiokafka import ConsumerRebalanceListener

        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                member._note("revoked", revoked)

            def on_partitions_assigned(self, assigned: Any) -> None:
                member._note("assigned", assigned)

            def on_partitions_lost(self, lost: Any) -> None:
                member._note("lost", lost)

        self.consumer = self._new_consumer()
        self.consumer.subscribe(**self.subscription, listener=Listener())
        try:
            await self.consumer.start()
            while not self._stop.is_set():
                for at, records in (await self.consumer.getmany(timeout_ms=100)).items():
                    now = time.monotonic()
                    self.records += [((at.topic, at.partition), record.offset, now) for record in records]
                self.assigned = frozenset((at.topic, at.partition) for at in self.consumer.assignment())
                self.polled += 1
                await asyncio.sleep(self.works_s)
        finally:
            await self.consumer.stop()
        self.assigned = frozenset()

    def _new_consumer(self) -> Any:
        from aiokafka import AIOKafkaConsumer

        return AIOKafkaConsumer(**self.config)


class AioConsumerProtocol(Aio):
    """quorate's subclass of aiokafka's consumer, in the consumer protocol."""

    def _new_consumer(self) -> Any:
        from quorate.consumers.aiokafka import AIOKafkaConsumer

        for classic_only in ("partition_assignment_strategy", "heartbeat_interval_ms", "session_timeout_ms"):
            del self.config[classic_only]
        return AIOKafkaConsumer(group_protocol="consumer", **self.config)


class InProcess(Member):
    """A member in another process, which prints a line of JSON for each event."""

    process: subprocess.Popen[str]

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _run(self) -> None:
        self.process = process = subprocess.Popen(
            self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        said = []

        def stop() -> None:
            self._stop.wait()
            process.stdin.close()

        threading.Thread(target=stop, daemon=True).start()
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    self._on_event(json.loads(line))
                else:
                    said.append(line)
            if process.wait(LIMIT_S) != 0:
                raise AssertionError("".join(said[-20:]))
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        self.assigned = frozenset()

    def _on_event(self, event: dict[str, Any]) -> None:
        if event["event"] == "records":
            for name, offsets in event["of"].items():
                at = _partition(name)
                self.records += [(at, offset, time.monotonic()) for offset in offsets]
            return
        self._note(event["event"], [_Partition(*_partition(name)) for name in event["partitions"]])
        self.assigned = frozenset(map(_partition, event["all"]))


class _Partition(NamedTuple):
    topic: str
    partition: int


def _partition(name: str) -> TP:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


class ConsumerProtocolProcess(InProcess):
    """quorate's subclass of kafka-python's consumer, in a process that signals can stop."""

    def __init__(self, broker: Any, group: str, topics: Sequence[str], **config: Any) -> None:
        super().__init__(broker, group, topics)
        self.config = {**broker.client_config, "metadata_max_age_ms": 1000, **config}

    def _command(self) -> list[str]:
        arguments = {"topics": self.topics, "group_id": self.group, **self.config}
        return [sys.executable, "-P", str(PROCESS), json.dumps(arguments)]


class Java(InProcess):
    """The Java client's consumer, by tests/assignors/adapters/GroupMember.java.

    `assignor`: `None` for the consumer protocol. `seen`: the subscriptions that it received as the
    leader.
    """

    def __init__(
        self,
        broker: Any,
        group: str,
        topics: Sequence[str],
        assignor: str | None,
        *,
        rack: str | None = None,
        instance: str | None = None,
    ) -> None:
        super().__init__(broker, group, topics)
        arguments = [broker.bootstrap_servers, group, ",".join(topics), assignor or "-", rack or "-", instance or "-"]
        self.arguments = arguments
        self.seen: dict[str, dict[str, Any]] = {}
        self.led = 0

    def _command(self) -> list[str]:
        command = java("-Xmx96m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        return [*command, "GroupMember", *self.arguments]

    def _on_event(self, event: dict[str, Any]) -> None:
        if event["event"] == "leads":
            self.seen = event["members"]
            self.led += 1
        else:
            super()._on_event(event)


def create_topic(broker: Broker, name: str, partitions: int) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])


def add_partitions(broker: Broker, name: str, total: int) -> None:
    from kafka.admin import KafkaAdminClient

    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.create_partitions({name: total})


@contextmanager
def produced(broker: Broker, topic: str, partitions: int) -> Iterator[None]:
    """Produce a record to each partition every 20 ms or so, until the block ends."""
    from kafka import KafkaProducer

    stop = threading.Event()

    def produce() -> None:
        with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0)) as producer:
            while not stop.is_set():
                for partition in range(partitions):
                    producer.send(topic, b"x", partition=partition)
                stop.wait(0.02)

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LIMIT_S)


def spread(*members: Member) -> list[TP]:
    """Return the partitions of all members, with duplicates."""
    return sorted(at for member in members for at in member.assigned)

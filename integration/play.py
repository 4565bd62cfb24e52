"""The scenario of `quorate demo`: an embedded cluster with racks, and clients of kafka-python.

All data is observed. The owner of a partition is what its consumer reports; the broker that it is
read from comes from the requests that brokers received.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from quorate.assignors import RackAwareUniformAssignor
from quorate.assignors.adapters import kafka_python
from quorate.cluster import TEST_PROPERTIES, EmbeddedCluster
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupInstallAssignmentRequest
from quorate.codecs.api.broker import FetchRequest
from quorate.consumers.kafka_python import KafkaConsumer

TOPIC = "orders"
GROUP = "billing"
RACKS = ("a", "b", "c")
_TICK_S = 0.05
_MESSAGES_PER_TICK = 6
_SETTLED_S = 0.8
_FOLLOWED_S = 4.0
_TIMEOUT_S = 15.0

# For rebalances within fractions of a second: members learn of a rebalance by heartbeats, and of
# changed topics by metadata.
_QUICK: dict[str, Any] = {
    "metadata_max_age_ms": 1_000,
    "fetch_max_wait_ms": 50,
    "reconnect_backoff_ms": 20,
    "retry_backoff_ms": 20,
}


_CLASSIC: dict[str, Any] = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6_000}
_PROPERTIES = {
    "group.initial.rebalance.delay.ms": 500,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.client.assignors.enable": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """State of the group at one time.

    `racks`: broker → rack. `replicas`: partition → brokers. `owners`: partition → member.
    `sources`: partition → broker that it was last read from.
    """

    at_s: float
    racks: dict[int, str | None]
    replicas: dict[int, tuple[int, ...]]
    owners: dict[int, str]
    sources: dict[int, int]
    member_racks: dict[str, str]
    consumed: dict[str, int]

    def rack_of_source(self, partition: int) -> str | None:
        """Return the rack that a partition is read from."""
        return self.racks.get(self.sources.get(partition, -1))

    def could_be_local(self, partition: int) -> bool:
        """Return whether a partition has a replica in the rack of its owner."""
        rack = self.member_racks.get(self.owners.get(partition, ""))
        return rack in (self.racks.get(broker) for broker in self.replicas[partition])

    def local(self, partition: int) -> bool:
        """Return whether a partition's owner reads it in its own rack."""
        return self.rack_of_source(partition) == self.member_racks.get(self.owners.get(partition, ""), "?")


@dataclass(slots=True, kw_only=True)
class Chapter:
    """A part of the scenario. `said`: its result, once it has ended."""

    title: str
    began_s: float
    said: str = ""


@dataclass(slots=True)
class _Member:
    name: str
    rack: str
    owned: frozenset[int] = frozenset()
    consumed: int = 0
    thread: threading.Thread | None = None
    ended: threading.Event = field(default_factory=threading.Event)


class Play:
    """Runs the scenario with a cluster and its clients.

    `on_change`: called with this object after each new snapshot or chapter, in the running thread.
    """

    def __init__(self, on_change: Callable[["Play"], object] = lambda play: None) -> None:
        self.chapters: list[Chapter] = []
        self.snapshots: list[Snapshot] = []
        self.seen: Counter[bytes] = Counter()
        self.sent = 0
        self.failures: list[str] = []
        self._on_change = on_change
        self._producer: KafkaProducer | None = None
        self._members: dict[str, _Member] = {}
        self._lock = threading.Lock()
        self._sources: dict[str, dict[int, int]] = {}
        self._heartbeats: set[str] = set()  # of the consumer protocol, by client id
        self._installed: Counter[str] = Counter()  # assignments, by client id
        self._requests: dict[tuple[str, int], tuple[int, int]] = {}
        self._began = time.monotonic()

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    # ---- steps

    def run(self) -> None:
        """Run the scenario. Raises `TimeoutError` if the group does not become stable."""
        self._chapter("A cluster: three brokers in racks a, b and c, in this process")
        before = time.monotonic()
        properties = {**TEST_PROPERTIES, **_PROPERTIES}
        with EmbeddedCluster(racks=RACKS, properties=properties) as self.kafka:
            took_ms = (time.monotonic() - before) * 1000
            try:
                self.kafka.faults.recording = True
                self.kafka.create_topic(TOPIC, partitions=6, replicas=2)
                self._end(
                    f"ready in {took_ms:.0f} ms; topic {TOPIC}: 6 partitions, 2 replicas of each in different racks"
                )
                self._producer = KafkaProducer(**self.kafka.client_config, linger_ms=5, metadata_max_age_ms=200)
                self._act()
                self._drain()
            finally:
                self._end_clients()

    def _end_clients(self) -> None:
        for member in self._members.values():
            member.ended.set()
        for member in self._members.values():
            if member.thread is not None:
                member.thread.join(5)
        if self._producer is not None:
            self._producer.close(5)

    def _act(self) -> None:
        self._chapter("Three consumers join, one in each rack, with quorate's cooperative-sticky assignor")
        for rack in RACKS:
            self._start(f"worker-{rack}", rack)
        self._settle(6)
        self._end(self._local_summary())

        for title, rack in (("The broker of rack c moves to rack b", "b"), ("And back to rack c", "c")):
            self._chapter(title)
            self.kafka.restart_broker(3, rack=rack)
            self._settle(6)
            self._end(self._local_summary())

        self._chapter("The topic gets three more partitions")
        self.kafka.add_partitions(TOPIC, 9)
        self._settle(9)
        self._end(self._local_summary())

        self._chapter("worker-b ends, and the others take over")
        kept = {name: member.owned for name, member in self._members.items()}
        self._members["worker-b"].ended.set()
        self._settle(9)
        unmoved = all(kept[name] <= self._members[name].owned for name in ("worker-a", "worker-c"))
        self._end(("no partition was revoked; " if unmoved else "") + self._local_summary())

        self._chapter("The group changes to the consumer protocol (KIP-848), one consumer after the other")
        for name in ("worker-a", "worker-c"):
            self._restart(name, group_protocol="consumer")
            self._settle(9)
        self._end(f"{len(self._heartbeats)} consumers send its heartbeats; " + self._local_summary())

        self._chapter("A client-side assignor takes over: rack-aware-uniform runs in a consumer")
        for name in ("worker-a", "worker-c"):
            self._restart(name, group_protocol="consumer", client_assignors=[RackAwareUniformAssignor()])
        self._settle(9)
        by = max(self._installed, key=self._installed.__getitem__, default="no consumer")
        self._end(f"{by} assigned for the group; " + self._local_summary())

    def _start(self, name: str, rack: str, consumed: int = 0, **config: Any) -> None:
        member = self._members[name] = _Member(name, rack, consumed=consumed)
        member.thread = threading.Thread(target=self._consume, args=[member, config], name=name, daemon=True)
        member.thread.start()

    def _restart(self, name: str, **config: Any) -> None:
        """End a consumer, as a deployment does, and start it with other configs."""
        before = self._members[name]
        before.ended.set()
        assert before.thread is not None
        while before.thread.is_alive():
            self._tick()
        self._start(name, before.rack, before.consumed, **config)

    def _consume(self, member: _Member, config: dict[str, Any]) -> None:
        if not config:
            config = {**_CLASSIC, "partition_assignment_strategy": [kafka_python.CooperativeSticky()]}
        try:
            consumer = KafkaConsumer(
                TOPIC,
                **self.kafka.client_config,
                **_QUICK,
                group_id=GROUP,
                client_id=member.name,
                client_rack=member.rack,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                **config,
            )
            while not member.ended.is_set():
                batches = consumer.poll(timeout_ms=50)
                member.owned = frozenset(one.partition for one in consumer.assignment())
                with self._lock:
                    for records in batches.values():
                        self.seen.update(record.value for record in records)
                        member.consumed += len(records)
                if batches:
                    # A commit fails in a rebalance. The next owner resumes at the last commit, and
                    # messages that are consumed twice are counted.
                    with suppress(KafkaError):
                        consumer.commit()
            member.owned = frozenset()
            consumer.close(autocommit=False)
        except Exception as error:  # noqa: BLE001  # reported at the end: a thread cannot raise
            self.failures.append(f"{member.name}: {error!r}")
            member.owned = frozenset()

    # ---- waiting

    def _settle(self, partitions: int) -> None:
        """Produce until all partitions are owned and read, and nothing has changed for a while.

        Consumers look for a closer replica once a second (`metadata_max_age_ms`).
        """
        until = time.monotonic() + _TIMEOUT_S
        steady = began = time.monotonic()
        state: object = None
        while time.monotonic() < until:
            self._tick()
            last = self.snapshots[-1]
            found = (tuple(sorted(last.owners.items())), tuple(sorted(last.sources.items())))
            if found != state or len(last.owners) != partitions or len(last.sources) != partitions:
                state, steady = found, time.monotonic()
            elif time.monotonic() - steady >= _SETTLED_S and (
                all(last.local(owner) or not last.could_be_local(owner) for owner in last.owners)
                or time.monotonic() - began > _FOLLOWED_S
            ):
                return
            if self.failures:
                break
        raise TimeoutError("; ".join(self.failures) or f"the group did not become stable within {_TIMEOUT_S:.0f} s")

    def _tick(self) -> None:
        producer = self._producer
        assert producer is not None
        known = sorted(producer.partitions_for(TOPIC))  # new partitions appear with the next metadata
        for _ in range(_MESSAGES_PER_TICK):
            producer.send(TOPIC, str(self.sent).encode(), partition=known[self.sent % len(known)])
            self.sent += 1
        producer.flush(10)
        time.sleep(_TICK_S)
        self.snapshots.append(self._snapshot())
        self._on_change(self)

    def _drain(self) -> None:
        """Wait until all messages are consumed."""
        until = time.monotonic() + _TIMEOUT_S
        while len(self.seen) < self.sent and time.monotonic() < until:
            time.sleep(_TICK_S)
            self.snapshots.append(self._snapshot())
            self._on_change(self)

    # ---- observation

    def _snapshot(self) -> Snapshot:
        racks, replicas = self.kafka.call(self._observe)
        owners = {partition: member.name for member in self._members.values() for partition in sorted(member.owned)}
        sources = {
            partition: self._sources[name][partition]
            for partition, name in owners.items()
            if partition in self._sources.get(name, {})
        }
        return Snapshot(
            at_s=self.now_s,
            racks=racks,
            replicas=replicas,
            owners=owners,
            sources=sources,
            member_racks={member.name: member.rack for member in self._members.values()},
            consumed={member.name: member.consumed for member in self._members.values()},
        )

    def _observe(self) -> tuple[dict[int, str | None], dict[int, tuple[int, ...]]]:
        """Return racks and replicas, and record fetches since the last call.

        Runs in the cluster's thread.
        """
        core = self.kafka.core
        topic = core.topics[TOPIC]
        while self.kafka.faults.seen:
            seen = self.kafka.faults.seen.popleft()
            if isinstance(seen.request, ConsumerGroupHeartbeatRequest):
                self._heartbeats.add(str(seen.client_id))
            elif isinstance(seen.request, ConsumerGroupInstallAssignmentRequest):
                self._installed[str(seen.client_id)] += 1
            elif isinstance(seen.request, FetchRequest):
                for fetched in seen.request.topics:
                    if fetched.topic == TOPIC or fetched.topic_id == topic.id:
                        for part in fetched.partitions:
                            self._record_fetch(seen.client_id, part.partition, seen.broker, part.fetch_offset)
        racks = {broker.id: broker.rack for broker in core.brokers.values() if broker.alive}
        return racks, {partition.index: partition.replicas for partition in topic.partitions}

    def _record_fetch(self, client: str, partition: int, broker: int, offset: int) -> None:
        """Record a fetch of a partition.

        A larger offset than in the fetch before shows that the broker of that one returned records.
        A leader may only return the id of a closer replica (KIP-392).
        """
        before, reached = self._requests.get((client, partition), (broker, offset))
        if offset > reached:
            self._sources.setdefault(client, {})[partition] = before
        self._requests[client, partition] = broker, offset

    def _local_summary(self) -> str:
        last = self.snapshots[-1]
        local = sum(last.local(partition) for partition in last.owners)
        took_s = self.now_s - self.chapters[-1].began_s
        return f"{local} of {len(last.owners)} partitions are read in their consumer's rack, after {took_s:.1f} s"

    # ---- chapters

    def _chapter(self, title: str) -> None:
        self.chapters.append(Chapter(title=title, began_s=self.now_s))
        self._on_change(self)

    def _end(self, said: str) -> None:
        self.chapters[-1].said = said
        self._on_change(self)

    @property
    def duplicates(self) -> int:
        """Number of duplicate messages. They occur when a member leaves before it has committed."""
        return sum(count - 1 for count in self.seen.values())

    @property
    def lost(self) -> int:
        """Number of messages that were not consumed."""
        return self.sent - len(self.seen)

    def moves(self) -> Iterator[tuple[float, int, str, str]]:
        """Yield each move of a partition: time, partition, old owner, new owner."""
        owners: dict[int, str] = {}
        for snapshot in self.snapshots:
            for partition, owner in snapshot.owners.items():
                if owners.get(partition, owner) != owner:
                    yield snapshot.at_s, partition, owners[partition], owner
                owners[partition] = owner

"""Members that consume in threads, and a group's records in `__consumer_offsets`, for scenarios."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Where
from confluent_kafka.admin import AdminClient

from quorate.cluster.waiting import wait_for
from quorate.codecs import CoordinatorRecord, LogEntry
from quorate.codecs.messages import consumer_group
from quorate.coordinator import group_hash, topic_hash
from quorate.integration import Cluster
from tests.integration.limits import LIMIT_MS

TopicPartitions = frozenset[tuple[str, int]]

INTERVAL_S = 0.2
"""Between two messages of `Load` to a partition."""


def all_of(topic: str, partitions: int) -> TopicPartitions:
    """Every partition of a topic."""
    return frozenset((topic, partition) for partition in range(partitions))


def confluent_config(cluster: Cluster) -> dict[str, Any]:
    """Return the configuration for librdkafka's clients, including security."""
    names = {
        "bootstrap_servers": "bootstrap.servers",
        "security_protocol": "security.protocol",
        "sasl_mechanism": "sasl.mechanism",
        "sasl_plain_username": "sasl.username",
        "sasl_plain_password": "sasl.password",
        "ssl_cafile": "ssl.ca.location",
    }
    return {names[name]: value for name, value in cluster.client_config.items()} | {"log_level": 0}


class Overlap(NamedTuple):
    """A partition that was assigned to a member while another member still owned it.

    Both as far as the members know.
    """

    partition: tuple[str, int]
    given_to: str
    held_by: str


class Deliveries:
    """Messages, owners of partitions and commits, over all members of a group.

    It is the view of members, not that of brokers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.values: dict[tuple[str, int], list[bytes]] = {}
        self.held: dict[str, set[tuple[str, int]]] = {}
        """Return the assigned partitions of each member, as it received them."""
        self.overlaps: list[Overlap] = []
        self.assignments: list[tuple[str, tuple[str, int]]] = []
        """Member and partition of each assignment."""
        self.lost: list[tuple[str, tuple[str, int]]] = []
        """Partitions that members lost, because they had been fenced, instead of revoking them."""
        self.committed: dict[tuple[str, int], int] = {}
        """The highest offset of each partition whose commit was acknowledged."""
        self.refused: list[tuple[str, str]] = []
        """Commits that were not: member and error."""

    def given(self, member: str, partitions: Iterable[tuple[str, int]]) -> None:
        with self._lock:
            for key in partitions:
                others = (other for other, theirs in self.held.items() if other != member and key in theirs)
                self.overlaps += (Overlap(key, member, other) for other in others)
                self.held.setdefault(member, set()).add(key)
                self.assignments.append((member, key))

    def taken(self, member: str, partitions: Iterable[tuple[str, int]]) -> None:
        with self._lock:
            self.held.setdefault(member, set()).difference_update(partitions)

    def left(self, member: str) -> None:
        """Record that the member has ended, and owns no partitions."""
        with self._lock:
            self.held.pop(member, None)

    def got(self, partition: tuple[str, int], value: bytes) -> None:
        with self._lock:
            self.values.setdefault(partition, []).append(value)

    def acknowledged(self, offsets: Iterable[tuple[tuple[str, int], int]]) -> None:
        with self._lock:
            for partition, offset in offsets:
                self.committed[partition] = max(offset, self.committed.get(partition, 0))

    def distinct(self) -> int:
        """Return the number of distinct messages that were consumed."""
        with self._lock:
            return sum(len(set(values)) for values in self.values.values())


class Member:
    """A librdkafka consumer of a group, polling in a thread until it is closed.

    `group.protocol` is `consumer` (KIP-848) by default.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Sequence[str],
        *,
        name: str = "m",
        rack: str = "",
        instance_id: str = "",
        deliveries: Deliveries | None = None,
        **config: Any,
    ) -> None:
        self.name = name
        self.error: KafkaError | None = None
        self.assigned: TopicPartitions = frozenset()
        self.deliveries = deliveries or Deliveries()
        settings = {
            **confluent_config(cluster),
            "group.id": group,
            "group.protocol": "consumer",
            "client.id": name,
            "client.rack": rack,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": True,
            "auto.commit.interval.ms": 500,
            "on_commit": self._on_commit,
            "topic.metadata.refresh.interval.ms": 1000,
            **({"group.instance.id": instance_id} if instance_id else {}),
            **config,
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self.polls = threading.Event()
        """Cleared, it does not poll: a consumer that is busy with records."""
        self.polls.set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _on_assign(self, consumer: Consumer, partitions: list[Where]) -> None:
        self.deliveries.given(self.name, _pairs(partitions))

    def _on_revoke(self, consumer: Consumer, partitions: list[Where]) -> None:
        self.deliveries.taken(self.name, _pairs(partitions))

    def _on_lost(self, consumer: Consumer, partitions: list[Where]) -> None:
        self.deliveries.lost += ((self.name, key) for key in _pairs(partitions))
        self._on_revoke(consumer, partitions)

    def _on_commit(self, error: KafkaError | None, partitions: list[Where]) -> None:
        if error is None:
            self.deliveries.acknowledged(
                ((partition.topic, partition.partition), partition.offset)
                for partition in partitions
                if partition.error is None and partition.offset >= 0
            )
        else:
            self.deliveries.refused.append((self.name, error.name()))

    def _run(self) -> None:
        while not self._stop.is_set():
            self.polls.wait()
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                topic, partition, value = message.topic(), message.partition(), message.value()
                assert topic is not None
                assert partition is not None
                assert value is not None
                self.deliveries.got((topic, partition), value)
            elif message is not None:
                self.error = message.error()
            self.assigned = frozenset((where.topic, where.partition) for where in self._consumer.assignment())

    def close(self) -> None:
        """Leave the group as a consumer does."""
        if not self._stop.is_set():
            self._stop.set()
            self.polls.set()
            self._thread.join(300)
            closing = threading.Thread(target=self._consumer.close, daemon=True)
            closing.start()
            closing.join(90)  # librdkafka 2.16.0 has waited for ever, after its coordinator could not be reached
            assert not closing.is_alive(), f"librdkafka's close() of member {self.name} does not return"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pairs(partitions: Iterable[Where]) -> list[tuple[str, int]]:
    return [(where.topic, where.partition) for where in partitions]


class Consuming(Protocol):
    """A member of a group, whatever client it is."""

    assigned: TopicPartitions


def given_first(members: Iterable[Consuming]) -> None:
    """Wait until each of these members has partitions, before another one joins.

    While librdkafka (2.x) gives a member its first partitions, it may say in a heartbeat that the
    member has none. If a join has taken some of them away by then, the coordinator has nothing to
    wait for and gives them to the other member, while the first is just beginning with them.
    """
    for member in members:
        wait_for("a member has partitions", lambda member=member: bool(member.assigned), LIMIT_MS)


def settled(members: Sequence[Consuming], expected: TopicPartitions, *, timeout_ms: int = LIMIT_MS) -> None:
    """Wait until the members own exactly these partitions, none of them twice, in equal shares."""

    def owned() -> bool:
        each = [member.assigned for member in members]
        counts = [len(one) for one in each]
        return sum(counts) == len(expected) and frozenset().union(*each) == expected and max(counts) - min(counts) <= 1

    wait_for(f"{len(members)} members share {len(expected)} partitions", owned, timeout_ms)


def described(cluster: Cluster, group: str) -> str:
    """Return each member's current and target partitions, as the coordinator describes them."""
    admin = AdminClient(confluent_config(cluster))  # a future of a deleted client never ends
    try:
        found = admin.describe_consumer_groups([group])[group].result(30)
    except (KafkaException, TimeoutError) as error:
        return f"not described: {error}"

    def numbers(assignment: Any) -> list[int]:
        return [] if assignment is None else sorted(where.partition for where in assignment.topic_partitions)

    members = {
        member.member_id: (member.client_id, numbers(member.assignment), numbers(member.target_assignment))
        for member in found.members
    }
    return f"{found.state}, member: (client, current, target) {members}"


@dataclass
class GroupState:
    """The newest of a consumer group's records."""

    epoch: int = -1
    metadata_hash: int = 0
    target: dict[str, Any] = field(default_factory=dict)
    targets: list[tuple[str, Any]] = field(default_factory=list)
    """Member id and its target assignment, whenever one was written."""
    has_partition_metadata: bool = False
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Each epoch with its hash, in the order written."""
    tombstones_of_partition_metadata: int = 0


_LOGS: dict[tuple[str, str], list[LogEntry]] = {}
"""By cluster and group: the entries of `log_of`, which waiting tests read again and again."""


def log_of(cluster: Cluster, group: str) -> list[LogEntry]:
    """Return the entries of `__consumer_offsets` about a group. Only new ones are read again."""
    partition = cluster.offsets_partition_of(group)
    known = _LOGS.setdefault((cluster.bootstrap_servers, group), [])
    start = {partition: known[-1].offset + 1} if known else None
    for entry in cluster.read_offsets_topic(partitions=[partition], start_offsets=start):
        key = entry.record.key if isinstance(entry.record, CoordinatorRecord) else None
        if group in (getattr(key, "group_id", None), getattr(key, "group", None)):
            known.append(entry)
    return known


def group_state(cluster: Cluster, group: str) -> GroupState:
    """Read it from `__consumer_offsets`."""
    state = GroupState()
    for entry in log_of(cluster, group):
        key, value = entry.record.key, getattr(entry.record, "value", None)
        if isinstance(key, consumer_group.ConsumerGroupMetadataKey) and value is not None:
            state.epoch, state.metadata_hash = value.epoch, value.metadata_hash
            state.epochs.append((value.epoch, value.metadata_hash))
        elif isinstance(key, consumer_group.ConsumerGroupPartitionMetadataKey):
            state.has_partition_metadata = value is not None
            state.tombstones_of_partition_metadata += value is None
        elif isinstance(key, consumer_group.ConsumerGroupTargetAssignmentMemberKey):
            if value is None:
                state.target.pop(key.member_id, None)
            else:
                state.target[key.member_id] = {
                    (topic.topic_id, partition) for topic in value.topic_partitions for partition in topic.partitions
                }
            state.targets.append((key.member_id, state.target.get(key.member_id)))
    return state


def registered_racks(cluster: Cluster) -> dict[int, str | None]:
    """Return broker → rack, as clients see them."""
    return {broker["broker_id"]: broker["rack"] for broker in cluster.admin.describe_cluster()["brokers"]}


def expected_hash(cluster: Cluster, *topics: str) -> int:
    """Compute the hash from the cluster's metadata."""
    return group_hash(
        {
            topic.name: topic_hash(topic.id, topic.name, topic.racks)
            for topic in cluster.topology(*topics).topics
            if topic.id is not None
        }
    )


def wait_for_epoch(
    cluster: Cluster, group: str, reached: Callable[[GroupState], bool], what: str, *, timeout_ms: int = LIMIT_MS
) -> GroupState:
    """Return the group's state once `reached` is true for it."""

    def state() -> GroupState | None:
        found = group_state(cluster, group)
        return found if reached(found) else None

    return wait_for(what, state, timeout_ms, every_ms=300)


def committed(cluster: Cluster, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group."""
    found = cluster.admin.list_group_offsets([group])[group]
    return {(where.topic, where.partition): offset.offset for where, offset in found.items()}


def produce(cluster: Cluster, topic: str, partitions: int, count: int, *, first: int = 0) -> None:
    """`count` numbered messages to each partition."""
    producer = Producer({**confluent_config(cluster), "acks": "all"})
    for number in range(first, first + count):
        for partition in range(partitions):
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(300) == 0


class Load:
    """Send numbered messages to every partition of a topic until stopped, five a second.

    None is lost or sent twice. Clients fetch at each message, so that more of them would take most
    of the CPU time of scenarios.
    """

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self.sent = 0
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {**confluent_config(cluster), "acks": "all", "enable.idempotence": True, "delivery.timeout.ms": 120_000}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S) and self.sent < 20_000:
            for partition in range(self._partitions):
                self._producer.produce(self._topic, str(self.sent).encode(), partition=partition)
            self.sent += 1
            self._producer.poll(0)

    def stop(self) -> int:
        """How many messages each partition got."""
        self._stop.set()
        self._thread.join(300)
        assert self._producer.flush(120) == 0
        return self.sent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(300)

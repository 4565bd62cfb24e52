"""Applications of Kafka Streams (KIP-1071, and the classic protocol): words are counted.

An application has a repartition topic, a store with a changelog, and instances that join, leave and
are killed. Counts are what a client that reads committed records sees in the output.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from quorate.cluster.waiting import wait_for
from quorate.integration import Cluster
from tests.integration.groups import confluent_config
from tests.integration.limits import LIMIT_MS
from tests.streams.application import Instance, missing

pytestmark = [
    pytest.mark.scenario("Kafka Streams applications"),
    pytest.mark.kafka_topic(partitions=3, replicas=3, config={"min.insync.replicas": "2"}),
]

PROTOCOLS = (pytest.param("streams", marks=pytest.mark.long), "classic")
"""The group protocols of the applications that count words once without transactions. `make test`
has one with the streams protocol and transactions.
"""

INTERNAL_TOPICS = {
    "words-repartition": {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
    },
    "counts-changelog": {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"},
}
"""The configs that the internal topics of the application are created with."""

WORDS = tuple(f"word{number}" for number in range(7))


class Application:
    """Counts the words of a topic. `sent` has the expected counts."""

    def __init__(self, cluster: Cluster, topic: str, group: str, folder: Path, **configs: object) -> None:
        self.cluster = cluster
        self.group = group
        self.source, self.sink = topic, f"{topic}-counts"
        cluster.create_topic(self.sink, partitions=2, replicas=3, config={"min.insync.replicas": "2"})
        self.instances: dict[str, Instance] = {}
        self.sent: Counter[str] = Counter()
        self._folder = folder
        self._configs = {"replication_factor": 3, "num_stream_threads": 1, **configs}
        self._rng = random.Random(group)
        self._producer = Producer(confluent_config(cluster) | {"acks": "all", "linger.ms": 0})
        self._stack = ExitStack()

    def __enter__(self) -> "Application":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, name: str) -> None:
        """Start an instance; a name that was used before has the same state directory."""
        instance = Instance(
            self.cluster.bootstrap_servers,
            self.group,
            self.source,
            self.sink,
            self._folder / name,
            client_id=name,
            **self._configs,
        )
        self.instances[name] = self._stack.enter_context(instance)

    def settle(self) -> None:
        """Wait until all instances run."""
        for instance in self.instances.values():
            instance.wait_until_running()

    def stop(self, name: str) -> None:
        self.instances.pop(name).stop()

    def kill(self, name: str) -> None:
        self.instances.pop(name).kill()

    def send(self, lines: int) -> None:
        """Produce lines of one to four words to all partitions."""
        for number in range(lines):
            words = self._rng.choices(WORDS, k=self._rng.randint(1, 4))
            self.sent.update(words)
            self._producer.produce(self.source, value=" ".join(words), partition=number % 3)
        assert self._producer.flush(LIMIT_MS / 1000) == 0

    def wait_until_counted(self, *, exactly: bool) -> dict[str, list[int]]:
        """Wait until all words are counted; return the counts of each word in the output, in order.

        Without `exactly`, words may be counted more than once.
        """
        seen: dict[str, list[int]] = defaultdict(list)
        group = {"group.id": f"{self.group}-reader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        reader = Consumer(confluent_config(self.cluster) | group | {"isolation.level": "read_committed"})
        reader.subscribe([self.sink])

        def counted() -> bool:
            for message in reader.consume(500, timeout=0.5):
                if message.error() is None:
                    seen[message.key().decode()].append(int(message.value()))
            for instance in self.instances.values():
                assert instance.process.poll() is None, instance.log()
            latest = {word: counts[-1] for word, counts in seen.items()}
            return latest == self.sent if exactly else all(latest.get(word, 0) >= self.sent[word] for word in self.sent)

        try:
            wait_for("all words are counted", counted, LIMIT_MS)
        finally:
            reader.close()
        return seen


@pytest.fixture
def application(
    kafka_cluster: Cluster, topic: str, group_id: str, tmp_path: Path
) -> Iterator[Callable[..., Application]]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        yield lambda **configs: stack.enter_context(Application(kafka_cluster, topic, group_id, tmp_path, **configs))


TOPIC_CONFIG = 1
"""The source of a config that a topic was created with."""


def internal_topics(cluster: Cluster, group: str) -> dict[str, dict[str, str]]:
    """Return the configs that the internal topics of an application were created with."""
    admin = AdminClient(confluent_config(cluster))
    names = [name for name in admin.list_topics(timeout=60).topics if name.startswith(f"{group}-")]
    found = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    return {
        resource.name.removeprefix(f"{group}-"): {
            name: str(entry.value) for name, entry in done.result(60).items() if entry.source == TOPIC_CONFIG
        }
        for resource, done in found.items()
    }


# Real brokers run one test, because they are slow together with instances.
@pytest.mark.parametrize("kafka_runtime", ["embedded"], indirect=True)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_words_are_counted_once_while_instances_join_and_leave(
    kafka_cluster: Cluster, application: Callable[..., Application], group_id: str, protocol: str
) -> None:
    # Instances of the classic protocol leave no group: they are removed after the session timeout.
    quick = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500} if protocol == "classic" else {}
    with application(group_protocol=protocol, **quick) as app:
        app.send(20)
        app.start("a")
        app.wait_until_counted(exactly=True)
        assert internal_topics(kafka_cluster, group_id) == INTERNAL_TOPICS
        app.start("b")
        app.settle()
        app.send(20)
        app.wait_until_counted(exactly=True)
        app.stop("a")
        app.send(20)
        counts = app.wait_until_counted(exactly=True)
        assert {word: list(range(1, app.sent[word] + 1)) for word in app.sent} == counts
        assert [one for instance in app.instances.values() for one in instance.exceptions] == []


def test_exactly_once_survives_instances_that_leave_or_are_killed_and_killed_brokers(
    kafka_cluster: Cluster, application: Callable[..., Application], group_id: str
) -> None:
    with application(group_protocol="streams", processing_guarantee="exactly_once_v2") as app:
        app.start("a")
        app.settle()
        app.send(20)
        app.wait_until_counted(exactly=True)
        assert internal_topics(kafka_cluster, group_id) == INTERNAL_TOPICS
        app.start("b")
        app.settle()
        app.send(20)
        app.kill("a")
        broker = kafka_cluster.brokers[0]
        kafka_cluster.kill_broker(broker.id)
        app.send(20)
        kafka_cluster.start_broker(broker.id)
        app.start("a")
        app.send(20)
        app.wait_until_counted(exactly=True)
        app.settle()
        app.stop("b")
        app.send(20)
        counts = app.wait_until_counted(exactly=True)
        assert {word: list(range(1, app.sent[word] + 1)) for word in app.sent} == counts

"""One interface to Kafka clusters, whatever they run on.

A scenario written against `Cluster` runs on embedded brokers, in labs, and on real brokers in
containers.

What any client can do over Kafka's own protocol (topics, partitions, replicas, configurations) is
inherited from `AdminOperations`; what only the owner of the brokers can do (stop, restart with
another rack, pause, cut the network, change the version) is abstract here.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from quorate.cluster.admin import AdminOperations
from quorate.cluster.errors import ClusterError
from quorate.codecs import CONSUMER_OFFSETS

__all__ = ["TEST_PROPERTIES", "BrokerInfo", "Cluster", "racks_of_brokers"]

TEST_PROPERTIES: Mapping[str, object] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 2,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # A stopped or killed broker is noticed in seconds, as in the tests that stop one.
    "broker.session.timeout.ms": 4000,
}
"""Configs of brokers for tests. The pytest plugin's clusters, labs, and clusters in containers have
them unless they are given others.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """A broker as its owner sees it.

    `rack`: `broker.rack`; `state`: "running", "paused" or "stopped".
    """

    id: int
    rack: str | None
    address: str
    version: str
    state: str


def racks_of_brokers(brokers: int | None, racks: Sequence[str | None]) -> dict[int, str | None]:
    """Put brokers 1, 2, … into racks by turns: `brokers` of them, or one for each rack.

    An empty name is no rack. Raises `ClusterError` if there is no broker.
    """
    count = len(racks) if brokers is None else brokers
    if count < 1:
        raise ClusterError("a cluster has at least one broker")
    return {number: (racks[(number - 1) % len(racks)] or None) if racks else None for number in range(1, count + 1)}


class Cluster(AdminOperations):
    """A running Kafka cluster whose brokers one may stop, move to other racks, and cut off.

    A context manager: leaving it removes the cluster and its data. Times are in milliseconds.
    Raises `ClusterError` where a broker does not do what it was told in time, and kafka-python's
    errors where Kafka refuses.
    """

    stop_timeout_ms: int = 60_000
    """How long a broker may take to shut down before it is killed: without a majority of
    controllers it would wait for one. Embedded brokers take no time.
    """

    @property
    @abstractmethod
    def brokers(self) -> Sequence[BrokerInfo]:
        """All brokers, by id."""

    @property
    def version(self) -> str:
        """The newest release of Kafka among the brokers."""
        return max((one.version for one in self.brokers), key=lambda text: list(map(int, re.findall(r"\d+", text))))

    @property
    def responsive_servers(self) -> str:
        """`bootstrap_servers` without brokers that are stopped or paused."""
        return ",".join(one.address for one in self.brokers if one.state == "running") or self.bootstrap_servers

    @property
    def certificate(self) -> str | None:
        """The certificate of the authority that clients have to trust (PEM), if the listener is secure."""
        file = self.client_config.get("ssl_cafile")
        return None if file is None else Path(file).read_text(encoding="utf-8")

    @abstractmethod
    def stop_broker(self, broker: int) -> None:
        """Shut a broker down as an operator does: leaders move away first."""

    @abstractmethod
    def start_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """Start a stopped broker, in another rack ("" for none) or with another release if one is given, and wait until it is registered and unfenced."""

    def start_brokers(self, *brokers: int, rack: str | None = None, version: str | None = None) -> None:
        """Start several stopped brokers."""
        for broker in brokers:
            self.start_broker(broker, rack=rack, version=version)

    def start_all(self) -> None:
        """Let frozen brokers go on, and start those that are stopped."""
        for broker in self.brokers:
            if broker.state == "paused":
                self.resume_broker(broker.id)
        self.start_brokers(*(broker.id for broker in self.brokers if broker.state == "stopped"))

    @abstractmethod
    def kill_broker(self, broker: int) -> None:
        """End a broker at once, as a crash would."""

    def restart_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """`stop_broker`, then `start_broker`."""
        self.stop_broker(broker)
        self.start_broker(broker, rack=rack, version=version)

    @abstractmethod
    def pause_broker(self, broker: int) -> None:
        """Freeze a broker (SIGSTOP): connections stay open and nothing answers."""

    @abstractmethod
    def resume_broker(self, broker: int) -> None:
        """Let a frozen broker go on."""

    @abstractmethod
    def wait_fenced(self, broker: int) -> None:
        """Wait until the others have noticed that a broker does not answer any more, and lead in its place.

        It takes the broker's session timeout.
        """

    @contextmanager
    def paused(self, broker: int) -> Iterator[None]:
        """A broker frozen while the block runs."""
        self.pause_broker(broker)
        try:
            yield
        finally:
            self.resume_broker(broker)

    @abstractmethod
    def cut(self, broker: int, *others: int) -> None:
        """Drop all packets between a broker and others, both ways; without others, between it and the clients on this host."""

    @abstractmethod
    def heal(self) -> None:
        """Undo every `cut`."""

    @contextmanager
    def network_cut(self, broker: int, *others: int) -> Iterator[None]:
        """`cut` while the block runs."""
        self.cut(broker, *others)
        try:
            yield
        finally:
            self.heal()

    @abstractmethod
    def upgrade(self, version: str) -> None:
        """Move to another Kafka version, broker by broker, on the same data.

        A lower version is a downgrade.
        """

    @abstractmethod
    def logs(self, broker: int) -> str:
        """What a broker has logged, over all its restarts."""

    @abstractmethod
    def copy_segments(self, destination: Path, topic: str = CONSUMER_OFFSETS, *, broker: int | None = None) -> Path:
        """Copy a topic's log segments as they are on a broker's disk (of each partition's leader unless one is named) into folders TOPIC-PARTITION."""

    @abstractmethod
    def close(self) -> None:
        """End the cluster and remove its data."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

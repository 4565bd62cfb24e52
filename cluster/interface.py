"""The interface of Kafka clusters, embedded or in containers.

Scenarios written against `Cluster` run on embedded brokers, in labs, and on real brokers in
containers.

`AdminOperations`, its base class, has what any client can do over Kafka's protocol (topics,
partitions, replicas, configs). What only the owner of the brokers can do (stop, restart in another
rack, pause, cut the network, change the version) is abstract here.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from quorate.cluster.admin import AdminOperations
from quorate.cluster.errors import ClusterError
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.lazy_dataclass import dataclass

TEST_PROPERTIES: Mapping[str, object] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 2,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Stopped or killed brokers are fenced within seconds.
    "broker.session.timeout.ms": 4000,
}
"""Configs of brokers for tests: defaults of the pytest plugin's clusters, of labs, and of clusters
in containers.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """A broker as its owner sees it.

    `rack`: `broker.rack`. `state`: "running", "paused" or "stopped".
    """

    id: int
    rack: str | None
    address: str
    version: str
    state: str


MOST_BROKERS = 1_000


def racks_of_brokers(brokers: int | None, racks: Sequence[str | None]) -> dict[int, str | None]:
    """Assign racks to brokers 1, 2, … round-robin; by default one broker for each rack.

    An empty name means no rack. Raises `ClusterError` for no broker or too many, and for a text,
    whose characters would be racks.
    """
    if isinstance(racks, str):
        raise ClusterError(f"racks={racks!r} is a text; give a list of racks: {racks.split(',')}")
    if not isinstance(racks, Sequence):
        raise ClusterError(f"racks={racks!r}: give a list of racks")
    for rack in racks:
        check_rack(rack)
    count = len(racks) if brokers is None else brokers
    if not isinstance(count, int):
        raise ClusterError(f"brokers={count!r}: give a whole number")
    if count < 1:
        raise ClusterError("a cluster needs at least one broker")
    if count > MOST_BROKERS:
        raise ClusterError(f"brokers={count}: a cluster has at most {MOST_BROKERS:,}")
    return {number: (racks[(number - 1) % len(racks)] or None) if racks else None for number in range(1, count + 1)}


def check_rack(rack: str | None) -> None:
    """Raise `ClusterError` if a rack has no text as its name: brokers could not encode it."""
    if not isinstance(rack, str | None):
        raise ClusterError(f"rack {rack!r} is no text; racks are strings: {str(rack)!r}")


class Cluster(AdminOperations):
    """A running Kafka cluster whose brokers can be stopped, moved to other racks, and cut off.

    A context manager that removes the cluster and its data on exit. Times are in milliseconds.
    Raises `ClusterError` for operations that time out, and kafka-python's errors for requests that
    Kafka rejects.
    """

    stop_timeout_ms: int = 60_000
    """How long a broker may take to shut down before it is killed; without a majority of
    controllers it would wait for one. Embedded brokers stop at once.
    """

    @property
    @abstractmethod
    def brokers(self) -> Sequence[BrokerInfo]:
        """All brokers, by id."""

    @property
    def version(self) -> str:
        """The newest release of Kafka among the brokers."""
        return max(
            (broker.version for broker in self.brokers), key=lambda text: list(map(int, re.findall(r"\d+", text)))
        )

    @property
    def responsive_servers(self) -> str:
        """`bootstrap_servers` without brokers that are stopped or paused."""
        return (
            ",".join(broker.address for broker in self.brokers if broker.state == "running") or self.bootstrap_servers
        )

    @property
    def certificate(self) -> str | None:
        """The certificate (PEM) of the authority that clients must trust; `None` without TLS."""
        file = self.client_config.get("ssl_cafile")
        return None if file is None else Path(file).read_text(encoding="utf-8")

    @abstractmethod
    def stop_broker(self, broker: int) -> None:
        """Shut a broker down cleanly; leaderships move first."""

    @abstractmethod
    def start_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """Start a stopped broker, and wait until it is registered and unfenced.

        `rack`: its new rack ("" for none). `version`: its new Kafka version.
        """

    def start_brokers(self, *brokers: int, rack: str | None = None, version: str | None = None) -> None:
        """Start several stopped brokers."""
        for broker in brokers:
            self.start_broker(broker, rack=rack, version=version)

    def start_all(self) -> None:
        """Resume paused brokers, and start stopped ones."""
        for broker in self.brokers:
            if broker.state == "paused":
                self.resume_broker(broker.id)
        self.start_brokers(*(broker.id for broker in self.brokers if broker.state == "stopped"))

    @abstractmethod
    def kill_broker(self, broker: int) -> None:
        """Kill a broker, as a crash would."""

    def restart_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """`stop_broker`, then `start_broker`."""
        self.stop_broker(broker)
        self.start_broker(broker, rack=rack, version=version)

    @abstractmethod
    def pause_broker(self, broker: int) -> None:
        """Pause a broker (SIGSTOP): connections stay open, and it does not respond."""

    @abstractmethod
    def resume_broker(self, broker: int) -> None:
        """Resume a paused broker."""

    @abstractmethod
    def wait_fenced(self, broker: int) -> None:
        """Wait until an unresponsive broker is fenced, and other brokers lead its partitions.

        This takes the broker's session timeout.
        """

    @contextmanager
    def paused(self, broker: int) -> Iterator[None]:
        """Pause a broker during the block."""
        self.pause_broker(broker)
        try:
            yield
        finally:
            self.resume_broker(broker)

    @abstractmethod
    def cut(self, broker: int, *others: int) -> None:
        """Drop all packets between a broker and other brokers.

        Without `others`: between it and the clients on this host.
        """

    @abstractmethod
    def heal(self) -> None:
        """Undo every `cut`."""

    @contextmanager
    def network_cut(self, broker: int, *others: int) -> Iterator[None]:
        """Call `cut` before the block, and `heal` after it."""
        self.cut(broker, *others)
        try:
            yield
        finally:
            self.heal()

    @abstractmethod
    def upgrade(self, version: str) -> None:
        """Upgrade to another Kafka version, broker by broker, on the same data.

        A lower version is a downgrade.
        """

    @abstractmethod
    def logs(self, broker: int) -> str:
        """Return the log output of a broker, over all its restarts."""

    @abstractmethod
    def copy_segments(self, destination: Path, topic: str = CONSUMER_OFFSETS, *, broker: int | None = None) -> Path:
        """Copy a topic's log segments from a broker's disk into folders TOPIC-PARTITION.

        By default from each partition's leader.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop the cluster and remove its data."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

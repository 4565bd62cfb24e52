"""One interface to Kafka clusters, whatever they run on. A scenario written against `Cluster` runs on containers and on the embedded cluster.

What any client can do over Kafka's own protocol (topics, partitions, replicas, configurations) is inherited from `AdminOperations`; what only the owner
of the brokers can do (stop, restart with another rack, pause, cut the network, change the version) is abstract here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from quorate.cluster.admin import AdminOperations

__all__ = ["BrokerInfo", "Cluster"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """A broker as its owner sees it. `rack`: `broker.rack`; `state`: "running", "paused" or "stopped"."""

    id: int
    rack: str | None
    address: str
    version: str
    state: str


class Cluster(AdminOperations, ABC):
    """A running Kafka cluster whose brokers one may stop, move to other racks, and cut off.

    A context manager: leaving it removes the cluster and its data. Times are in milliseconds. Raises `ClusterError` where a broker does not do what it
    was told in time, and kafka-python's errors where Kafka refuses.
    """

    @property
    @abstractmethod
    def brokers(self) -> Sequence[BrokerInfo]:
        """All brokers, by id."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """Addresses for clients on this host: "127.0.0.1:port" of every broker, separated by commas."""

    @abstractmethod
    def stop_broker(self, broker: int) -> None:
        """Shut a broker down as an operator does: leaders move away first."""

    @abstractmethod
    def start_broker(self, broker: int, *, rack: str | None = None) -> None:
        """Start a stopped broker, in another rack if one is given, and wait until it is registered and unfenced."""

    @abstractmethod
    def kill_broker(self, broker: int) -> None:
        """End a broker at once, as a crash would."""

    def restart_broker(self, broker: int, *, rack: str | None = None) -> None:
        """`stop_broker`, then `start_broker`."""
        self.stop_broker(broker)
        self.start_broker(broker, rack=rack)

    @abstractmethod
    def pause_broker(self, broker: int) -> None:
        """Freeze a broker (SIGSTOP): connections stay open and nothing answers."""

    @abstractmethod
    def resume_broker(self, broker: int) -> None:
        """Let a frozen broker go on."""

    @abstractmethod
    def wait_fenced(self, broker: int) -> None:
        """Wait until the others have noticed that a broker does not answer any more, and lead in its place. It takes the broker's session timeout."""

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
        """Move to another Kafka version, broker by broker, on the same data. A lower version is a downgrade."""

    @abstractmethod
    def logs(self, broker: int) -> str:
        """What a broker has logged, over all its restarts."""

    @abstractmethod
    def copy_segments(self, destination: Path, topic: str = "__consumer_offsets", *, broker: int | None = None) -> Path:
        """Copy a topic's log segments as they are on a broker's disk (of each partition's leader unless one is named) into folders TOPIC-PARTITION."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Wait until every broker that was started is registered and unfenced and each partition of `__consumer_offsets` has a leader."""

    @abstractmethod
    def close(self) -> None:
        """End the cluster and remove its data."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

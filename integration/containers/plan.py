"""`ContainersPlan`: brokers, controllers, ports and server.properties of a cluster in containers.

A plan does not change between starts. Its racks and versions are those of the first start; labels
of a node's container have the current ones.
"""

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from quorate.cluster.errors import ClusterError
from quorate.cluster.interface import TEST_PROPERTIES, racks_of_brokers
from quorate.codecs.configs import similar_broker_config, unknown_broker_config
from quorate.integration.plan import ClusterPlan

CLIENT_PORT = 9092
"""Port in a broker's container for clients on this host."""

DATA = "/var/lib/kafka/data"
"""Mount point of a node's log directory."""

_FIRST_CONTROLLER = 101

_DEFAULTS: Mapping[str, object] = {
    **TEST_PROPERTIES,
    "share.coordinator.state.topic.num.partitions": 2,
    "broker.heartbeat.interval.ms": 500,
    "num.network.threads": 2,
    "num.io.threads": 2,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
    # No records when nothing happens: an idle broker took 3.9 % of a core, and takes 3.1 %.
    "metadata.max.idle.interval.ms": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainersPlan(ClusterPlan):
    """Configuration of a cluster in containers.

    `disk_mb`: broker → size of its disk, if limited.
    """

    heap_mb: int
    disk_mb: Mapping[int, int]

    @classmethod
    def make(
        cls,
        *,
        brokers: int | None,
        racks: Sequence[str | None],
        version: str,
        image: str | None,
        controllers: int,
        properties: Mapping[str, object],
        secure: bool,
        heap_mb: int,
        disk_mb: Mapping[int, int],
        ports: Sequence[int],
    ) -> Self:
        """Return the plan of a new cluster.

        Brokers are 1, 2, …, round-robin in `racks`. Separate controllers are 101, 102, …. Raises
        `ClusterError` for names of configs that are probably misspelt, which Kafka ignores.
        """
        for name in properties:
            if meant := similar_broker_config(name):
                raise ClusterError(f"properties: Kafka has no config {name}; did you mean {meant}?")
        by_number = racks_of_brokers(brokers, racks)
        return cls(
            cluster_id=new_id(),
            version=version,
            image=image,
            ports=dict(zip(by_number, ports, strict=True)),
            racks=by_number,
            controllers=tuple(range(_FIRST_CONTROLLER, _FIRST_CONTROLLER + controllers)),
            properties={name: str(value) for name, value in properties.items()},
            secure=secure,
            heap_mb=heap_mb,
            disk_mb=dict(disk_mb),
        )

    @property
    def ignored(self) -> tuple[str, ...]:
        """Notices of configs that brokers ignore, because no release of Kafka has them."""
        return tuple(notice for name in self.properties if (notice := unknown_broker_config(name)) is not None)

    @property
    def names(self) -> dict[int, str]:
        """Names of nodes in the cluster's network, in the order of upgrades: controllers first."""
        return {number: f"controller-{number}" for number in self.controllers} | {
            number: f"broker-{number}" for number in self.ports
        }

    @property
    def voters(self) -> dict[int, str]:
        """Nodes that are controllers → their names."""
        return {number: self.names[number] for number in self.controllers or sorted(self.ports)[:3]}

    def server_properties(self, number: int, rack: str | None, security: Mapping[str, object]) -> dict[str, object]:
        """Return the server.properties of a node.

        `security`: properties of its listener for clients.
        """
        replicas = min(3, len(self.ports))
        in_sync = max(1, replicas - 1)
        protocol = "SASL_SSL" if self.secure else "PLAINTEXT"
        properties: dict[str, object] = {
            "node.id": number,
            "controller.quorum.voters": ",".join(f"{voter}@{name}:9093" for voter, name in self.voters.items()),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"INTERNAL:PLAINTEXT,CLIENT:{protocol},CONTROLLER:PLAINTEXT",
            "log.dirs": DATA,
            **_DEFAULTS,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
        }
        listeners = []
        roles = []
        if number in self.ports:
            roles.append("broker")
            listeners += ["INTERNAL://:19092", f"CLIENT://:{CLIENT_PORT}"]
            properties["advertised.listeners"] = (
                f"INTERNAL://{self.names[number]}:19092,CLIENT://127.0.0.1:{self.ports[number]}"
            )
            properties["inter.broker.listener.name"] = "INTERNAL"
            if rack is not None:
                properties["broker.rack"] = rack
        if number in self.voters:
            roles.append("controller")
            listeners.append("CONTROLLER://:9093")
        properties["process.roles"] = ",".join(roles)
        properties["listeners"] = ",".join(listeners)
        return {**properties, **security, **self.properties}


def new_id() -> str:
    """Return a random id in Kafka's form: of a cluster, or of a log directory."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()

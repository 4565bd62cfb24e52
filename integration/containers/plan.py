"""What a cluster consists of: its brokers and controllers, their ports, and the server.properties of each.

Nothing is started here.

A plan is what stays the same from start to start. Racks and versions are those of the first start:
a node's container says what they are now.
"""

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from quorate.cluster.interface import TEST_PROPERTIES, racks_of_brokers
from quorate.integration.plan import ClusterPlan

__all__ = ["CLIENT_PORT", "DATA", "ContainersPlan"]

CLIENT_PORT = 9092
"""Where a broker listens, in its container, for clients on this host."""

DATA = "/var/lib/kafka/data"
"""Where a node's log directory is mounted."""

_FIRST_CONTROLLER = 101

_DEFAULTS: Mapping[str, object] = {
    **TEST_PROPERTIES,
    "share.coordinator.state.topic.num.partitions": 2,
    "broker.heartbeat.interval.ms": 500,
    "num.network.threads": 2,
    "num.io.threads": 2,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainersPlan(ClusterPlan):
    """What a cluster in containers consists of.

    `disk_mb`: broker → size of its disk, where that is limited.
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
        """A new cluster: brokers 1, 2, …, in turn in `racks`, each with its port; controllers 101, 102, …."""
        by_number = racks_of_brokers(brokers, racks)
        return cls(
            cluster_id=base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode(),
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
    def names(self) -> dict[int, str]:
        """Every node's name in the cluster's network: controllers of their own first, as they are upgraded."""
        return {number: f"controller-{number}" for number in self.controllers} | {
            number: f"broker-{number}" for number in self.ports
        }

    @property
    def voters(self) -> dict[int, str]:
        """The nodes that are controllers, by name."""
        return {number: self.names[number] for number in self.controllers or sorted(self.ports)[:3]}

    def server_properties(self, number: int, rack: str | None, security: Mapping[str, object]) -> dict[str, object]:
        """What a node is started with, in a rack.

        `security`: properties of its listener for clients.
        """
        replicas = min(3, len(self.ports))
        in_sync = max(1, replicas - 1)
        properties: dict[str, object] = {
            "node.id": number,
            "controller.quorum.voters": ",".join(f"{voter}@{name}:9093" for voter, name in self.voters.items()),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"INTERNAL:PLAINTEXT,CLIENT:{'SASL_SSL' if self.secure else 'PLAINTEXT'},CONTROLLER:PLAINTEXT",
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

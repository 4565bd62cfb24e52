"""When a cluster in containers is ready: what its nodes do by the engine's account, and what each broker knows of the others.

Nothing is started or stopped here.
"""

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial

from quorate.cluster.admin import metadata_from
from quorate.cluster.errors import ClusterError
from quorate.cluster.interface import BrokerInfo, Cluster
from quorate.cluster.waiting import wait_for
from quorate.codecs import CONSUMER_OFFSETS
from quorate.integration.containers.node import Node
from quorate.integration.containers.plan import ContainersPlan
from quorate.integration.containers.ports import accepts

__all__ = ["ObservedCluster"]


class ObservedCluster(Cluster, ABC):
    """A cluster whose brokers are nodes: which there are, and waiting for them."""

    _plan: ContainersPlan
    _nodes: dict[int, Node]
    _tell: Callable[[str], None]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients on this host: "127.0.0.1:port" of every broker, separated by commas."""
        return ",".join(f"127.0.0.1:{port}" for port in self._plan.ports.values())

    @property
    def brokers(self) -> Sequence[BrokerInfo]:
        """All brokers, by id."""
        return [
            BrokerInfo(
                id=broker,
                rack=self._nodes[broker].rack,
                address=f"127.0.0.1:{port}",
                version=self._nodes[broker].version,
                state=self._nodes[broker].state,
            )
            for broker, port in self._plan.ports.items()
        ]

    def _node(self, broker: int) -> Node:
        if broker not in self._plan.ports:
            raise ClusterError(f"there is no broker {broker}, only {', '.join(map(str, self._plan.ports))}")
        return self._nodes[broker]

    def wait_ready(self) -> None:
        """Wait until every broker that was started is registered and unfenced and each partition of `__consumer_offsets` has a leader."""
        from kafka.errors import KafkaError

        running = {info.id: info.rack for info in self.brokers if info.state == "running"}
        self.close_admin()  # it may know brokers that are gone, and a controller that was another
        try:
            self._check_that_none_ended()
            for done, broker in enumerate(running):
                self._tell(f"waiting for brokers ({done} of {len(running)} ready)")
                wait_for(
                    f"broker {broker} knows all of brokers {sorted(running)} and their racks",
                    partial(self._knows, broker, running),
                    self.timeout_ms,
                    also=(KafkaError,),
                )
            self._tell("waiting for __consumer_offsets")
            wait_for(
                "__consumer_offsets has leaders",
                self._offsets_topic_led,
                self.timeout_ms,
                also=(KafkaError, ClusterError),
            )
        except ClusterError as error:
            # Where a node has ended, the others only wait for it.
            nodes = [node for node in self._nodes.values() if node.wanted and node.state == "stopped"]
            tails = "".join(
                f"\n--- {node.name} ({node.state})\n{node.log_excerpt()}" for node in nodes or self._nodes.values()
            )
            raise ClusterError(f"{error}{tails}") from None

    def _knows(self, broker: int, others: Mapping[int, str | None]) -> bool:
        from kafka import KafkaAdminClient

        self._check_that_none_ended()
        if not accepts(self._plan.ports[broker]):
            return False
        with closing(
            KafkaAdminClient(
                **{**self.client_config, "bootstrap_servers": f"127.0.0.1:{self._plan.ports[broker]}"},
                bootstrap_timeout_ms=2000,
            )
        ) as admin:
            known = {found["node_id"]: found["rack"] for found in metadata_from(admin, broker)["brokers"]}
        return known.items() >= others.items()

    def _check_that_none_ended(self) -> None:
        for node in self._nodes.values():
            # 137 and 143 are left by whoever ends it from outside.
            if node.wanted and node.exit_code not in (None, 137, 143):
                raise ClusterError(f"{node.name} ended by itself with exit code {node.exit_code}")

    def _offsets_topic_led(self) -> bool:
        try:
            partitions = self.describe_topic(CONSUMER_OFFSETS)["partitions"]
        except ClusterError:
            # Asking for a coordinator makes the broker create the topic.
            self.admin.list_group_offsets("quorate-readiness")
            raise
        return all(part["leader_id"] >= 0 for part in partitions)

    def wait_fenced(self, broker: int) -> None:
        """Wait until the others have noticed that a broker does not answer any more, and lead in its place."""
        from kafka.errors import KafkaError

        self._node(broker)
        for other in self._plan.ports:
            if other == broker or self._nodes[other].state != "running":
                continue

            def fenced(other: int = other) -> bool:
                known = metadata_from(self.admin, other)
                return broker not in {found["node_id"] for found in known["brokers"]}

            wait_for(f"broker {other} takes broker {broker} for gone", fenced, self.timeout_ms, also=(KafkaError,))

"""Waiting for a cluster in containers, by the states of its nodes and each broker's metadata."""

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial

from quorate.cluster.admin import metadata_from
from quorate.cluster.errors import ClusterError
from quorate.cluster.interface import BrokerInfo, Cluster
from quorate.cluster.waiting import wait_for
from quorate.integration.containers.node import Node
from quorate.integration.containers.plan import ContainersPlan
from quorate.integration.containers.ports import accepts


class _Incomplete(ClusterError):
    """A broker's metadata lacks a broker or its rack."""


class ObservedCluster(Cluster, ABC):
    """A cluster in containers: its brokers, and waiting until they are ready."""

    _plan: ContainersPlan
    _nodes: dict[int, Node]
    _on_progress: Callable[[str], None]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients on this host: "127.0.0.1:port" of each broker, comma-separated."""
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
            raise ClusterError(f"broker {broker} does not exist; brokers: {', '.join(map(str, self._plan.ports))}")
        return self._nodes[broker]

    def wait_ready(self) -> None:
        """Wait until all running brokers are unfenced, and `__consumer_offsets` has leaders.

        Raises `ClusterError` after `timeout_ms`, with log excerpts.
        """
        from kafka.errors import KafkaError

        running = {info.id: info.rack for info in self.brokers if info.state == "running"}
        self.close_admin()  # its metadata may contain stopped brokers or an earlier controller
        try:
            self._check_exit_statuses()
            for ready, broker in enumerate(running):
                self._on_progress(f"waiting for brokers ({ready} of {len(running)} ready)")
                wait_for(
                    f"the metadata of broker {broker} contains brokers {sorted(running)} and their racks",
                    partial(self._has_in_metadata, broker, running),
                    self.timeout_ms,
                    also=(KafkaError, _Incomplete),
                )
            self._on_progress("waiting for __consumer_offsets")
            self._wait_for_offsets_topic()
        except ClusterError as error:
            # If a node has exited, only its log shows why: the others just wait for it.
            nodes = [node for node in self._nodes.values() if node.should_run and node.state == "stopped"]
            tails = "".join(
                f"\n--- {node.name} ({node.state})\n{node.log_excerpt()}" for node in nodes or self._nodes.values()
            )
            raise ClusterError(f"{error}{tails}") from None

    def _has_in_metadata(self, broker: int, running: Mapping[int, str | None]) -> bool:
        from kafka import KafkaAdminClient

        self._check_exit_statuses()
        if not accepts(self._plan.ports[broker]):
            return False
        with closing(
            KafkaAdminClient(
                **{**self.client_config, "bootstrap_servers": f"127.0.0.1:{self._plan.ports[broker]}"},
                bootstrap_timeout_ms=2000,
            )
        ) as admin:
            racks = {known["node_id"]: known["rack"] for known in metadata_from(admin, broker)["brokers"]}
        if not racks.items() >= running.items():
            raise _Incomplete(f"it contains {dict(sorted(racks.items()))}")
        return True

    def _check_exit_statuses(self) -> None:
        for node in self._nodes.values():
            # 137 and 143: killed or terminated from outside.
            if node.should_run and node.exit_code not in (None, 137, 143):
                raise ClusterError(f"{node.name} exited with status {node.exit_code}")

    def wait_fenced(self, broker: int) -> None:
        """Wait until a broker that does not respond is missing from the metadata of all others."""
        from kafka.errors import KafkaError

        self._node(broker)
        for other in self._plan.ports:
            if other == broker or self._nodes[other].state != "running":
                continue

            def fenced(other: int = other) -> bool:
                metadata = metadata_from(self.admin, other)
                return broker not in {known["node_id"] for known in metadata["brokers"]}

            wait_for(f"broker {other} sees broker {broker} as fenced", fenced, self.timeout_ms, also=(KafkaError,))

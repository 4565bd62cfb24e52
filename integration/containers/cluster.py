"""`KafkaCluster`: real brokers with racks, in containers, in one call."""

import base64
import io
import tarfile
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from quorate.codecs import CONSUMER_OFFSETS
from quorate.integration.admin import metadata_from
from quorate.integration.cluster import BrokerInfo, Cluster
from quorate.integration.containers.engine import Session, engine
from quorate.integration.containers.images import DEFAULT_VERSION, resolve_image
from quorate.integration.containers.node import DATA, Node
from quorate.integration.containers.ports import accepts, free_ports
from quorate.integration.containers.security import Credentials
from quorate.integration.errors import ClusterError
from quorate.integration.waiting import wait_for

__all__ = ["KafkaCluster"]

_CLIENT_PORT = 9092

_DEFAULTS: Mapping[str, object] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 2,
    "share.coordinator.state.topic.num.partitions": 2,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # A stopped or killed broker is noticed in seconds, as in the tests that stop one.
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "num.network.threads": 2,
    "num.io.threads": 2,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024,
}


class KafkaCluster(Cluster):
    """Apache Kafka (KRaft) in containers: a broker per rack, or `brokers` of them in turn in `racks`.

    `version`: of Apache Kafka; `image`: see `resolve_image`. `controllers`: 0 for brokers that are controllers as well (the first three), otherwise that
    many controllers of their own. `properties`: added to every node's server.properties. `security`: of the listener for clients; `client_config` has what
    they need (SASL_SSL: a certificate of its own, and a user by SCRAM-SHA-512). `heap_mb`: largest Java heap of a node. The cluster is up and
    ready when the constructor returns. Raises `ClusterError`, with the end of the logs, if it does not come up within `timeout_ms`.

    Nothing outlives this process: containers, networks and volumes carry a label, and a watcher removes them when the process ends, even by a crash.
    """

    def __init__(
        self,
        *,
        brokers: int | None = None,
        racks: Sequence[str | None] = ("a", "b", "c"),
        version: str = DEFAULT_VERSION,
        image: str | None = None,
        controllers: int = 0,
        properties: Mapping[str, object] | None = None,
        security: Literal["PLAINTEXT", "SASL_SSL"] = "PLAINTEXT",
        heap_mb: int = 384,
        timeout_ms: int = 120_000,
    ) -> None:
        count = len(racks) if brokers is None else brokers
        if count < 1:
            raise ClusterError("a cluster has at least one broker")
        self.timeout_ms = timeout_ms
        self._image = image
        self._version = version
        self._extra = dict(properties or {})
        self._racks: dict[int, str | None] = {
            number + 1: racks[number % len(racks)] if racks else None for number in range(count)
        }
        self._cuts: list[tuple[Node, str]] = []
        chosen = resolve_image(version, image)
        with ExitStack() as undo:
            self._session = Session()
            undo.callback(self._session.close)
            self._network = self._make_network()
            ports = free_ports(count)
            self._credentials: Credentials | None = None
            if security == "SASL_SSL":
                self._credentials = Credentials(chosen, self._session, [f"broker-{broker}" for broker in self._racks])
                undo.callback(self._credentials.close)
            environment = {"CLUSTER_ID": base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()}
            self._ports = dict(zip(self._racks, ports, strict=True))
            self._nodes = {
                broker: Node(
                    number=broker,
                    name=f"broker-{broker}",
                    session=self._session,
                    network=self._network,
                    ports={port: _CLIENT_PORT},
                    heap_mb=heap_mb,
                    environment=environment,
                )
                for broker, port in self._ports.items()
            }
            self._controllers = {
                100 + number: Node(
                    number=100 + number,
                    name=f"controller-{100 + number}",
                    session=self._session,
                    network=self._network,
                    ports={},
                    heap_mb=heap_mb,
                    environment=environment,
                )
                for number in range(1, controllers + 1)
            }
            with ThreadPoolExecutor(max_workers=count + controllers) as pool:
                for started in [
                    pool.submit(self._start, node, chosen)
                    for node in (*self._controllers.values(), *self._nodes.values())
                ]:
                    started.result()
            self.wait_ready()
            undo.pop_all()

    def _make_network(self) -> Any:
        from testcontainers.core.network import Network

        return Network(docker_network_kw={"labels": self._session.labels}).create()

    def _start(self, node: Node, image: str) -> None:
        secure = self._credentials
        node.start(
            image,
            self._version,
            self._properties(node),
            format_options=secure.format_options if secure else "",
            files=secure.files if secure else (),
        )

    # Configuration

    def _voters(self) -> dict[int, str]:
        nodes = self._controllers or {broker: self._nodes[broker] for broker in sorted(self._nodes)[:3]}
        return {number: node.name for number, node in nodes.items()}

    def _properties(self, node: Node) -> dict[str, object]:
        voters = self._voters()
        replicas = min(3, len(self._nodes))
        in_sync = max(1, replicas - 1)
        properties: dict[str, object] = {
            "node.id": node.number,
            "controller.quorum.voters": ",".join(f"{number}@{name}:9093" for number, name in voters.items()),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"INTERNAL:PLAINTEXT,CLIENT:{'SASL_SSL' if self._credentials else 'PLAINTEXT'},CONTROLLER:PLAINTEXT",
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
        if node.number in self._nodes:
            roles.append("broker")
            listeners += ["INTERNAL://:19092", f"CLIENT://:{_CLIENT_PORT}"]
            properties["advertised.listeners"] = (
                f"INTERNAL://{node.name}:19092,CLIENT://127.0.0.1:{self._ports[node.number]}"
            )
            properties["inter.broker.listener.name"] = "INTERNAL"
            if self._racks[node.number] is not None:
                properties["broker.rack"] = self._racks[node.number]
        if node.number in voters:
            roles.append("controller")
            listeners.append("CONTROLLER://:9093")
        properties["process.roles"] = ",".join(roles)
        properties["listeners"] = ",".join(listeners)
        return {**properties, **(self._credentials.properties if self._credentials else {}), **self._extra}

    # What is there

    @property
    def version(self) -> str:
        """The Kafka version that brokers are started with."""
        return self._version

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients on this host: "127.0.0.1:port" of every broker, separated by commas."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def client_config(self) -> dict[str, Any]:
        """Configuration by which kafka-python's clients reach the cluster, security included."""
        return {**super().client_config, **(self._credentials.client_config if self._credentials else {})}

    @property
    def brokers(self) -> Sequence[BrokerInfo]:
        """All brokers, by id."""
        return [
            BrokerInfo(
                id=broker,
                rack=self._racks[broker],
                address=f"127.0.0.1:{self._ports[broker]}",
                version=node.version,
                state=node.state,
            )
            for broker, node in self._nodes.items()
        ]

    def logs(self, broker: int) -> str:
        """What a broker has logged, over all its restarts."""
        return self._node(broker).log()

    def run(self, broker: int, *command: str) -> str:
        """Run a command in a broker's container, such as one of Kafka's tools in /opt/kafka/bin; its standard output."""
        return self._node(broker).run(*command)

    def _node(self, broker: int) -> Node:
        try:
            return self._nodes[broker]
        except KeyError:
            raise ClusterError(f"there is no broker {broker}, only {', '.join(map(str, self._nodes))}") from None

    # Readiness

    def wait_ready(self) -> None:
        """Wait until every broker that was started is registered and unfenced and each partition of `__consumer_offsets` has a leader."""
        from kafka.errors import KafkaError

        running = {broker: self._racks[broker] for broker, node in self._nodes.items() if node.state == "running"}
        self.close_admin()  # it may know brokers that are gone, and a controller that was another
        try:
            for broker in running:
                wait_for(
                    f"broker {broker} knows all of brokers {sorted(running)} and their racks",
                    partial(self._knows, broker, running),
                    self.timeout_ms,
                    also=(KafkaError,),
                )
            wait_for(
                "__consumer_offsets has leaders",
                self._offsets_topic_led,
                self.timeout_ms,
                also=(KafkaError, ClusterError),
            )
        except ClusterError as error:
            tails = "".join(
                f"\n--- {node.name} ({node.state})\n{node.log_excerpt()}"
                for node in (*self._controllers.values(), *self._nodes.values())
            )
            raise ClusterError(f"{error}{tails}") from None

    def _knows(self, broker: int, others: Mapping[int, str | None]) -> bool:
        from kafka import KafkaAdminClient

        for node in (*self._controllers.values(), *self._nodes.values()):
            if node.exit_code not in (None, 137, 143):  # the latter two are what kill_broker and stop_broker leave
                raise ClusterError(f"{node.name} ended by itself with exit code {node.exit_code}")
        if not accepts(self._ports[broker]):
            return False
        with closing(
            KafkaAdminClient(
                **{**self.client_config, "bootstrap_servers": f"127.0.0.1:{self._ports[broker]}"},
                bootstrap_timeout_ms=2000,
            )
        ) as admin:
            known = {found["node_id"]: found["rack"] for found in metadata_from(admin, broker)["brokers"]}
        return known.items() >= others.items()

    def _offsets_topic_led(self) -> bool:
        try:
            partitions = self.describe_topic(CONSUMER_OFFSETS)["partitions"]
        except ClusterError:
            self.admin.list_group_offsets(
                "quorate-readiness"
            )  # asking for a coordinator makes the broker create the topic
            raise
        return all(part["leader_id"] >= 0 for part in partitions)

    # Brokers come and go

    def stop_broker(self, broker: int) -> None:
        """Shut a broker down as an operator does: leaders move away first."""
        self._node(broker).stop(self.timeout_ms)
        self.close_admin()

    def kill_broker(self, broker: int) -> None:
        """End a broker at once, as a crash would."""
        self._node(broker).kill()
        self.close_admin()

    def start_broker(self, broker: int, *, rack: str | None = None) -> None:
        """Start a stopped broker, in another rack if one is given, and wait until it is registered and unfenced."""
        node = self._node(broker)
        if rack is not None:
            self._racks[broker] = rack
        self._start(node, resolve_image(self._version, self._image))
        self.wait_ready()

    def pause_broker(self, broker: int) -> None:
        """Freeze a broker: connections stay open and nothing answers."""
        self._node(broker).pause()

    def resume_broker(self, broker: int) -> None:
        """Let a frozen broker go on."""
        self._node(broker).resume()

    def upgrade(self, version: str) -> None:
        """Move to another Kafka version, node by node, controllers of their own first, on the same data. A lower version is a downgrade.

        Feature levels (metadata.version) stay as they are, so that the way back is open; `admin.update_features` finalises them.
        """
        image = resolve_image(version, self._image)
        self._version = version
        for node in (*self._controllers.values(), *self._nodes.values()):
            node.stop(self.timeout_ms)
            self._start(node, image)
            self.wait_ready()
            self._wait_in_sync()

    def _wait_in_sync(self) -> None:
        def caught_up() -> bool:
            return all(
                set(part["isr_nodes"]) == set(part["replica_nodes"])
                for topic in self.admin.describe_topics()
                for part in topic["partitions"]
            )

        wait_for("all replicas are in sync", caught_up, self.timeout_ms, every_ms=300)

    # The network

    def cut(self, broker: int, *others: int) -> None:
        """Drop all packets between a broker and others, both ways; without others, between it and the clients on this host."""
        node = self._node(broker)
        if not others:
            # Clients come through the published port, so to the broker they are the network's gateway.
            (network,) = node.container.attrs["NetworkSettings"]["Networks"].values()
            self._drop(node, network["Gateway"])
        for other in map(self._node, others):
            self._drop(node, other.address)
            self._drop(other, node.address)

    def _drop(self, node: Node, address: str) -> None:
        node.run("ip", "route", "add", "blackhole", f"{address}/32")
        self._cuts.append((node, address))

    def heal(self) -> None:
        """Undo every `cut`."""
        while self._cuts:
            node, address = self._cuts.pop()
            if node.state == "running":  # the routes of a broker that was restarted went with its container
                node.container.exec_run(["ip", "route", "del", "blackhole", f"{address}/32"], user="root")

    # Files

    def copy_segments(self, destination: Path, topic: str = CONSUMER_OFFSETS, *, broker: int | None = None) -> Path:
        """Copy a topic's log segments as they are on disk (of each partition's leader unless a broker is named) into folders TOPIC-PARTITION."""
        destination.mkdir(parents=True, exist_ok=True)
        for part in self.describe_topic(topic)["partitions"]:
            holder = part["leader_id"] if broker is None else broker
            if holder not in part["replica_nodes"]:
                continue
            chunks, _ = self._node(holder).container.get_archive(f"{DATA}/{topic}-{part['partition_index']}")
            with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
                archive.extractall(destination, filter="data")
        return destination

    def close(self) -> None:
        """End the cluster and remove its data."""
        self.close_admin()
        self._session.close()
        if self._credentials is not None:
            self._credentials.close()
        engine().close()
        engine.cache_clear()

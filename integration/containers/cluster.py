"""`KafkaCluster`: Apache Kafka brokers with racks, in containers."""

import io
import os
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Self

from quorate.cluster.errors import ClusterError
from quorate.cluster.interface import racks_of_brokers
from quorate.codecs import CONSUMER_OFFSETS
from quorate.integration.containers.engine import Session, engine, engine_errors
from quorate.integration.containers.images import DEFAULT_VERSION, IMAGE_VARIABLE, name_image, resolve_image
from quorate.integration.containers.lab import check_name, find_lab, lab_labels, lab_ports
from quorate.integration.containers.node import Node
from quorate.integration.containers.plan import CLIENT_PORT, DATA, ContainersPlan
from quorate.integration.containers.ports import free_ports
from quorate.integration.containers.readiness import ObservedCluster
from quorate.integration.containers.security import Credentials


class KafkaCluster(ObservedCluster):
    """Apache Kafka (KRaft) in containers: a broker per rack, or `brokers` round-robin in `racks`.

    `version`: of Apache Kafka. `image`: see `resolve_image`. `controllers`: number of separate
    controllers; with 0 the first three brokers are controllers, too. `properties`: added to every
    node's server.properties. `security`: of the listener for clients. `client_config` has the
    configs that they need (SASL_SSL: a generated certificate, and a SCRAM-SHA-512 user). `heap_mb`:
    maximum Java heap of a node. `disk_mb`: broker → size of its disk, for `fill_disk`; such a disk
    is in memory, and empty at each start. `ports`: ports of this host, one per broker; free ones by
    default. `on_progress`: called with a description of each step.

    The cluster is ready when the constructor returns. Raises `ClusterError` with the end of the
    logs if it is not ready within `timeout_ms`.

    Containers, networks and volumes have a label, and a watcher process removes them when this
    process ends, also after a crash. With `lab`, a name, they remain after this process. Other
    processes can `attach` to them, until one calls `remove`.
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
        disk_mb: Mapping[int, int] | None = None,
        timeout_ms: int = 120_000,
        lab: str | None = None,
        ports: Sequence[int] | None = None,
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        count = len(racks_of_brokers(brokers, racks))
        image = image or os.environ.get(IMAGE_VARIABLE)  # later starts, also by other processes, use the same
        chosen = resolve_image(version, image, on_progress)
        if lab is not None:
            check_name(lab)
        plan = ContainersPlan.make(
            brokers=brokers,
            racks=racks,
            version=version,
            image=image,
            controllers=controllers,
            properties=properties or {},
            secure=security == "SASL_SSL",
            heap_mb=heap_mb,
            disk_mb=disk_mb or {},
            ports=free_ports(count, lab_ports()) if ports is None else ports,
        )
        with ExitStack() as undo:
            session = Session(lab)
            if lab is None:
                session.watch()
                undo.callback(session.close)
            credentials = None
            if plan.secure:
                on_progress("generating a certificate")
                credentials = Credentials.generate(chosen, session, [plan.names[broker] for broker in plan.ports])
                undo.callback(credentials.close)
            self._set_up(plan, session, credentials, timeout_ms, on_progress)
            undo.callback(self.close_admin)
            with engine_errors("the cluster's network cannot be created"):
                self._network.create()
            if lab is not None:
                # Not earlier: if two processes start a lab of the same name, the second fails to
                # create the network, and must not remove that of the first.
                session.watch()
                undo.callback(session.close)
            self._bring_up(self._nodes.values())
            undo.pop_all()
        if lab is not None:
            session.keep()
            self._attached = True

    @classmethod
    def attach(
        cls, lab: str, *, timeout_ms: int = 120_000, on_progress: Callable[[str], None] = lambda _: None
    ) -> Self:
        """Attach to the lab of this name, whatever the state of its brokers.

        Raises `ClusterError` if it does not exist.
        """
        plan, credentials = find_lab(lab)
        cluster = cls.__new__(cls)
        cluster._set_up(plan, Session(lab), credentials, timeout_ms, on_progress)
        cluster._attached = True
        for node in cluster._nodes.values():
            node.adopt()
        return cluster

    def _set_up(
        self,
        plan: ContainersPlan,
        session: Session,
        credentials: Credentials | None,
        timeout_ms: int,
        on_progress: Callable[[str], None],
    ) -> None:
        from testcontainers.core.network import Network

        self.timeout_ms = timeout_ms
        self._plan = plan
        self._session = session
        self._credentials = credentials
        self._on_progress = on_progress
        self._attached = False
        self._cut: set[int] = set()
        """Nodes that this process has cut off from others."""
        labels = {**session.labels, **lab_labels(plan, credentials)}
        self._network: Network = Network(docker_network_kw={"labels": labels, "check_duplicate": True})
        self._network.name = f"quorate-{session.name}"
        self._nodes = {
            number: Node(
                number=number,
                name=name,
                session=session,
                network=self._network,
                ports={plan.ports[number]: CLIENT_PORT} if number in plan.ports else {},
                heap_mb=plan.heap_mb,
                environment={"CLUSTER_ID": plan.cluster_id},
                version=plan.version,
                rack=plan.racks.get(number),
                disk_mb=plan.disk_mb.get(number),
            )
            for number, name in plan.names.items()
        }

    def _bring_up(self, nodes: Iterable[Node], version: str | None = None, rack: str | None = None) -> None:
        """Start nodes in parallel, and wait until they are ready."""
        chosen = list(nodes)
        self._on_progress(f"starting {', '.join(node.name for node in chosen)}")
        with ThreadPoolExecutor(max_workers=max(1, len(chosen))) as pool:
            for started in [pool.submit(self._start, node, version, rack) for node in chosen]:
                started.result()
        self.wait_ready()

    def _start(self, node: Node, version: str | None = None, rack: str | None = None) -> None:
        """Start a node, by default with its last version and rack. `rack`: "" for none."""
        version = version or node.version
        rack = node.rack if rack is None else rack or None
        secure = self._credentials
        node.start(
            self._image_of(version),
            version,
            rack,
            self._plan.server_properties(node.number, rack, secure.properties if secure else {}),
            format_options=secure.format_options if secure else "",
            files=secure.files if secure else (),
        )

    def _image_of(self, version: str) -> str:
        image = self._plan.image
        same = image is not None and name_image(image, version) == name_image(image, self._plan.version)
        if same and version != self._plan.version:
            raise ClusterError(
                f"the image {image} is for Kafka {self._plan.version} only, not for {version}",
                "write {version} instead of the version in the image's name, or leave out the tag",
            )
        return resolve_image(version, image, self._on_progress)

    # Properties of the cluster

    @property
    def plan(self) -> ContainersPlan:
        """Configuration with which the cluster was first started."""
        return self._plan

    @property
    def start_notes(self) -> Sequence[str]:
        """Reports of the first start: configs that brokers ignore."""
        return self._plan.ignored

    @property
    def lab_name(self) -> str | None:
        """Name of the lab; `None` if the cluster ends with this process."""
        return self._session.name if self._attached else None

    @property
    def image(self) -> str:
        """Image of the first broker; empty if it was never started."""
        return self._nodes[min(self._plan.ports)].image

    @property
    def client_config(self) -> dict[str, Any]:
        """Configuration for kafka-python's clients, including security."""
        return {**super().client_config, **(self._credentials.client_config if self._credentials else {})}

    def logs(self, broker: int) -> str:
        """Return the log of a broker, over all its restarts."""
        return self._node(broker).log()

    def run(self, broker: int, *command: str) -> str:
        """Run a command in a broker's container, and return its standard output.

        Kafka's tools are in /opt/kafka/bin.
        """
        return self._node(broker).run(*command)

    # Starting and stopping brokers

    def stop_broker(self, broker: int) -> None:
        """Shut a broker down cleanly: leaders move away first."""
        node = self._node(broker)
        self._on_progress(f"stopping {node.name}")
        node.stop(self.stop_timeout_ms)
        self.close_admin()

    def kill_broker(self, broker: int) -> None:
        """Kill a broker at once, as a crash would."""
        self._node(broker).kill()
        self.close_admin()

    def start_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """Start a stopped broker, and wait until it is registered and unfenced.

        `rack`: another rack, "" for none. `version`: another Kafka version.
        """
        self.start_brokers(broker, rack=rack, version=version)

    def start_brokers(self, *brokers: int, rack: str | None = None, version: str | None = None) -> None:
        """Start several brokers in parallel.

        One by one they would not get ready, if they are needed for a majority of controllers.
        """
        self._bring_up([self._node(broker) for broker in brokers], version, rack)

    def restart_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """Call `stop_broker`, then `start_broker`."""
        if version is not None:
            self._image_of(version)  # fails before the broker is stopped
        self.stop_broker(broker)
        self.start_broker(broker, rack=rack, version=version)

    def start_all(self) -> None:
        """Resume paused nodes, start stopped ones, controllers included, and wait for all."""
        for node in self._nodes.values():
            node.resume()
        self._bring_up([node for node in self._nodes.values() if node.state == "stopped"])

    def pause_broker(self, broker: int) -> None:
        """Freeze a broker: connections stay open, and it does not respond."""
        self._node(broker).pause()
        self.close_admin()

    def resume_broker(self, broker: int) -> None:
        """Resume a frozen broker."""
        self._node(broker).resume()
        self.close_admin()

    def upgrade(self, version: str) -> None:
        """Upgrade or downgrade to another Kafka version on the same data, node by node.

        Separate controllers come first. Feature levels (metadata.version) do not change, so that a
        downgrade stays possible; `admin.update_features` finalizes them.
        """
        self._image_of(version)
        for node in self._nodes.values():
            self._on_progress(f"upgrading {node.name} from {node.version} to {version}")
            node.stop(self.stop_timeout_ms)
            self._start(node, version)
            self.wait_ready()
            self.wait_in_sync()

    # The network

    def cut(self, broker: int, *others: int) -> None:
        """Drop all packets between a broker and `others`, in both directions.

        Without others: between the broker and the clients on this host.
        """
        node = self._node(broker)
        if broker in others:
            raise ClusterError(f"broker {broker} cannot be cut off from itself")
        if not others:
            # Clients connect through the published port, so that the broker sees the network's
            # gateway.
            (network,) = node.container.attrs["NetworkSettings"]["Networks"].values()
            self._drop(node, network["Gateway"])
        for other in map(self._node, others):
            self._drop(node, other.address)
            self._drop(other, node.address)

    def _drop(self, node: Node, address: str) -> None:
        node.run("ip", "route", "replace", "blackhole", f"{address}/32")
        self._cut.add(node.number)

    def heal(self) -> None:
        """Undo every `cut`, also those of other processes."""
        # Other processes only know labs. Listing a node's routes takes 80 ms of CPU time.
        for number in list(self._nodes if self._attached else self._cut):
            node = self._nodes[number]
            if node.state == "running":  # a new container has no such routes
                for route in node.run("ip", "route").splitlines():
                    if route.startswith("blackhole"):
                        node.run("ip", "route", "del", *route.split()[:2])
                self._cut.discard(number)
        # TCP retransmits at growing intervals. On old connections, requests would wait once more
        # for as long as the cut lasted.
        self.close_admin()

    # Files

    def fill_disk(self, broker: int) -> None:
        """Fill a broker's disk. Raises `ClusterError` if its size is not limited (`disk_mb`)."""
        node = self._node(broker)
        if node.disk_mb is None:
            raise ClusterError(
                f"{node.name} has no disk of limited size", f"start the cluster with disk_mb={{{broker}: 64}}"
            )
        node.run("sh", "-c", f"dd if=/dev/zero of={DATA}/filler bs=64k 2>/dev/null || true")

    def copy_segments(self, destination: Path, topic: str = CONSUMER_OFFSETS, *, broker: int | None = None) -> Path:
        """Copy a topic's log segments from disk into folders TOPIC-PARTITION.

        They are those of each partition's leader, or of `broker`.
        """
        destination.mkdir(parents=True, exist_ok=True)
        for part in self.describe_topic(topic)["partitions"]:
            holder = part["leader_id"] if broker is None else broker
            if holder not in part["replica_nodes"]:
                continue
            chunks, _ = self._node(holder).container.get_archive(f"{DATA}/{topic}-{part['partition_index']}")
            with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
                archive.extractall(destination, filter="data")
        return destination

    def remove(self) -> None:
        """Stop the cluster and remove its data, also if it is a lab."""
        self._attached = False
        self.close()

    def close(self) -> None:
        """Stop the cluster and remove its data.

        A lab keeps running; this process detaches from it.
        """
        self.close_admin()
        if not self._attached:
            self._session.close()
        if self._credentials is not None:
            self._credentials.close()
        engine().close()
        engine.cache_clear()

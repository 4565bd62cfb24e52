"""`KafkaCluster`: real brokers with racks, in containers, in one call."""

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

__all__ = ["KafkaCluster"]


class KafkaCluster(ObservedCluster):
    """Apache Kafka (KRaft) in containers: a broker per rack, or `brokers` of them in turn in `racks`.

    `version`: of Apache Kafka; `image`: see `resolve_image`. `controllers`: 0 for brokers that are
    controllers as well (the first three), otherwise that many controllers of their own.
    `properties`: added to every node's server.properties. `security`: of the listener for clients;
    `client_config` has what they need (SASL_SSL: a certificate of its own, and a user by
    SCRAM-SHA-512). `heap_mb`: largest Java heap of a node. `disk_mb`: broker → size of its disk,
    for those that `fill_disk` is to fill; such a disk is memory, and empty whenever the broker
    starts. `ports`: of this host, one for each broker; free ones by default. `on_progress` is told
    what is being done. The cluster is up and ready when the constructor returns. Raises
    `ClusterError`, with the end of the logs, if it does not come up within `timeout_ms`.

    Nothing outlives this process: containers, networks and volumes carry a label, and a watcher
    removes them when the process ends, even by a crash. With `lab`, a name, they stay once the
    cluster is ready, for other processes to find with `attach`, until one calls `remove`.
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
        image = image or os.environ.get(IMAGE_VARIABLE)  # later starts, by other processes too, are to be the same
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
                on_progress("making a certificate")
                credentials = Credentials.make(chosen, session, [plan.names[broker] for broker in plan.ports])
                undo.callback(credentials.close)
            self._set_up(plan, session, credentials, timeout_ms, on_progress)
            undo.callback(self.close_admin)
            with engine_errors("the cluster's network cannot be made"):
                self._network.create()
            if lab is not None:
                # Not earlier: where two start a lab of one name, the second fails at the network,
                # and must not remove the first's.
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
        """The lab of this name, which another process has started; whatever state its brokers are in.

        Raises `ClusterError` if there is none.
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
        self._tell = on_progress
        self._attached = False
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
        """Start nodes at the same time, and wait for all of them."""
        chosen = list(nodes)
        self._tell(f"starting {', '.join(node.name for node in chosen)}")
        with ThreadPoolExecutor(max_workers=max(1, len(chosen))) as pool:
            for started in [pool.submit(self._start, node, version, rack) for node in chosen]:
                started.result()
        self.wait_ready()

    def _start(self, node: Node, version: str | None = None, rack: str | None = None) -> None:
        """Start a node, by default as it was. `rack`: "" for none."""
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
                f"the image {image} was named for Kafka {self._plan.version}, so there is none for {version}",
                "name images with {version} in the place of the version, or without a tag",
            )
        return resolve_image(version, image, self._tell)

    # What is there

    @property
    def plan(self) -> ContainersPlan:
        """What it was started as."""
        return self._plan

    @property
    def lab_name(self) -> str | None:
        """The name under which it goes on without this process; `None` if it does not."""
        return self._session.name if self._attached else None

    @property
    def image(self) -> str:
        """The image that the first broker runs from; empty if it was never started."""
        return self._nodes[min(self._plan.ports)].image

    @property
    def client_config(self) -> dict[str, Any]:
        """Configuration by which kafka-python's clients reach the cluster, security included."""
        return {**super().client_config, **(self._credentials.client_config if self._credentials else {})}

    def logs(self, broker: int) -> str:
        """What a broker has logged, over all its restarts."""
        return self._node(broker).log()

    def run(self, broker: int, *command: str) -> str:
        """Run a command in a broker's container, such as one of Kafka's tools in /opt/kafka/bin; its standard output."""
        return self._node(broker).run(*command)

    # Brokers come and go

    def stop_broker(self, broker: int) -> None:
        """Shut a broker down as an operator does: leaders move away first."""
        node = self._node(broker)
        self._tell(f"stopping {node.name}")
        node.stop(self.stop_timeout_ms)
        self.close_admin()

    def kill_broker(self, broker: int) -> None:
        """End a broker at once, as a crash would."""
        self._node(broker).kill()
        self.close_admin()

    def start_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """Start a stopped broker, in another rack ("" for none) or with another Kafka version if one is given, and wait until it is registered and unfenced."""
        self.start_brokers(broker, rack=rack, version=version)

    def start_brokers(self, *brokers: int, rack: str | None = None, version: str | None = None) -> None:
        """Start several at the same time: alone, one that is needed for a majority of controllers would not get ready."""
        self._bring_up([self._node(broker) for broker in brokers], version, rack)

    def restart_broker(self, broker: int, *, rack: str | None = None, version: str | None = None) -> None:
        """`stop_broker`, then `start_broker`."""
        if version is not None:
            self._image_of(version)  # before the broker is stopped for nothing
        self.stop_broker(broker)
        self.start_broker(broker, rack=rack, version=version)

    def start_all(self) -> None:
        """Let frozen brokers go on, start those that are stopped, controllers included, and wait until all are ready."""
        for node in self._nodes.values():
            node.resume()
        self._bring_up([node for node in self._nodes.values() if node.state == "stopped"])

    def pause_broker(self, broker: int) -> None:
        """Freeze a broker: connections stay open and nothing answers."""
        self._node(broker).pause()
        self.close_admin()

    def resume_broker(self, broker: int) -> None:
        """Let a frozen broker go on."""
        self._node(broker).resume()
        self.close_admin()

    def upgrade(self, version: str) -> None:
        """Move to another Kafka version, node by node, controllers of their own first, on the same data.

        A lower version is a downgrade.

        Feature levels (metadata.version) stay as they are, so that the way back is open;
        `admin.update_features` finalises them.
        """
        self._image_of(version)
        for node in self._nodes.values():
            self._tell(f"moving {node.name} from {node.version} to {version}")
            node.stop(self.stop_timeout_ms)
            self._start(node, version)
            self.wait_ready()
            self.wait_in_sync()

    # The network

    def cut(self, broker: int, *others: int) -> None:
        """Drop all packets between a broker and others, both ways; without others, between it and the clients on this host."""
        node = self._node(broker)
        if broker in others:
            raise ClusterError(f"broker {broker} cannot be cut off from itself")
        if not others:
            # Clients come through the published port, so to the broker they are the network's
            # gateway.
            (network,) = node.container.attrs["NetworkSettings"]["Networks"].values()
            self._drop(node, network["Gateway"])
        for other in map(self._node, others):
            self._drop(node, other.address)
            self._drop(other, node.address)

    def _drop(self, node: Node, address: str) -> None:
        node.run("ip", "route", "replace", "blackhole", f"{address}/32")

    def heal(self) -> None:
        """Undo every `cut`, whoever made it."""
        for node in self._nodes.values():
            if node.state == "running":  # the routes of a broker that is started anew go with its container
                for route in node.run("ip", "route").splitlines():
                    if route.startswith("blackhole"):
                        node.run("ip", "route", "del", *route.split()[:2])
        # TCP sends again at growing intervals: over old connections, requests wait once more for as
        # long as the cut was.
        self.close_admin()

    # Files

    def fill_disk(self, broker: int) -> None:
        """Write a broker's disk full.

        Raises `ClusterError` if the disk is not one of a limited size (`disk_mb`).
        """
        node = self._node(broker)
        if node.disk_mb is None:
            raise ClusterError(
                f"{node.name} has no disk of its own to fill", f"start the cluster with disk_mb={{{broker}: 64}}"
            )
        node.run("sh", "-c", f"dd if=/dev/zero of={DATA}/filler bs=64k 2>/dev/null || true")

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

    def remove(self) -> None:
        """End the cluster and remove its data, also if it is a lab."""
        self._attached = False
        self.close()

    def close(self) -> None:
        """End the cluster and remove its data. A lab goes on: this process only lets go of it."""
        self.close_admin()
        if not self._attached:
            self._session.close()
        if self._credentials is not None:
            self._credentials.close()
        engine().close()
        engine.cache_clear()

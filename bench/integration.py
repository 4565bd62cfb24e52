"""Compare start time and memory of a cluster in containers with one broker of testcontainers.

Ours has three brokers in three racks. The peer is started like testcontainers' KafkaContainer (with
our image, because its own is another vendor's): one broker with Kafka's defaults, ready when it has
logged that it started. Ours is ready when every broker is registered with all others and the
offsets topic has leaders. So the second case measures what a test waits for: a group's first
message. Memory is that of the containers without reclaimable page cache. Each figure is the median
of several alternating starts.
"""

import statistics
import sys
import time
import uuid
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _report import Report
from docker.models.containers import Container

from quorate.integration import KafkaCluster
from quorate.integration.containers.engine import LABEL, engine
from quorate.integration.containers.images import resolve_image
from quorate.integration.containers.ports import free_ports

MIB = 1024 * 1024
ONE_BROKER = """node.id=1
process.roles=broker,controller
controller.quorum.voters=1@localhost:9093
controller.listener.names=CONTROLLER
listeners=CLIENT://:9092,CONTROLLER://:9093
advertised.listeners=CLIENT://127.0.0.1:{port}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
offsets.topic.replication.factor=1
log.dirs=/tmp/data
"""
START = """set -e
/opt/kafka/bin/kafka-storage.sh format --cluster-id=bGFiMDAwMDAwMDAwMDAwMA --config /tmp/server.properties >/dev/null
exec /opt/kafka/bin/kafka-server-start.sh /tmp/server.properties
"""


@dataclass
class Figures:
    """Figures of one kind of cluster, one for each start."""

    ready_s: list[float] = field(default_factory=list)
    message_s: list[float] = field(default_factory=list)
    memory_mib: list[float] = field(default_factory=list)
    gone_s: list[float] = field(default_factory=list)


@contextmanager
def our_cluster(racks: list[str]) -> Iterator[str]:
    with KafkaCluster(racks=racks) as cluster:
        yield cluster.bootstrap_servers


@contextmanager
def one_broker() -> Iterator[str]:
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    testcontainers_config.ryuk_disabled = True  # its image is for registries; the block below removes the container
    (port,) = free_ports(1)
    container = DockerContainer(
        resolve_image("4.3.1"),
        command="sh /tmp/start.sh",
        entrypoint="",
        user="root",
        labels={LABEL: "bench"},
        transferables=[
            (ONE_BROKER.format(port=port).encode(), "/tmp/server.properties", 0o644),
            (START.encode(), "/tmp/start.sh", 0o644),
        ],
    ).waiting_for(LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(120))
    ports: dict[Any, Any] = container.ports
    ports[9092] = ("127.0.0.1", port)
    with container:
        yield f"127.0.0.1:{port}"


def first_message(servers: str) -> None:
    """Create a topic, produce a message, and consume it in a group."""
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics({"orders": {"num_partitions": 3, "replication_factor": 1}})
    producer = KafkaProducer(bootstrap_servers=servers)
    producer.send("orders", b"one").get(60)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id=uuid.uuid4().hex,
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    if next(consumer).value != b"one":
        raise SystemExit("error: the consumed message is not the produced one")
    consumer.close()
    admin.close()


def memory_bytes(containers: list[Container]) -> int:
    def used(container: Container) -> int:
        stats = container.stats(stream=False)["memory_stats"]
        return int(stats["usage"]) - int(
            stats["stats"].get("inactive_file", stats["stats"].get("total_inactive_file", 0))
        )

    return sum(map(used, containers))


def measure(start: Callable[[], Any], figures: Figures) -> None:
    before = {container.id for container in engine().containers.list()}
    begin = time.perf_counter()
    with start() as servers:
        figures.ready_s.append(time.perf_counter() - begin)
        first_message(servers)
        figures.message_s.append(time.perf_counter() - begin)
        ours = [one for one in engine().containers.list(filters={"label": LABEL}) if one.id not in before]
        figures.memory_mib.append(memory_bytes(ours) / MIB)
        ending = time.perf_counter()
    figures.gone_s.append(time.perf_counter() - ending)


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument(
        "--starts", type=int, default=5, help="starts of each kind (default: 5; with --quick and --smoke 1)"
    )
    report = Report("Clusters for tests", __doc__ or "", parser)
    ours, peer = Figures(), Figures()
    racks = report.pick(["a", "b", "c"], quick=["a", "b", "c"], smoke=["a"])
    for _ in range(report.pick(report.options.starts, quick=1, smoke=1)):
        measure(one_broker, peer)
        measure(partial(our_cluster, racks), ours)
    what, name = report.pick("three racks", quick="three racks", smoke="one rack"), "one broker, by log line"
    for case, unit, pick in (
        (f"{what}: start to ready", "s", lambda figures: figures.ready_s),
        (f"{what}: start to a group's first message", "s", lambda figures: figures.message_s),
        (f"{what}: removed", "s", lambda figures: figures.gone_s),
        (f"{what}: memory", "MiB", lambda figures: figures.memory_mib),
    ):
        report.cost(
            case, statistics.median(pick(ours)), statistics.median(pick(peer)), name, unit, least=min(pick(ours))
        )
    report.finish()


if __name__ == "__main__":
    main()

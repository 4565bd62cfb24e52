"""Servers of bench/cluster.py: an embedded cluster in another process, and a real broker."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from _measure import cpu_s, resident_mib

REAL = "real broker"
_SERVE = """
import json, sys
from quorate.cluster import EmbeddedCluster
properties = {"offsets.topic.num.partitions": 4, "default.replication.factor": 1}
properties |= {"group.consumer.assignment.interval.ms": 0, "group.initial.rebalance.delay.ms": 0}
properties |= {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.min.heartbeat.interval.ms": 100}
properties |= {"group.streams.heartbeat.interval.ms": 100}
properties |= json.loads(sys.argv[2])
with EmbeddedCluster(brokers=1, properties=properties, data=sys.argv[1] or None) as cluster:
    print(cluster.bootstrap_servers, flush=True)
    sys.stdin.readline()
"""
_AT_ONCE = {
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.heartbeat.interval.ms": 100,
    "group.streams.min.heartbeat.interval.ms": 100,
}
_KAFKAS_JVM = "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
"""The JVM options of Kafka's own scripts. The brokers of the tests only use the C1 compiler, which
would not be a fair comparison.
"""


@dataclass
class Server:
    """A running server.

    `pid`: the measured process, 0 if it is not visible here; `name`: the name in the report;
    `warm_s`: seconds of warm-up.
    """

    address: str
    pid: int = 0
    name: str = "quorate"
    warm_s: float = 0.3

    @property
    def cpu_s(self) -> float:
        return cpu_s(self.pid) if self.pid else 0.0

    @property
    def resident_mib(self) -> float:
        return resident_mib(self.pid) if self.pid else 0.0

    @contextmanager
    def bound_to(self, core: int) -> Iterator[None]:
        """Run all current threads of the server on one core."""
        everywhere = os.sched_getaffinity(0)
        try:
            self._bind({core})
            yield
        finally:
            self._bind(everywhere)

    def _bind(self, cores: set[int]) -> None:
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores)


@contextmanager
def one_core(server: Server, core: int) -> Iterator[None]:
    """Run a server on one core, and this process on all others, if there are any."""
    everywhere = os.sched_getaffinity(0)
    with server.bound_to(core):
        try:
            os.sched_setaffinity(0, everywhere - {core} or everywhere)
            yield
        finally:
            os.sched_setaffinity(0, everywhere)


@contextmanager
def embedded(data: str = "", **properties: object) -> Iterator[Server]:
    """Start an embedded cluster; `data`: its directory, empty for memory; `properties`: configs."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVE, data, json.dumps(properties)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise SystemExit("error: the embedded cluster did not start; see above")
        yield Server(address, process.pid)
        process.stdin.close()


@contextmanager
def real() -> Iterator[Server]:
    from quorate.integration import KafkaCluster
    from quorate.integration.containers import node

    node._ENVIRONMENT["KAFKA_JVM_PERFORMANCE_OPTS"] = _KAFKAS_JVM
    with KafkaCluster(racks=["a"], heap_mb=1024, properties=_AT_ONCE) as cluster:
        (broker,) = cluster._nodes.values()
        broker.container.reload()
        pid = int(broker.container.attrs["State"]["Pid"])
        status = Path(f"/proc/{pid}/stat")  # missing if the engine runs in a virtual machine
        seen = status.exists() and "(java)" in status.read_text()
        yield Server(cluster.bootstrap_servers, pid if seen else 0, REAL, 6)

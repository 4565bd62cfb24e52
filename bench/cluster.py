"""How fast the embedded cluster is, beside a real broker in a container and kfake: starting, heartbeats, a join storm, produce and fetch, connections, memory.

Both are asked over sockets of 127.0.0.1 by the same client. The embedded cluster runs in a process of its own for what is asked of it, so that the client's
work does not count as the server's; starting and stopping is measured inside one. `--no-peer` leaves the real broker out; kfake (franz-go's embedded cluster, compiled)
is left out where there is no Go.
"""

import os
import resource
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory

sys.path.append(str(Path(__file__).parent))  # behind everything: `codecs` stays the standard library's

from _kfake import Kfake, kfake
from _report import Report
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from quorate.cluster import EmbeddedCluster
from quorate.codecs import Uuid
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, decode_api, encode_api
from quorate.codecs.api.broker import FindCoordinatorRequest, FindCoordinatorResponse
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions

PEER = "Kafka 4.3.1, one broker in a container"
KFAKE = "kfake (Go)"
SERVE = """
import sys, time
from quorate.cluster import EmbeddedCluster
properties = {"offsets.topic.num.partitions": 4, "group.consumer.assignment.interval.ms": 0, "default.replication.factor": 1}
with EmbeddedCluster(brokers=1, properties=properties, data=sys.argv[1] or None) as cluster:
    print(cluster.bootstrap_servers, flush=True)
    sys.stdin.readline()
"""
_HEADER = Struct(">hhih")


@dataclass
class Server:
    """Something to ask. `pid`: of the process whose memory and time count; `None` where it cannot be looked at."""

    address: str
    pid: int | None = None

    @property
    def cpu_s(self) -> float:
        if self.pid is None:
            return 0.0
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident_mib(self) -> float:
        if self.pid is None:
            return 0.0
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


@contextmanager
def embedded(data: str = "") -> Iterator[Server]:
    """`data`: the directory that it keeps everything in; empty: memory."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SERVE, data], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Server(process.stdout.readline().strip(), process.pid)
        process.stdin.close()


@contextmanager
def real() -> Iterator[Server]:
    from quorate.integration import KafkaCluster

    with KafkaCluster(racks=["a"], properties={"group.consumer.assignment.interval.ms": 0}) as cluster:
        yield Server(cluster.bootstrap_servers)


class Wire:
    """Requests, one after the other, over one connection."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def frame(self, key: int, version: int, body: bytes) -> bytes:
        head = _HEADER.pack(key, version, 1, -1) + b"\0"
        return (len(head) + len(body)).to_bytes(4, "big") + head + body

    def ask(self, frame: bytes) -> bytes:
        self.socket.sendall(frame)
        return self.receive()

    def receive(self) -> bytes:
        found = self.socket.recv(65_536)
        size = 4 + int.from_bytes(found[:4], "big")
        while len(found) < size:
            found += self.socket.recv(65_536)
        return found


def make_topic(server: Server, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.address})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result()


def find_coordinator(wire: Wire, group: str) -> None:
    """Have the broker be a group's coordinator."""
    frame = wire.frame(10, 4, encode_api(FindCoordinatorRequest(coordinator_keys=(group,)), 4))
    while decode_api(FindCoordinatorResponse, wire.ask(frame), 4, position=9).coordinators[0].error_code:
        time.sleep(0.2)


def heartbeats(server: Server, seconds: float) -> tuple[float, float]:
    """Per second by the clock, one after the other; and per second of the server's own time."""
    make_topic(server, "beats", 4)
    wire = Wire(server.address)
    find_coordinator(wire, "g")
    epoch = 0
    for _ in range(100):
        body = encode_api(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=epoch,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=("beats",),
                topic_partitions=(),
            ),
            1,
        )
        answer = decode_api(ConsumerGroupHeartbeatResponse, wire.ask(wire.frame(68, 1, body)), 1, position=9)
        if not answer.error_code:
            epoch = answer.member_epoch
            break
        time.sleep(0.2)
    beat = wire.frame(
        68, 1, encode_api(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch), 1)
    )
    assert decode_api(ConsumerGroupHeartbeatResponse, wire.ask(beat), 1, position=9).error_code == 0
    best = best_cpu = 0.0
    for _ in range(3):
        count, cpu, started = 0, server.cpu_s, time.perf_counter()
        while time.perf_counter() - started < seconds / 3:
            for _ in range(100):
                wire.ask(beat)
            count += 100
        best = max(best, count / (time.perf_counter() - started))
        used = server.cpu_s - cpu
        best_cpu = max(best_cpu, count / used if used else 0.0)
    return best, best_cpu


def storm(server: Server, count: int) -> tuple[float, float]:
    """Seconds until so many members that join at once, each on a connection of its own, own one partition each (KIP-848); and the heartbeats that it took."""
    make_topic(server, "storm", count)
    with ExitStack() as sockets:
        members = [_Member(Wire(server.address), f"m{number}") for number in range(count)]
        for member in members:
            sockets.enter_context(member.wire.socket)
        find_coordinator(members[0].wire, "storm")
        started, beats = time.perf_counter(), 0
        while any(len(member.owned) != 1 for member in members) or len({member.epoch for member in members}) != 1:
            for member in members:
                member.wire.socket.sendall(member.beat())
            for member in members:
                member.hear()
            beats += len(members)
            if time.perf_counter() - started > 60:
                raise SystemExit("error: the group does not come to rest within 60 s")
        assert len({one for member in members for one in member.owned}) == count
        return time.perf_counter() - started, beats


@dataclass
class _Member:
    """One of a storm. `owned`: partitions; `news`: whether to tell them."""

    wire: Wire
    id: str
    epoch: int = 0
    owned: tuple[int, ...] = ()
    topic_id: Uuid = Uuid.ZERO
    news: bool = True

    def beat(self) -> bytes:
        joins = self.epoch == 0
        held = (TopicPartitions(topic_id=self.topic_id, partitions=self.owned),) if self.owned else ()
        request = ConsumerGroupHeartbeatRequest(
            group_id="storm",
            member_id=self.id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=("storm",) if joins else None,
            topic_partitions=held if self.news else None,
        )
        self.news = False
        return self.wire.frame(68, 1, encode_api(request, 1))

    def hear(self) -> None:
        answer = decode_api(ConsumerGroupHeartbeatResponse, self.wire.receive(), 1, position=9)
        if answer.error_code:
            time.sleep(0.01)  # a real broker may still load the coordinator
            self.news = True
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.owned = tuple(part for topic in topics for part in topic.partitions)
            self.topic_id = topics[0].topic_id if topics else self.topic_id
            self.news = True


def throughput(server: Server, mib: int) -> tuple[float, float]:
    """MiB per second through librdkafka: produced, and fetched."""
    make_topic(server, "bytes", 1)
    value = os.urandom(1000)
    count = mib * 1024
    producer = Producer({"bootstrap.servers": server.address, "linger.ms": 5, "queue.buffering.max.messages": 200_000})
    started = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce("bytes", value)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0
    produced = count / 1024 / (time.perf_counter() - started)
    consumer = Consumer({"bootstrap.servers": server.address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition("bytes", 0, 0)])
    found, started = 0, time.perf_counter()
    while found < count:
        found += len(consumer.consume(min(10_000, count - found), 5))
    fetched = count / 1024 / (time.perf_counter() - started)
    consumer.close()
    return produced, fetched


def connections(server: Server, count: int) -> tuple[float, float]:
    """Seconds until that many are open and were answered, and MiB that they took."""
    before = server.resident_mib
    started = time.perf_counter()
    with ExitStack() as all_of_them:
        wires = [Wire(server.address) for _ in range(count)]
        for wire in wires:
            all_of_them.enter_context(wire.socket)
        ask = wires[0].frame(18, 3, b"\x02w\x021\0")
        for wire in wires:
            wire.ask(ask)
        return time.perf_counter() - started, server.resident_mib - before


def life(report: Report, peer: Kfake | None) -> None:
    """Starting and stopping three brokers, in this process."""
    starts, stops = [], []
    for _ in range(5 if report.quick else 20):
        cluster = EmbeddedCluster(brokers=3, racks=["a", "b", "c"])
        begin = time.perf_counter()
        cluster.__enter__()
        starts.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        cluster.__exit__(None, None, None)
        stops.append(time.perf_counter() - begin)
    began, ended = (None, None) if peer is None else (peer.start_ms, peer.stop_ms)
    report.cost("three brokers ready", 1000 * min(starts), began, KFAKE, "ms", "< 10")
    report.cost("three brokers stopped", 1000 * min(stops), ended, KFAKE, "ms", "< 5")


def disk(report: Report) -> None:
    """Produce to a directory and to memory, by turns; the best of each."""
    rates: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for turn in range(4 if report.quick else 6):
        on_disk = turn % 2 == 1
        with TemporaryDirectory() as folder, embedded(folder if on_disk else "") as server:
            rates[on_disk].append(throughput(server, 16 if report.quick else 200))
    for place, what in enumerate(("produce", "fetch")):
        ours, memory = (max(one[place] for one in rates[on_disk]) for on_disk in (True, False))
        report.rate(f"{what}, kept in a directory", ours, memory, "in memory", "MiB/s", "ratio ≥ 0.5")


def both(measure: Callable[[Server], tuple[float, float]], peer: Server | None) -> tuple[tuple[float, float], ...]:
    """Ours and the peer's, by turns."""
    with embedded() as ours:
        found = measure(ours)
    return found, measure(peer) if peer is not None else (0.0, 0.0)


def compiled(report: Report, peer: Kfake | None) -> None:
    """What kfake serves, too."""
    server = None if peer is None else Server(peer.address, peer.pid)
    ours, theirs = both(lambda one: heartbeats(one, 2 if report.quick else 9), server)
    case = "KIP-848 heartbeats, one after the other"
    report.rate(
        case,
        ours[0],
        theirs[0] or None,
        KFAKE,
        "1/s",
        per_s_of_server_time=ours[1],
        peer_per_s_of_server_time=theirs[1],
    )
    ours, theirs = both(lambda one: throughput(one, 32 if report.quick else 200), server)
    report.rate("produce, librdkafka", ours[0], theirs[0] or None, KFAKE, "MiB/s")
    report.rate("fetch, librdkafka", ours[1], theirs[1] or None, KFAKE, "MiB/s")
    count = 100 if report.quick else 500
    ours, theirs = both(lambda one: storm(one, count), server)
    report.cost(f"join storm of {count} members", ours[0], theirs[0] or None, KFAKE, "s", heartbeats=ours[1])


def main() -> None:
    """All cases."""
    parser = ArgumentParser()
    parser.add_argument("--no-peer", action="store_true", help="without a real broker")
    report = Report("The embedded cluster", __doc__.splitlines()[0], parser)
    with kfake() as peer_in_go:
        life(report, peer_in_go)
        compiled(report, peer_in_go)
    with ExitStack() as stack:
        peer = None if report.options.no_peer else stack.enter_context(real())
        ours, theirs = both(lambda server: heartbeats(server, 2 if report.quick else 9), peer)
        report.rate(
            "KIP-848 heartbeats, one after the other",
            ours[0],
            theirs[0] or None,
            PEER,
            "1/s",
            "≥ 20 k/s on one core, ratio ≥ 5",
            per_s_of_server_time=ours[1],
        )
        ours, theirs = both(lambda server: throughput(server, 32 if report.quick else 200), peer)
        report.rate("produce, librdkafka", ours[0], theirs[0] or None, PEER, "MiB/s", "ratio ≥ 0.5")
        report.rate("fetch, librdkafka", ours[1], theirs[1] or None, PEER, "MiB/s", "ratio ≥ 0.5")
        count = 100 if report.quick else 500
        ours, theirs = both(lambda one: storm(one, count), peer)
        report.cost(f"join storm of {count} members", ours[0], theirs[0] or None, PEER, "s", heartbeats=ours[1])
    disk(report)
    with embedded() as server:
        report.cost("memory after the start", server.resident_mib, None, "", "MiB", "< 100")
        seconds, mib = connections(server, 1000)
        report.cost("1,000 connections opened and answered", seconds, None, "", "s", mib=mib)
    report.finish()


if __name__ == "__main__":
    main()

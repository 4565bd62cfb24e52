"""Compare the speed of the embedded cluster with a real broker in a container, and with kfake.

Measures the start, heartbeats, join storms, produce and fetch, share fetches, an application of
Kafka Streams, connections, and memory. All servers get requests of the same client over 127.0.0.1.
The client for heartbeats is in Go if it is installed, so that the server is the bottleneck. The
embedded cluster runs in its own process, so that its CPU time does not include the client's; its
start and stop are measured in one process.
`--no-peer` omits the real broker; kfake (franz-go's embedded cluster) is omitted without Go.
`--only` measures some cases. With `--smoke` the only peer is another embedded cluster, and the
client is in Python: nothing is compiled, and no container starts.
"""

import os
import sys
import time
import uuid
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _kfake import Kfake, kfake
from _report import Report
from _sender import client, send, use_python
from _servers import REAL, Server, embedded, real
from _shares import shared_records
from _storms import classic_storm, storm
from _streams import first_result, missing
from _wire import CLIENT, Wire, find_coordinator, make_topic
from confluent_kafka import Consumer, Producer, TopicPartition

from quorate.cluster import EmbeddedCluster
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.broker import ApiVersionsRequest
from quorate.integration.verify.wire import framed

KFAKE = "kfake (Go)"
_AHEAD = 16
_SMOKE: list[Server] = []
"""The server of all cases of a smoke run: starting processes would take most of its time."""


@dataclass(frozen=True)
class Rate:
    """The rate of responses of a server.

    `cpu_us`: CPU time per response; 0 if it is not known.
    """

    per_s: float = 0.0
    cpu_us: float = 0.0


@contextmanager
def our_server() -> Iterator[Server]:
    """Start an embedded cluster for a case."""
    if _SMOKE:
        yield _SMOKE[0]
    else:
        with embedded() as server:
            yield server


def settled_heartbeat(server: Server) -> bytes:
    """Let a member join its own group; return its heartbeat in the stable state."""
    make_topic(server.address, "beats", 4)
    wire = Wire(server.address)
    group, member, epoch, same = "orders-service", str(uuid.uuid4()), 0, 0
    find_coordinator(wire, group)
    for _ in range(200):
        lives = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch)
        joins = replace(lives, rebalance_timeout_ms=300_000, subscribed_topic_names=("beats",), topic_partitions=())
        response = wire.request(lives if epoch else joins, 1)
        same = same + 1 if epoch and (response.member_epoch, response.assignment) == (epoch, None) else 0
        if same == 5:
            return framed(lives, 1, client_id=CLIENT)
        epoch = 0 if response.error_code else response.member_epoch
        time.sleep(0.1)  # a real broker may still load the coordinator, or lack metadata of the topic
    raise SystemExit(f"error: a member of {server.name} does not become stable")


def repeated(server: Server, beat: bytes, seconds: float, *, ahead: int = 1, core: int | None = None) -> Rate:
    """Return the best of three rounds.

    `core`: the CPU core of both the server and the client; by default any.
    """
    best = Rate()
    with ExitStack() as stack:
        if core is not None:
            stack.enter_context(server.bound_to(core))
        send(server.address, beat, server.warm_s, ahead=ahead, core=core)
        for _ in range(3):
            cpu_s = server.cpu_s
            count, took_s = send(server.address, beat, seconds / 3, ahead=ahead, core=core)
            best = max(best, Rate(count / took_s, 1e6 * (server.cpu_s - cpu_s) / count), key=lambda one: one.per_s)
    return best


def heartbeats(report: Report, peers: Sequence[Server]) -> None:
    """Measure KIP-848 heartbeats over one connection, of quorate and each peer alternately.

    The cases: one request in flight, several in flight, and server and client on one core.
    """
    seconds = report.pick(9, quick=1.5, smoke=0.03)
    one_core = min(os.sched_getaffinity(0))
    kinds: tuple[tuple[str, int, int | None], ...] = (
        ("one in flight", 1, None),
        ("server and client on one core", 1, one_core),
        (f"{_AHEAD} in flight", _AHEAD, None),
    )
    with our_server() as ours:
        beat = settled_heartbeat(ours)
        for peer in peers or [None]:
            theirs = b"" if peer is None else settled_heartbeat(peer)
            for case, ahead, core in kinds:
                found = repeated(ours, beat, seconds, ahead=ahead, core=core)
                other = Rate()
                if peer is not None and (core is None or peer.pid):
                    other = repeated(peer, theirs, seconds, ahead=ahead, core=core)
                goals = ["≥ 20 k/s"] if core is not None else []
                goals += ["ratio ≥ 5"] if peer is not None and peer.name == REAL and ahead == 1 else []
                report_heartbeats(report, case, found, other, peer, ", ".join(goals))


def report_heartbeats(report: Report, case: str, ours: Rate, theirs: Rate, peer: Server | None, goal: str) -> None:
    report.rate(
        f"KIP-848 heartbeats, {case} (client in {client()})",
        ours.per_s,
        theirs.per_s or None,
        "" if peer is None else peer.name,
        "1/s",
        goal,
        server_cpu_us=ours.cpu_us,
        peer_cpu_us=theirs.cpu_us,
    )


def throughput(server: Server, mib: int) -> tuple[float, float]:
    """Return MiB per second of librdkafka: produced, and fetched."""
    topic = f"bytes-{uuid.uuid4()}"
    make_topic(server.address, topic, 1)
    value = os.urandom(1000)
    count = mib * 1024
    producer = Producer({"bootstrap.servers": server.address, "linger.ms": 5, "queue.buffering.max.messages": 200_000})
    started = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0
    produced = count / 1024 / (time.perf_counter() - started)
    # With 64 MiB of records that the application has not read, librdkafka fetches no more for the
    # time of the backoff: with the default, 200 MiB took 0.2 or 1.2 s, whichever thread was faster.
    config: dict[str, str | int | float | bool] = {"enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
    consumer = Consumer({"bootstrap.servers": server.address, "group.id": "bench", **config})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, started = 0, time.perf_counter()
    while found < count:
        found += len(consumer.consume(min(10_000, count - found), 5))
    fetched = count / 1024 / (time.perf_counter() - started)
    consumer.close()
    return produced, fetched


def connections(server: Server, count: int) -> tuple[float, float]:
    """Return seconds until each of `count` connections had a response, and their MiB of memory."""
    before = server.resident_mib
    started = time.perf_counter()
    with ExitStack() as all_of_them:
        wires = [Wire(server.address) for _ in range(count)]
        for wire in wires:
            all_of_them.enter_context(wire.socket)
        for wire in wires:
            wire.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 3)
        return time.perf_counter() - started, server.resident_mib - before


def life(report: Report, peer: Kfake | None) -> None:
    """Measure starting and stopping three brokers in this process."""
    starts, stops = [], []
    for _ in range(report.pick(20, quick=5, smoke=1)):
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
    """Measure produce to a directory and to memory, alternately; the best of each."""
    rates: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for turn in range(report.pick(6, quick=4, smoke=2)):
        on_disk = turn % 2 == 1
        with TemporaryDirectory() as folder, embedded(folder) if on_disk else our_server() as server:
            rates[on_disk].append(throughput(server, report.pick(200, quick=16, smoke=1)))
    for place, what in enumerate(("produce", "fetch")):
        ours, memory = (max(one[place] for one in rates[on_disk]) for on_disk in (True, False))
        report.rate(f"{what}, kept in a directory", ours, memory, "in memory", "MiB/s", "ratio ≥ 0.5")


def both(
    measure: Callable[[Server], tuple[float, float]], peers: Sequence[Server], rounds: int = 1
) -> Iterator[tuple[tuple[float, float], tuple[float | None, float | None], str]]:
    """Yield our figures, a peer's, and its name, measured again for each peer; or ours alone.

    Figures are medians of `rounds`, in which ours and the peer's alternate.
    """

    def medians(found: list[tuple[float, float]]) -> tuple[float, float]:
        return median(one for one, _ in found), median(other for _, other in found)

    for peer in peers or [None]:
        found, theirs = [], []
        with our_server() as server:
            for _ in range(rounds):
                found.append(measure(server))
                theirs += [] if peer is None else [measure(peer)]
        if peer is None:
            yield medians(found), (None, None), ""
        else:
            yield medians(found), medians(theirs), peer.name


def bytes_through(report: Report, peers: Sequence[Server]) -> None:
    """Measure produce and fetch."""
    size_mib, rounds = report.pick(200, quick=32, smoke=1), report.pick(5, quick=3, smoke=1)
    for ours, theirs, name in both(lambda one: throughput(one, size_mib), peers, rounds):
        goal = "ratio ≥ 0.5" if name == REAL else ""
        report.rate("produce, librdkafka", ours[0], theirs[0], name, "MiB/s", goal)
        report.rate("fetch, librdkafka", ours[1], theirs[1], name, "MiB/s", goal)


def shares(report: Report, peers: Sequence[Server]) -> None:
    """Measure a member of a share group: on any cores, and with each server on one core."""
    count, rounds = report.pick((100_000, 3), quick=(20_000, 3), smoke=(1_500, 1))
    one_core = min(os.sched_getaffinity(0))
    for where, core in (("", None), (", server on one core", one_core)):
        visible = [peer for peer in peers if core is None or peer.pid]

        def measure(one: Server, core: int | None = core) -> tuple[float, float]:
            return shared_records(one, count, rounds=rounds, core=core)

        for ours, theirs, name in both(measure, visible):
            report.rate(
                f"share fetch and acknowledge{where}",
                ours[0],
                theirs[0],
                name,
                "records/s",
                "ratio ≥ 1" if name == REAL and core is not None else "",
                server_cpu_us_per_1000=ours[1],
                peer_cpu_us_per_1000=theirs[1] or 0,
            )


def storms(report: Report, peers: Sequence[Server]) -> None:
    """Measure join storms of the consumer protocol and the classic one."""
    count = report.pick(500, quick=100, smoke=5)
    for measure, kind in ((storm, "KIP-848"), (classic_storm, "classic")):
        for ours, theirs, name in both(lambda one, measure=measure: measure(one, count), peers):
            report.cost(
                f"join storm of {count} members, {kind}",
                ours[0],
                theirs[0],
                name,
                "s",
                requests=ours[1],
                peer_requests=theirs[1] or 0,
            )


def word_count(report: Report, peers: Sequence[Server]) -> None:
    """Measure an application of Kafka Streams, in alternating rounds; the median of each server.

    kfake has no streams groups.
    """
    reason = missing()
    if reason is not None:
        print(f"  without Kafka Streams: {reason}", file=sys.stderr, flush=True)
        return
    rounds = report.pick(5, quick=3, smoke=1)
    for peer in [one for one in peers if one.name != KFAKE] or [None]:
        with our_server() as server:
            both_servers = [server] if peer is None else [server, peer]
            found = [[first_result(one) for one in both_servers] for _ in range(rounds)]
        goal = "ratio > 1" if peer is not None and peer.name == REAL else ""
        for place, since in enumerate(("start of the JVM", "start of its threads")):
            ours, *theirs = (median(times[place] for times in one) for one in zip(*found, strict=True))
            case = f"Kafka Streams word count, {since} to first result"
            report.cost(case, ours, theirs[0] if theirs else None, "" if peer is None else peer.name, "s", goal)


def standing(report: Report) -> None:
    """Measure memory of an idle cluster, and of connections."""
    with our_server() as server:
        report.cost("memory after the start", server.resident_mib, None, "", "MiB", "< 100")
        count = report.pick(1000, quick=1000, smoke=10)
        seconds, mib = connections(server, count)
        report.cost(f"{count:,} connections with a response", seconds, None, "", "s", mib=mib)


CASES = ("life", "heartbeats", "bytes", "shares", "storm", "streams", "disk", "standing")
WITH_PEERS = frozenset({"heartbeats", "bytes", "shares", "storm", "streams"})


def main() -> None:
    """Run all cases."""
    parser = ArgumentParser()
    parser.add_argument("--no-peer", action="store_true", help="without a real broker")
    parser.add_argument(
        "--only", nargs="+", choices=CASES, default=CASES, metavar="CASE", help=f"of {', '.join(CASES)}"
    )
    report = Report("The embedded cluster", __doc__.splitlines()[0], parser)
    with ExitStack() as stack:
        if report.smoke:
            use_python()
            _SMOKE.append(replace(stack.enter_context(embedded()), warm_s=0.0))
        measure(report)
    report.finish()


def measure(report: Report) -> None:
    """Measure the chosen cases. The peers have stopped before those that measure quorate alone."""
    chosen = report.options.only
    with ExitStack() as stack:
        in_go = None if report.smoke else stack.enter_context(kfake())
        if "life" in chosen:
            life(report, in_go)
        peers = [] if in_go is None else [Server(in_go.address, in_go.pid, KFAKE)]
        if not (report.options.no_peer or WITH_PEERS.isdisjoint(chosen)):
            peer = replace(stack.enter_context(embedded()), warm_s=0.0) if report.smoke else stack.enter_context(real())
            peers.append(peer)
        if "heartbeats" in chosen:
            heartbeats(report, peers)
        if "bytes" in chosen:
            bytes_through(report, peers)
        if "shares" in chosen:
            shares(report, peers)
        if "storm" in chosen:
            storms(report, peers)
        if "streams" in chosen:
            word_count(report, [] if report.smoke else peers)
    if "disk" in chosen:
        disk(report)
    if "standing" in chosen:
        standing(report)


if __name__ == "__main__":
    main()

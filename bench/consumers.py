"""Compare quorate's consumers with the clients' own and with librdkafka's, on one broker.

The broker is an embedded one in another process, whose share of the time is the same for all. The
time of the first message begins with the creation of the consumer.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

import kafka.admin
from _members import AIO, AIO_OWN, OURS, OWN, RDKAFKA, RDKAFKA_CLASSIC, Members, clients, count, load
from _report import Report, p99
from _servers import embedded
from confluent_kafka import Producer

TOPIC, PARTITIONS = "orders", 8
INTERVAL_S = 0.1
"""Between two messages of a partition, while one more member joins."""
EVERY = 3
"""Every third partition gets messages then: 50 members of all partitions would need more than two
cores, and would be late without a rebalance.
"""
MOST_ROUNDS = 5
"""Groups that are tried until a partition stays with its owner."""
STUCK_S = 10
"""After this time without a message a consumer counts as stuck."""


def produce(address: str, messages: int) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50})
    for number in range(messages):
        producer.produce(TOPIC, b"x" * 100, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


class Stuck(Exception):
    """A consumer that gets no messages."""


def polled(poll: Callable[[], Any]) -> int:
    """Return the number of messages of the first poll that has any. Raises `Stuck`."""
    until = time.monotonic() + STUCK_S
    while not (received := count(poll())):
        if time.monotonic() > until:
            raise Stuck
    return received


def first_message(create: Callable[[str], Any]) -> float:
    """Return the seconds from the creation of a consumer to its first message."""
    started = time.perf_counter()
    with create(str(uuid4())) as (_, poll):
        polled(poll)
        return time.perf_counter() - started


def throughput(create: Callable[[str], Any], messages: int) -> float:
    """Return messages per second, after the first ones and without the last fifth.

    At the end of a topic, kafka-python waits for new messages of the partitions that are read, and
    fetches those of others only after that: once or twice 500 ms, by the order of partitions.
    """
    with create(str(uuid4())) as (_, poll):
        first = received = polled(poll)
        started = time.perf_counter()
        while received < messages * 4 // 5:
            received += polled(poll)
        return (received - first) / (time.perf_counter() - started)


def measured(name: str, measure: Callable[[], float]) -> float:
    """Return a figure of a client. A consumer that gets stuck is replaced, at most twice.

    kafka-python 3.0.12 loses a response to JoinGroup that arrives when `poll` times out.
    """
    for _ in range(2):
        try:
            return measure()
        except Stuck:
            print(f"{name}: no message within {STUCK_S} s; measured again with another consumer", file=sys.stderr)
    return measure()


@contextmanager
def sending(address: str, topic: str, partitions: range) -> Iterator[None]:
    """Send a message to each partition every `INTERVAL_S`."""
    producer, ending = Producer({"bootstrap.servers": address, "linger.ms": 5}), threading.Event()

    def send() -> None:
        due = time.monotonic()
        while not ending.is_set():
            for number in partitions:
                producer.produce(topic, b"x" * 100, partition=number)
            producer.poll(0)
            due += INTERVAL_S
            ending.wait(due - time.monotonic())

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        ending.set()
        sender.join()
        producer.flush()


def join(client: str, address: str, topic: str, partitions: int, sizes: list[int]) -> float:
    """Return the seconds in which members join, until each of them owns partitions.

    `sizes`: members of each process.
    """
    with Members(client, address, topic, str(uuid4()), sizes) as members:
        started = time.perf_counter()
        for number in range(len(sizes)):
            members.start(number)
        members.settle(partitions, sum(sizes))
        return time.perf_counter() - started


def gaps(
    client: str, address: str, topic: str, partitions: int, sizes: list[int], quiet_s: float, *, here: bool
) -> tuple[float, list[float], list[float]]:
    """Return how long members take to join, and gaps before one more joins and while it does.

    A gap is the time between two polls that return messages of a partition, in milliseconds. Only
    partitions that stay with their owner count.
    `quiet_s`: the time between the two joins, in seconds. `here`: in this process.
    """
    sent = range(0, partitions, EVERY if partitions > 20 else 1)
    for _ in range(MOST_ROUNDS):  # in a classic group, a member whose random id is the first moves all
        group = str(uuid4())
        with Members(client, address, topic, group, [*sizes, 1], here=here) as members, sending(address, topic, sent):
            started = time.perf_counter()
            for number in range(len(sizes)):
                members.start(number)
            before = members.settle(partitions, sum(sizes))
            seconds = time.perf_counter() - started
            time.sleep(quiet_s)
            joined = time.monotonic()
            members.start(len(sizes))
            after = members.settle(partitions, sum(sizes) + 1)
            settled = time.monotonic()
            time.sleep(0.5 + INTERVAL_S)
            arrivals, until = members.arrivals(), time.monotonic()
        if stay := [one for one in sent if after[one] == before[one]]:
            return (
                seconds,
                [gap for one in stay for gap in _within(arrivals.get(one, []), joined - quiet_s / 2, joined, until)],
                [gap for one in stay for gap in _within(arrivals.get(one, []), joined, settled + 0.5, until)],
            )
    raise SystemExit(f"error: {client}: no partition stayed with its owner, in {MOST_ROUNDS} groups")


def _within(arrivals: list[tuple[float, str]], start: float, end: float, until: float) -> list[float]:
    """Return the times without messages that overlap with an interval."""
    times = [start, *(at for at, _ in arrivals), until]
    return [1000 * (b - a) for a, b in pairwise(sorted(times)) if b > start and a < end]


def main() -> None:
    """Run all cases."""
    report = Report("Consumers", __doc__.splitlines()[0])
    messages = report.pick(400_000, quick=50_000, smoke=2_000)
    rounds = report.pick(5, quick=2, smoke=1)
    sizes = report.pick([10] * 5, quick=[10] * 2, smoke=[1])
    crowd = report.pick([20] * 5, quick=[], smoke=[])
    joins = report.pick(3, quick=1, smoke=1)
    quiet_s = report.pick(3.0, quick=2.0, smoke=0.2)
    # Members notice a rebalance at their next heartbeat. The default interval is 5 s.
    often = {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.min.heartbeat.interval.ms": 100}
    with embedded(**report.pick({}, quick=often, smoke=often)) as server:
        address, shared, wide = server.address, "shared", "wide"
        with closing(kafka.admin.KafkaAdminClient(bootstrap_servers=address)) as admin:
            # With eight, some stay with their owner whatever the order of two members and a third.
            topics = {TOPIC: PARTITIONS, shared: max(8, sum(sizes) * 6 // 5 + 1), wide: sum(crowd) or 1}
            admin.create_topics([kafka.admin.NewTopic(name, size, 1) for name, size in topics.items()])
        produce(address, messages)
        every = clients(address, TOPIC)
        for name in every:
            load(name)
        first: dict[str, list[float]] = {name: [] for name in every}
        rates: dict[str, list[float]] = {name: [] for name in every}
        for _ in range(rounds):  # in turns, so that a busy moment affects all
            for name, create in every.items():
                first[name].append(measured(name, partial(first_message, create)))
                rates[name].append(measured(name, partial(throughput, create, messages)))
        crowds = {name: join(name, address, wide, topics[wide], crowd) for name in every} if crowd else {}
        joined: dict[str, list[float]] = {name: [] for name in every}
        quiet: dict[str, list[float]] = {name: [] for name in every}
        stopped: dict[str, list[float]] = {name: [] for name in every}
        for _ in range(joins):
            for name in every:
                # A smoke run starts processes for one client: imports take most of its time.
                here = report.smoke and name != OURS
                seconds, before, during = gaps(name, address, shared, topics[shared], sizes, quiet_s, here=here)
                joined[name].append(seconds)
                quiet[name] += before
                stopped[name] += during
    for ours, peers in {OURS: (OWN, RDKAFKA, RDKAFKA_CLASSIC), AIO: (AIO_OWN,)}.items():
        what = ours.removeprefix(OURS)
        for peer in peers:
            goal = "peer / 1.2" if peer == RDKAFKA else ""
            report.cost(f"first message{what}", median(first[ours]), median(first[peer]), peer, "s", goal)
        for peer in peers:
            goal = "0.97 of it" if peer in (OWN, AIO_OWN) else ""
            report.rate(f"throughput{what}", median(rates[ours]), median(rates[peer]), peer, "messages/s", goal)
        for peer in peers:
            report.cost(f"join of {sum(sizes)} members{what}", median(joined[ours]), median(joined[peer]), peer, "s")
        for peer in peers if crowd else ():
            report.cost(f"join of {sum(crowd)} members{what}", crowds[ours], crowds[peer], peer, "s")
        for peer in peers:
            case = f"gap while one joins {sum(sizes)} members{what}"
            details = {
                "longest": max(stopped[ours]),
                "peer_longest": max(stopped[peer]),
                "without_a_join": p99(quiet[ours]),
                "peer_without": p99(quiet[peer]),
            }
            report.cost(case, p99(stopped[ours]), p99(stopped[peer]), peer, "ms, p99", "< 200 ms", **details)
    report.finish()


if __name__ == "__main__":
    main()

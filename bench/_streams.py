"""The first result of a Kafka Streams application (KIP-1071) that counts words."""

import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from _servers import Server
from _wire import Wire, find_coordinator, make_topic
from confluent_kafka import Consumer, Message, Producer, TopicPartition

# Last: `codecs` stays the standard library's.
sys.path.append(str(Path(__file__).parents[1]))

from tests.streams.application import Instance, missing

__all__ = ["first_result", "missing"]

T = TypeVar("T")

_LIMIT_S = 120
_PARTITIONS = 2
_LOOK_S = 0.002


def first_result(server: Server) -> tuple[float, float]:
    """Start an instance of a new application; return the seconds until its first result.

    They count from the start of its JVM, and from when its state becomes REBALANCING: then its
    threads start. Most of the time before is that of loading classes.
    """
    name = f"words-{uuid.uuid4()}"
    source, sink = f"{name}-in", f"{name}-out"
    for topic in (source, sink):
        make_topic(server.address, topic, _PARTITIONS)
    producer = Producer({"bootstrap.servers": server.address})
    for partition in range(_PARTITIONS):
        producer.produce(source, b"to be or not to be", partition=partition)
    assert producer.flush(_LIMIT_S) == 0
    wire = Wire(server.address)
    with wire.socket:
        find_coordinator(wire, name)
    settings = {"group.id": f"{name}-reader", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
    reader = Consumer({"bootstrap.servers": server.address, **settings})
    reader.assign([TopicPartition(sink, partition, 0) for partition in range(_PARTITIONS)])
    reader.poll(0.5)  # connects before the measurement
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        with Instance(server.address, name, source, sink, Path(folder), group_protocol="streams") as instance:
            _wait(lambda: instance.state, server, instance)
            started = time.perf_counter()
            _wait(lambda: _record(reader), server, instance)
            ended = time.perf_counter()
            reader.close()
    return ended - began, ended - started


def _record(reader: Consumer) -> Message | None:
    found = reader.poll(_LOOK_S)
    return None if found is None or found.error() else found


def _wait(look: Callable[[], T | None], server: Server, instance: Instance) -> None:
    """Call `look` until it returns something."""
    until = time.perf_counter() + _LIMIT_S
    while look() is None:
        if instance.process.poll() is not None or time.perf_counter() > until:
            raise SystemExit(f"error: no word is counted on {server.name}\n{instance.log()}")
        time.sleep(_LOOK_S)

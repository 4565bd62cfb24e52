"""A member of a share group that fetches and acknowledges all records of a topic (KIP-932)."""

import time
from contextlib import nullcontext
from typing import Any

from _servers import Server, one_core
from _wire import Wire, find_coordinator, make_topic
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from quorate.codecs import Uuid
from quorate.codecs.api import ShareGroupHeartbeatRequest
from quorate.codecs.api.broker import ShareFetchRequest
from quorate.codecs.api.broker.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic
from quorate.codecs.errors import DecodeError, Reason

_LIMIT_S = 120
_PER_FETCH = 500


def shared_records(server: Server, count: int, *, rounds: int, core: int | None = None) -> tuple[float, float]:
    """Return the best of some rounds.

    The results are the records per second that one member fetches and accepts, from a topic of
    `count`, and the server's CPU time in µs per 1,000 records, 0 if it is not known. Each round has
    a group of its own.

    `core`: the only core of the server, on which the client does not run; by default any.
    """
    topic, name = "shared", "any" if core is None else f"core-{core}"
    _fill(server.address, topic, count)
    found = []
    for number in range(rounds):
        group = f"shares-{name}-{number}"
        _read_from_the_beginning(server.address, group)
        with nullcontext() if core is None else one_core(server, core):
            found.append(_round(server, topic, group, count))
    return max(found)


def _round(server: Server, topic: str, group: str, count: int) -> tuple[float, float]:
    wire = Wire(server.address)
    find_coordinator(wire, group)
    topic_id = _join(wire, group, topic)
    found, epoch, started, cpu_s = 0, 0, 0.0, 0.0
    acks: tuple[AcknowledgementBatch, ...] = ()
    until = time.perf_counter() + _LIMIT_S
    while found < count or acks:
        if time.perf_counter() > until:
            raise SystemExit(f"error: {server.name} delivered {found:,} of {count:,} records in {_LIMIT_S} s")
        part = _fetch(wire, group, topic_id, epoch, acks, wait_ms=500 if found < count else 0)
        epoch += 1
        if part is not None and (part.error_code or part.acknowledge_error_code):
            raise SystemExit(f"error: {server.name} returned {part}")
        acquired = () if part is None else part.acquired_records
        acks = tuple(
            AcknowledgementBatch(first_offset=one.first_offset, last_offset=one.last_offset, acknowledge_types=(1,))
            for one in acquired
        )
        if started:
            found += sum(one.last_offset - one.first_offset + 1 for one in acquired)
        else:  # the first fetch loads the state
            count -= sum(one.last_offset - one.first_offset + 1 for one in acquired)
            started, cpu_s = time.perf_counter(), server.cpu_s
    seconds = time.perf_counter() - started
    wire.socket.close()
    return found / seconds, 1e9 * (server.cpu_s - cpu_s) / found


def _fill(address: str, topic: str, count: int) -> None:
    if topic in AdminClient({"bootstrap.servers": address}).list_topics(timeout=_LIMIT_S).topics:
        return
    make_topic(address, topic, 1)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50, "batch.num.messages": _PER_FETCH})
    for number in range(count):
        producer.produce(topic, b"%100d" % number)
        producer.poll(0)
    assert producer.flush(_LIMIT_S) == 0


def _read_from_the_beginning(address: str, group: str) -> None:
    reset = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": address})
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[reset])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(60)


def _join(wire: Wire, group: str, topic: str) -> Uuid:
    """Join a group; return the id of the topic when it is assigned."""
    epoch = 0
    for _ in range(300):
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=epoch, subscribed_topic_names=None if epoch else (topic,)
        )
        response = wire.request(request, 1)
        if not response.error_code:
            epoch = response.member_epoch
            if response.assignment is not None and response.assignment.topic_partitions:
                found: Uuid = response.assignment.topic_partitions[0].topic_id
                return found
        time.sleep(0.2)
    raise SystemExit(f"error: a member of share group {group} is not assigned {topic}")


def _fetch(
    wire: Wire, group: str, topic_id: Uuid, epoch: int, acks: tuple[AcknowledgementBatch, ...], wait_ms: int
) -> Any:
    """Return the data of the only partition, or `None`.

    kfake sends null for no records, which Kafka's schema rules out in version 1.
    """
    partition = FetchPartition(partition_index=0, acknowledgement_batches=acks)
    request = ShareFetchRequest(
        group_id=group,
        member_id="m",
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 24,
        max_records=_PER_FETCH,
        batch_size=_PER_FETCH,
        topics=(FetchTopic(topic_id=topic_id, partitions=(partition,)),) if acks or not epoch else (),
    )
    try:
        response = wire.request(request, 1)
    except DecodeError as error:
        if error.reason is Reason.NULL_FIELD:
            return None
        raise
    if response.error_code:
        raise SystemExit(f"error: ShareFetch failed with {response.error_code}")
    return next((one for topic in response.responses for one in topic.partitions), None)

"""Limits on connections and requests by Kafka's configs, and how a cluster stops."""

import asyncio
import socket
import time
from collections.abc import Callable
from cProfile import Profile
from dataclasses import replace
from pathlib import Path
from struct import pack
from threading import Thread
from typing import Any

import pytest

from quorate.cluster import ClusterError, EmbeddedCluster, ManualClock, request_handler
from quorate.cluster.connection import java_address
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.cluster.handlers import HANDLERS
from quorate.cluster.meter import Meter
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ListGroupsRequest
from quorate.codecs.api.broker import (
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataResponse,
)
from quorate.codecs.api.broker.fetch import FetchableTopicResponse, FetchPartition, FetchTopic, PartitionData
from quorate.codecs.api.error_responses import error_codes_in
from quorate.coordinator.log import AppendError
from quorate.coordinator.records import empty_classic_group
from quorate.coordinator.results import RequestContext
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.wire import Wire

WHO = MetadataRequest(topics=())


def eventually(condition: Callable[[], Any]) -> None:
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def _raise(*_: object) -> MetadataResponse:
    raise KeyError("unexpected")


def _return_invalid_int32(*_: object) -> MetadataResponse:
    return MetadataResponse(controller_id=1 << 40)


def cluster(clock: ManualClock | None = None, **properties: Any) -> EmbeddedCluster:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return EmbeddedCluster(properties={**QUICK, **named}, clock=clock)


def test_an_idle_connection_is_closed_and_an_active_one_is_not() -> None:
    clock = ManualClock()
    with cluster(clock, connections_max_idle_ms=60_000) as made:
        port = made.core.brokers[1].port
        with Wire(port) as silent, Wire(port) as talking:
            silent.request(WHO, 12)
            for _ in range(4):
                talking.request(WHO, 12)
                made.call(lambda: clock.advance(15_000))
            silent.request(WHO, 12)  # not idle for long enough
            for _ in range(5):
                talking.request(WHO, 12)
                made.call(lambda: clock.advance(15_000))
            assert silent.is_closed()
            talking.request(WHO, 12)
        assert any("connections.max.idle.ms" in note for note in made.core.notes)


def test_a_connection_with_a_pending_response_is_not_idle() -> None:
    clock = ManualClock()
    with cluster(clock, connections_max_idle_ms=1_000) as made, Wire(made.core.brokers[1].port) as wire:
        made.call(lambda: made.core.create_topic("t"))
        wire.send(fetch(100_000), 12)
        eventually(lambda: made.core.topics["t"].partitions[0].log.waiting)
        for _ in range(20):
            made.call(lambda: clock.advance(500))
        made.call(lambda: clock.advance(100_000))
        wire.receive(FetchRequest, 12)


def fetch(max_wait_ms: int) -> FetchRequest:
    from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic

    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(part,)),))


def test_a_connection_above_the_limit_of_its_host_is_closed() -> None:
    with cluster(max_connections_per_ip=2) as made:
        port = made.core.brokers[1].port
        with Wire(port) as one, Wire(port) as two:
            one.request(WHO, 12)
            two.request(WHO, 12)
            with Wire(port) as three:
                assert three.is_closed()
        eventually(lambda: not made.core.brokers[1].connections)
        with Wire(port) as four:
            four.request(WHO, 12)


def test_a_connection_above_the_total_limit_waits_until_another_is_closed() -> None:
    with cluster(max_connections=1) as made:
        port = made.core.brokers[1].port
        with Wire(port) as one:
            one.request(WHO, 12)
            two = Wire(port)
            two.send(WHO, 12)
            two.socket.settimeout(0.1)
            with pytest.raises(TimeoutError):
                two.frame()
        two.socket.settimeout(5)
        two.receive(MetadataRequest, 12)
        two.socket.close()


def test_a_client_that_goes_while_it_waits_for_a_place_is_forgotten() -> None:
    with cluster(max_connections=1) as made:
        broker = made.core.brokers[1]
        with Wire(broker.port) as one, Wire(broker.port) as last:
            one.request(WHO, 12)
            with Wire(broker.port) as two:
                two.send(WHO, 12)
                eventually(lambda: len(broker._waiting) == 2)
            eventually(lambda: len(broker._waiting) == 1)
            one.socket.close()
            last.request(WHO, 12)


@pytest.mark.parametrize("rest", [b"", bytes(101)], ids=["its size", "all of it"])
def test_a_request_larger_than_allowed_closes_the_connection(rest: bytes) -> None:
    with cluster(socket_request_max_bytes=100) as made, Wire(made.core.brokers[1].port) as wire:
        wire.socket.sendall(pack(">i", 101) + rest)
        assert wire.is_closed()
        assert "request of 101 bytes exceeds the limit of 100" in made.core.notes[-1]


def test_no_broker_keeps_running_if_a_port_is_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        made = EmbeddedCluster(brokers=2, ports=[0, port])
        with pytest.raises(ClusterError, match=f"broker 2 cannot listen on 127.0.0.1:{port}"):
            made.__enter__()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", made.core.brokers[1].port))


def test_completed_responses_reach_a_slow_client_when_the_cluster_stops() -> None:
    """A client does not read while megabytes of responses are being sent."""

    async def run() -> int:
        made = cluster()
        async with made:
            made.core.create_topic("wide", partitions=20_000)
            reader, writer = await asyncio.open_connection("127.0.0.1", made.core.brokers[1].port, limit=1 << 26)
            body = pack(">hhihh", 3, 5, 1, 1, ord("c") << 8)[:-1] + b"\xff\xff\xff\xff\0"
            writer.write(pack(">i", len(body)) + body)
            size = int.from_bytes(await reader.readexactly(4), "big")
            stopping = asyncio.create_task(made.stop(grace_ms=5_000))
            await asyncio.sleep(0.01)
            received = len(await reader.readexactly(size))
            await stopping
            assert await reader.read() == b""
            writer.close()
            assert size == received
            return received

    assert asyncio.run(run()) > 400_000


def test_a_client_that_does_not_read_does_not_delay_the_stop() -> None:
    made = cluster().__enter__()
    with Wire(made.core.brokers[1].port) as wire:
        made.call(lambda: made.core.create_topic("wide", partitions=20_000))
        wire.request(WHO, 12)
        (connection,) = made.core.brokers[1].connections
        connection._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.send(MetadataRequest(topics=None), 12)
        eventually(lambda: connection._transport.get_write_buffer_size() > 0)
        stopping = Thread(target=made.close, daemon=True)
        stopping.start()
        stopping.join(60)
        assert not stopping.is_alive()


def test_a_client_that_sends_requests_without_reading_takes_bounded_memory() -> None:
    with cluster() as made, Wire(made.core.brokers[1].port) as wire:
        made.call(lambda: made.core.create_topic("wide", partitions=20_000))
        wire.request(WHO, 12)
        (connection,) = made.core.brokers[1].connections
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        for _ in range(16):
            wire.send(MetadataRequest(topics=None), 12)
        eventually(lambda: connection._transport.get_write_buffer_size() > 0)
        with Wire(made.core.brokers[1].port) as other:
            for _ in range(2):  # served after all earlier requests
                other.request(WHO, 12)
        kept = connection._transport.get_write_buffer_size()
        response = len(wire.frame())
        assert kept < 2 * response
        assert [len(wire.frame()) for _ in range(15)] == [response] * 15  # all are received once the client reads


def test_a_waiting_fetch_is_forgotten_when_its_client_disconnects() -> None:
    with cluster() as made:
        log = made.call(lambda: made.core.create_topic("t", partitions=1)).partitions[0].log
        with Wire(made.core.brokers[1].port) as wire:
            part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
            requested = FetchTopic(topic="t", partitions=(part,))
            wire.send(FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, topics=(requested,)), 12)
            eventually(lambda: log.waiting)
        eventually(lambda: not log.waiting)


def test_the_number_of_notes_is_limited_to_the_last_ones() -> None:
    core = cluster().core
    for number in range(25_000):
        core.note(str(number))
    assert 1_000 < len(core.notes) <= 10_000
    assert core.notes[-1] == "24999"


def test_text_from_clients_is_escaped_and_limited_in_notes() -> None:
    """Issue 14: names with escape sequences reached the log, and one member could log megabytes."""
    core = cluster().core
    core.note("transaction a\x1b[2J\nbroker 1: forged could not be aborted")
    core.note("x" * 1_000_000)
    core.note("Fetch failed", "Traceback\n  of \x1b[31m\n" + "y" * 1_000_000)
    forged, long, trace = core.notes[-3:]
    assert forged == "transaction a\\x1b[2J\\nbroker 1: forged could not be aborted"
    assert len(long) == 2_000
    assert len(trace) < 50_000
    assert "\x1b" not in trace


@pytest.mark.parametrize("function", [_raise, _return_invalid_int32], ids=["in handling", "in encoding"])
def test_an_internal_error_closes_the_connection_and_is_reported_and_counted(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., MetadataResponse]
) -> None:
    faulty = {**HANDLERS, MetadataRequest: replace(HANDLERS[MetadataRequest], handler=function)}
    monkeypatch.setattr(request_handler, "HANDLERS", faulty)
    with cluster() as made:
        for _ in range(110):
            with Wire(made.core.brokers[1].port) as wire:
                wire.send(MetadataRequest(topics=()), 12)
                assert wire.is_closed()
        assert (made.core.failure_count, len(made.core.failures)) == (110, 100)
        assert "failed with an internal error:\nTraceback" in made.core.notes[-1]


def test_creating_a_topic_takes_no_longer_with_many_topics(tmp_path: Path) -> None:
    """Counted in function calls, of which a loop over all topics would make more."""
    core = EmbeddedCluster(brokers=2, properties=QUICK, data=tmp_path, clock=ManualClock(), seed=1).core
    for broker in core.brokers.values():
        broker.serving = True
    core.started()
    core.internal_topic(CONSUMER_OFFSETS)
    core.groups.list_groups(
        1, ListGroupsRequest(), RequestContext(api_version=5, now_ms=core.clock.now_ms())
    )  # load modules
    assert core.groups.runtimes()
    calls = []
    for number in range(101):
        profile = Profile()
        profile.enable()
        core.create_topic(f"orders.{number}", partitions=2)
        profile.disable()
        if number in (10, 100):
            calls.append(sum(getstat.callcount for getstat in profile.getstats()))
    core.close()
    assert calls[1] < calls[0] * 1.1


def test_brokers_move_to_other_racks_also_in_the_owners_loop() -> None:
    async def run() -> tuple[str | None, bool]:
        async with EmbeddedCluster(brokers=2, racks=["a", "b"], properties=QUICK) as made:
            made.stop_broker(2)
            with pytest.raises(ClusterError, match=r"await start_broker_async\(2\)"):
                made.start_broker(2)
            await made.start_broker_async(2, rack="c")
            return made.core.brokers[2].rack, made.core.brokers[2].alive

    assert asyncio.run(run()) == ("c", True)


def test_clients_receive_the_advertised_host() -> None:
    made = EmbeddedCluster(brokers=1, properties=QUICK, advertised_host="localhost")
    with made, Wire(made.core.brokers[1].port) as wire:
        (reported,) = wire.request(WHO, 12).brokers
        assert (reported.host, made.bootstrap_servers) == ("localhost", f"localhost:{made.core.brokers[1].port}")


def test_clients_receive_the_advertised_ports_also_after_a_restart() -> None:
    made = EmbeddedCluster(brokers=2, properties=QUICK, advertised_ports=[19092, 29092])
    with made:
        listening = made.core.brokers[2].listen_port
        made.restart_broker(2)
        assert made.core.brokers[2].listen_port == listening != 29092
        with Wire(listening) as wire:
            assert sorted(broker.port for broker in wire.request(WHO, 12).brokers) == [19092, 29092]
        assert made.bootstrap_servers == "127.0.0.1:19092,127.0.0.1:29092"
    with pytest.raises(ClusterError, match="1 ports for 2 brokers"):
        EmbeddedCluster(brokers=2, advertised_ports=[19092])


def test_records_are_split_into_batches_by_max_message_bytes() -> None:
    records = [empty_classic_group(f"g{number}", 0) for number in range(100)]
    with cluster() as made:

        def append() -> list[int]:
            (partition, *_) = made.core.internal_topic(CONSUMER_OFFSETS).partitions
            partition.log.config = replace(partition.log.config, max_message_bytes=1000)
            log = PartitionCoordinatorLog(partition)
            with pytest.raises(AppendError):
                log.append(records, timestamp_ms=0)
            return [log.append(part, timestamp_ms=0) for part in log.parts(records)] + [partition.log.next_offset]

        first, second, *_, end = made.call(append)
    assert (first, end) == (0, 100)
    assert 1 < second < 100


# ---- metrics


def test_ipv6_addresses_are_in_brackets() -> None:
    made = EmbeddedCluster(brokers=2, ports=[9092, 9093], host="::1")
    assert made.bootstrap_servers == "[::1]:9092,[::1]:9093"


@pytest.mark.parametrize(
    ("address", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fe80::a%lo", "fe80:0:0:0:0:0:0:a%lo"),
    ],
)
def test_addresses_have_javas_form(address: str, java: str) -> None:
    assert java_address(address) == java


def test_a_group_describes_a_members_address_in_javas_form() -> None:
    with EmbeddedCluster(properties=QUICK, host="::1") as made, Wire(made.core.brokers[1].port, host="::1") as wire:
        wire.request(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
        joins = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=60_000, subscribed_topic_names=("t",), topic_partitions=()
        )
        assert wire.request(joins, 1).error_code == 0
        (group,) = wire.request(ConsumerGroupDescribeRequest(group_ids=("g",)), 1).groups
    assert [member.client_host for member in group.members] == ["/0:0:0:0:0:0:0:1"]


def test_requests_errors_bytes_and_times_are_counted() -> None:
    with cluster() as made, Wire(made.core.brokers[1].port) as wire:
        wire.request(WHO, 12)
        meter = made.core.meter = Meter()
        with Wire(made.core.brokers[1].port) as counted:
            counted.request(WHO, 12)
            counted.request(fetch(0), 12)
            wire.request(WHO, 12)  # connected before the meter was set
    assert meter.requests == {(1, "Metadata", 12): 1, (1, "Fetch", 12): 1}
    assert meter.errors == {(1, "Fetch", "UNKNOWN_TOPIC_OR_PARTITION"): 1}
    assert sum(meter.timings[1, "Fetch"].buckets) == 1
    assert meter.received_bytes[1] > 50
    assert meter.sent_bytes[1] > 50
    assert meter.accepted == {1: 1}


def test_error_codes_are_found_wherever_a_response_has_them() -> None:
    parts = tuple(PartitionData(partition_index=n, error_code=code) for n, code in enumerate((0, 3, 6)))
    topics = (FetchableTopicResponse(topic="a", partitions=parts), FetchableTopicResponse(topic="b"))
    assert error_codes_in(FetchResponse(responses=topics)) == [3, 6]
    assert error_codes_in(FetchResponse(error_code=70, responses=topics)) == [70, 3, 6]

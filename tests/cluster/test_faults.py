"""Injected faults: errors in each API, applied then failed, corruption, delays, outages."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.cluster import ClusterError, Corrupt, Delay, Disconnect, EmbeddedCluster, Error, Silence, Throttle, WaitFor
from quorate.cluster.error_responses import failed_response
from quorate.cluster.handlers import HANDLERS
from quorate.cluster.waiting import wait_for
from quorate.codecs.api import HeartbeatRequest, api_of, encode_api
from quorate.codecs.api.broker import (
    CreateTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.error_responses import error_codes_in
from quorate.codecs.batches import read_batches
from quorate.codecs.message import Message, MessageSpec
from quorate.codecs.wire import ArrayType, StructType, default_of
from tests.cluster.helpers.wire import Wire
from tests.cluster.test_log import batch
from tests.codecs.helpers.strategies import messages
from tests.extent import portion

CODE = ErrorCode.THROTTLING_QUOTA_EXCEEDED
"""A response that no handler returns."""


@pytest.fixture
def port(cluster: EmbeddedCluster) -> int:
    topic = cluster.call(lambda: cluster.core.create_topic("t", partitions=1, replicas=1))
    return cluster.core.brokers[topic.partitions[0].leader].port


def produce() -> ProduceRequest:
    part = PartitionProduceData(index=0, records=batch(1))
    return ProduceRequest(acks=-1, topic_data=(TopicProduceData(name="t", partition_data=(part,)),))


def fetch() -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic="t", partitions=(part,)),))


REQUESTS: list[tuple[Any, int, Any]] = [
    (produce(), 11, lambda found: (found.responses[0].name, found.responses[0].partition_responses[0].error_code)),
    (fetch(), 12, lambda found: ("t", found.error_code)),
    (
        ListOffsetsRequest(topics=(ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(),)),)),
        7,
        lambda found: (found.topics[0].name, found.topics[0].partitions[0].error_code),
    ),
    (
        FindCoordinatorRequest(coordinator_keys=("t",)),
        4,
        lambda found: (found.coordinators[0].key, found.coordinators[0].error_code),
    ),
    (FindCoordinatorRequest(key="t"), 3, lambda found: ("t", found.error_code)),
    (
        MetadataRequest(topics=(MetadataRequestTopic(name="t"),)),
        12,
        lambda found: (found.topics[0].name, found.topics[0].error_code),
    ),
    (
        CreateTopicsRequest(topics=(CreatableTopic(name="u", num_partitions=1, replication_factor=1),)),
        7,
        lambda found: (found.topics[0].name.replace("u", "t"), found.topics[0].error_code),
    ),
    (
        DescribeConfigsRequest(resources=(DescribeConfigsResource(resource_type=2, resource_name="t"),)),
        4,
        lambda found: (found.results[0].resource_name, found.results[0].error_code),
    ),
    (HeartbeatRequest(group_id="g"), 4, lambda found: ("t", found.error_code)),
]


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize(
    ("request_", "version", "reported"),
    REQUESTS,
    ids=[f"{type(request).__name__} v{version}" for request, version, _ in REQUESTS],
)
def test_an_error_is_where_its_api_has_it(
    cluster: EmbeddedCluster, port: int, request_: Any, version: int, reported: Any, applied: bool
) -> None:
    cluster.faults.add(Error(CODE, applied=applied), times=1)
    with Wire(port) as wire:
        assert reported(wire.request(request_, version)) == ("t", CODE)
        assert reported(wire.request(request_, version))[1] != CODE  # the fault was for one request only


@settings(max_examples=portion(150), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_every_api_has_an_error_response(cluster: EmbeddedCluster, data: st.DataObject) -> None:
    handled = data.draw(st.sampled_from(sorted(HANDLERS.values(), key=lambda handler: handler.api.key)))
    version = data.draw(st.sampled_from(handled.api.versions))
    request = data.draw(messages(handled.api.request.cls, version, unknown_tags=False))
    response = failed_response(cluster.core, request, version, CODE)
    encode_api(response, version)  # can be encoded in the version
    assert set(error_codes_in(response)) <= {CODE}


def one_null_each(spec: MessageSpec, version: int) -> Iterator[Message]:
    """Return messages with an element in each array, one for each nullable field, which is null."""
    full: dict[str, Any] = {}
    nulls: list[tuple[str, Any]] = []
    for field in spec.fields:
        if version not in field.versions:
            continue
        is_array = isinstance(field.type, ArrayType)
        element = field.type.element if isinstance(field.type, ArrayType) else field.type
        if isinstance(element, StructType):
            first, *rest = ((part,) if is_array else part for part in one_null_each(element.spec, version))
            full[field.name] = first
            nulls += [(field.name, part) for part in rest]
        elif is_array:
            full[field.name] = (default_of(element),)
        if field.nullable and version >= field.nullable_since:
            nulls.append((field.name, None))
    yield spec.cls(**full)
    yield from (spec.cls(**{**full, name: value}) for name, value in nulls)


@pytest.mark.parametrize("request_class", HANDLERS, ids=lambda one: one.__name__)
def test_every_null_in_a_request_has_an_error_response(cluster: EmbeddedCluster, request_class: type[Message]) -> None:
    """A topic name may be null in Metadata requests since v10, in responses since v12 (KIP-516)."""
    for version in api_of(request_class).versions:
        for request in one_null_each(request_class.spec, version):
            encode_api(request, version)
            encode_api(failed_response(cluster.core, request, version, CODE), version)


def test_a_retry_after_applied_then_failed_writes_the_record_twice(cluster: EmbeddedCluster, port: int) -> None:
    cluster.faults.add(Error(ErrorCode.REQUEST_TIMED_OUT, applied=True), api="Produce", topic="t", times=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": False})
    producer.produce("t", b"once")
    assert producer.flush(300) == 0
    assert cluster.core.topics["t"].partitions[0].log.next_offset == 2


def test_an_idempotent_producer_writes_once_after_applied_then_failed(cluster: EmbeddedCluster, port: int) -> None:
    rule = cluster.faults.add(Error(ErrorCode.REQUEST_TIMED_OUT, applied=True), api="Produce", times=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    producer.produce("t", b"once")
    assert producer.flush(300) == 0
    assert (rule.happened, cluster.core.topics["t"].partitions[0].log.next_offset) == (1, 1)


def test_a_corrupted_fetch_has_a_wrong_crc_and_the_next_a_correct_one(cluster: EmbeddedCluster, port: int) -> None:
    cluster.faults.add(Corrupt(), api="Fetch", times=1)
    with Wire(port) as wire:
        for _ in range(2):
            wire.request(produce(), 11)
        valid = []
        for _ in range(2):
            records = wire.request(fetch(), 12).responses[0].partitions[0].records
            read = read_batches(records, skip_corrupt=True)
            valid.append([one.header.crc_valid for one in read])  # type: ignore[union-attr]
    assert valid == [[False, False], [True, True]]


def test_a_corrupted_produce_request_is_rejected_and_retried(cluster: EmbeddedCluster, port: int) -> None:
    cluster.faults.add(Corrupt(), api="Produce", times=1)
    with Wire(port) as wire:
        codes = [wire.request(produce(), 11).responses[0].partition_responses[0].error_code for _ in range(2)]
    assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]


def test_a_request_waits_until_another_has_arrived(cluster: EmbeddedCluster, port: int) -> None:
    cluster.faults.add(WaitFor("ListOffsets"), api="Metadata", client_id="first", times=1)
    with Wire(port, "first", timeout_s=0.3) as first, Wire(port, "second") as second:
        first.send(MetadataRequest(topics=()), 12)
        with pytest.raises(TimeoutError):
            first.exactly(1)
        second.request(ListOffsetsRequest(), 7)
        first.socket.settimeout(300)
        assert first.receive(MetadataRequest, 12).topics == ()


def test_a_waiting_request_of_a_closed_connection_is_forgotten(cluster: EmbeddedCluster, port: int) -> None:
    cluster.faults.add(WaitFor("ListOffsets"), api="Metadata", client_id="first")
    with Wire(port, "second") as second:
        for _ in range(3):
            with Wire(port, "first") as first:
                first.send(MetadataRequest(topics=()), 12)
                wait_for("it waits", lambda: bool(cluster.faults._waiting), 10_000)
            wait_for("no request waits", lambda: not cluster.faults._waiting, 10_000)
        assert second.request(ListOffsetsRequest(), 7).topics == ()


def test_delay_and_silence_apply_to_the_selected_clients_only(cluster: EmbeddedCluster, port: int) -> None:
    cluster.faults.add(Delay(200), client_id="slow")
    cluster.faults.add(Silence(), client_id="deaf")
    with Wire(port, "slow") as slow, Wire(port, "deaf", timeout_s=0.3) as deaf, Wire(port, "other") as other:
        deaf.send(MetadataRequest(topics=()), 12)
        began = time.monotonic()
        other.request(MetadataRequest(topics=()), 12)
        quick = time.monotonic() - began
        slow.request(MetadataRequest(topics=()), 12)
        assert time.monotonic() - began - quick >= 0.19
        with pytest.raises(TimeoutError):
            deaf.exactly(1)


def test_random_faults_repeat_with_their_seed_and_are_recorded(cluster: EmbeddedCluster, port: int) -> None:
    cluster.faults.recording = True
    found = []
    for _ in range(2):
        rule = cluster.faults.add(Error(CODE), api="Heartbeat", probability=0.5, seed=7)
        with Wire(port, "c") as wire:
            found.append([wire.request(HeartbeatRequest(group_id="g"), 4).error_code == CODE for _ in range(20)])
        cluster.faults.remove(rule)
    assert found[0] == found[1]
    assert 0 < sum(found[0]) < 20
    seen = [one.fault is not None for one in cluster.faults.seen if one.client_id == "c"]
    assert seen == found[0] + found[1]


def test_a_consumer_continues_after_an_outage(cluster: EmbeddedCluster, port: int) -> None:
    with Wire(port) as wire:
        wire.request(produce(), 11)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    for broker in cluster.brokers:
        cluster.cut(broker.id)
    assert consumer.poll(0.5) is None
    cluster.heal()
    message = consumer.poll(300)
    assert message is not None
    assert message.error() is None
    consumer.close()


def test_brokers_cut_off_from_the_controller_lose_their_leaderships(cluster: EmbeddedCluster) -> None:
    topic = cluster.call(lambda: cluster.core.create_topic("u", partitions=6, replicas=3))
    cluster.core.broker_configs.properties["broker.session.timeout.ms"] = "100"
    cluster.cut(1, 2, 3)
    until = time.monotonic() + 300
    while any(partition.leader == 1 for partition in topic.partitions) and time.monotonic() < until:
        time.sleep(0.02)
    assert {partition.leader for partition in topic.partitions} == {2, 3}
    cluster.heal()
    assert all(1 in partition.in_sync for partition in topic.partitions)


@pytest.mark.parametrize(
    ("fault", "options", "complaint"),
    [
        (Silence(), {"api": "heartbeat"}, "no API 'heartbeat'; .* such as 'Heartbeat'"),
        (WaitFor("OffsetCommits"), {}, "no API 'OffsetCommits'; .* such as 'OffsetCommit'"),
        (Silence, {}, "is no fault; use an instance"),
        (ErrorCode.NOT_COORDINATOR, {}, "is no fault"),
        (Error("NOT_COORDINATOR"), {}, "the code is no ErrorCode"),  # type: ignore[arg-type]
        (Delay("5"), {}, r"Delay\(delay_ms='5'\): delay_ms is no number"),  # type: ignore[arg-type]
        (Throttle(None), {}, "throttle_time_ms is no number"),  # type: ignore[arg-type]
        (Silence(), {"times": 0}, "times=0"),
        (Silence(), {"times": "2"}, "times='2': give a number from 1"),
        (Silence(), {"probability": "1"}, "probability='1': give a number"),
        (Silence(), {"probability": 50}, "probability=50"),
    ],
)
def test_faults_that_would_never_happen_are_rejected(
    cluster: EmbeddedCluster, fault: Any, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ClusterError, match=complaint):
        cluster.faults.add(fault, **options)
    assert not cluster.faults.rules


def test_a_disconnect_after_the_request_was_applied_keeps_its_effect(cluster: EmbeddedCluster, port: int) -> None:
    cluster.faults.add(Disconnect(applied=True), api="Produce", times=1)
    with Wire(port) as wire:
        wire.send(produce(), 11)
        assert wire.is_closed()
    assert cluster.core.topics["t"].partitions[0].log.next_offset == 1


def test_librdkafka_repeats_failed_commits_after_newer_ones(cluster: EmbeddedCluster) -> None:
    """Why commits of librdkafka may go back after a failure (`tests/integration/clients.py`)."""

    class Failing:
        """Notes the offsets of commits, which fail."""

        def __init__(self) -> None:
            self.offsets: list[int] = []

        def happen(self, handler: Any, connection: Any, header: Any, request: Any) -> None:
            self.offsets += (part.committed_offset for topic in request.topics for part in topic.partitions)
            Error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).happen(handler, connection, header, request)

    cluster.create_topic("t", partitions=1)
    failing = Failing()
    rule = cluster.faults.add(failing, api="OffsetCommit")
    config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    producer = Producer(config)
    group = {"group.id": "g", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 100}
    consumer = Consumer({**config, **group, "group.protocol": "consumer"})
    consumer.subscribe(["t"])

    def went_back() -> bool:
        producer.produce("t", b"x", partition=0)
        producer.flush()
        consumer.poll(0.01)
        return failing.offsets != sorted(failing.offsets)

    try:
        wait_for("an older offset is committed after a newer one", went_back, 60_000, every_ms=0)
    finally:
        cluster.faults.remove(rule)
        consumer.close()

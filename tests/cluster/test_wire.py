"""Requests byte by byte: versions, order, fetch sessions, invalid input."""

import time
from collections.abc import Iterator
from dataclasses import replace
from struct import pack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.cluster import EmbeddedCluster, ManualClock
from quorate.cluster.frames import FrameError, read_header
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from quorate.codecs.api.broker import (
    APIS,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup
from tests.cluster.helpers.wire import Wire
from tests.cluster.test_log import batch
from tests.codecs.helpers.strategies import messages
from tests.extent import portion


@pytest.fixture
def one() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties={"offsets.topic.num.partitions": 1}, seed=2) as made:
        made.call(lambda: made.core.create_topic("t", partitions=2, replicas=1))
        yield made


@pytest.fixture
def wire(one: EmbeddedCluster) -> Iterator[Wire]:
    with Wire(one.core.brokers[1].port) as made:
        yield made


def produce(wire: Wire, data: bytes, *, acks: int = -1, partition: int = 0) -> Any:
    part = PartitionProduceData(index=partition, records=data)
    request = ProduceRequest(acks=acks, topic_data=(TopicProduceData(name="t", partition_data=(part,)),))
    if acks == 0:
        wire.send(request, 11)
        return None
    return wire.request(request, 11).responses[0].partition_responses[0]


def fetch_of(*partitions: tuple[int, int], **options: Any) -> FetchRequest:
    parts = tuple(
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
        for number, offset in partitions
    )
    topics = (FetchTopic(topic="t", partitions=parts),) if parts else ()
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics, **options)


def reported(response: Any) -> dict[int, Any]:
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def test_an_unsupported_api_versions_request_gets_a_v0_response(wire: Wire) -> None:
    wire.socket.sendall(b"\0\0\0\x0c" + pack(">hhih", 18, 99, 5, -1) + b"\0\0")
    frame = wire.frame()
    assert frame[:4] == (5).to_bytes(4, "big")
    assert int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
    assert frame[6:] == pack(">ihhh", 1, 18, 0, 5)  # the versions that the client can use instead


def test_versions_are_reported_for_all_handled_apis(wire: Wire) -> None:
    found = wire.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 4)
    versions = {api_key.api_key: (api_key.min_version, api_key.max_version) for api_key in found.api_keys}
    assert (versions[0], versions[22][1], versions[68]) == ((0, 13), 5, (0, 1))
    assert all(
        versions[key] == (APIS[key].versions[0], APIS[key].versions[-1]) for key in versions if key not in (0, 22)
    )
    assert not any(APIS[key].own for key in versions)


def test_responses_have_the_order_of_requests_also_after_a_waiting_one(one: EmbeddedCluster, wire: Wire) -> None:
    wire.send(replace(fetch_of((0, 0)), max_wait_ms=300), 12)
    wire.send(MetadataRequest(topics=None), 12)
    assert [int.from_bytes(wire.frame()[:4], "big") for _ in range(2)] == [1, 2]


def test_a_waiting_fetch_completes_when_records_are_appended(one: EmbeddedCluster, wire: Wire) -> None:
    with Wire(one.core.brokers[1].port) as producer:
        wire.send(replace(fetch_of((0, 0)), max_wait_ms=8_000), 12)
        assert produce(producer, batch(2)).base_offset == 0
        assert reported(wire.receive(FetchRequest, 12))[0].high_watermark == 2


def test_a_session_returns_only_changes_and_forgets_partitions(wire: Wire) -> None:
    produce(wire, batch(1))
    first = wire.request(fetch_of((0, 1), (1, 0), session_epoch=0), 12)
    assert set(reported(first)) == {0, 1}
    session = {"session_id": first.session_id}
    assert reported(wire.request(fetch_of(**session, session_epoch=1), 12)) == {}
    produce(wire, batch(1), partition=1)
    assert set(reported(wire.request(fetch_of(**session, session_epoch=2), 12))) == {1}
    wrong = wire.request(fetch_of(**session, session_epoch=2), 12)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    wire.request(fetch_of((0, 0), **session, session_epoch=-1), 12)
    assert wire.request(fetch_of(**session, session_epoch=3), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_acks_0_gets_no_response_and_an_error_closes_the_connection(wire: Wire) -> None:
    produce(wire, batch(1), acks=0)
    assert wire.request(fetch_of((0, 0)), 12).responses[0].partitions[0].high_watermark == 1
    produce(wire, batch(1)[:-1] + b"?", acks=0)
    assert wire.is_closed()


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(-1, (4, -1)), (-2, (0, -1)), (-3, (3, 1003)), (1002, (2, 1002)), (1, (0, 1000)), (9999, (-1, -1))],
)
def test_offsets_are_found_by_time(wire: Wire, timestamp: int, found: tuple[int, int]) -> None:
    produce(wire, batch(4, at_ms=1000))
    topic = ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(timestamp=timestamp),))
    part = wire.request(ListOffsetsRequest(replica_id=-1, topics=(topic,)), 7).topics[0].partitions[0]
    assert (part.error_code, (part.offset, part.timestamp)) == (0, found)


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\x02\0\x03",
        b"\0\0\0\x0a" + pack(">hhih", 3, 12, 1, 500),
        b"\0\0\0\x0a" + pack(">hhih", 999, 0, 1, -1),
        b"\0\0\0\x0a" + pack(">hhih", 3, 99, 1, -1),
        b"\0\0\0\x10" + pack(">hhih", 3, 12, 1, -1) + b"\0\x7f\x7f\x7f\x7f\x7f",
    ],
    ids=["negative size", "too large", "short", "client id beyond", "unknown API", "unknown version", "body"],
)
def test_an_invalid_request_closes_only_its_connection(one: EmbeddedCluster, wire: Wire, frame: bytes) -> None:
    wire.socket.sendall(frame)
    assert wire.is_closed()
    assert any("closed a connection" in note for note in one.core.notes)
    with Wire(one.core.brokers[1].port) as other:
        assert other.request(MetadataRequest(topics=None), 12).topics[0].name == "t"


@given(st.binary(max_size=60))
def test_random_bytes_are_a_header_or_a_frame_error(data: bytes) -> None:
    try:
        header = read_header(data)
    except FrameError:
        return
    assert 0 <= header.body <= len(data)


@settings(max_examples=portion(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_random_bodies_do_not_affect_others(one: EmbeddedCluster, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(APIS)))
    version = data.draw(st.sampled_from(APIS[key].versions))
    body = data.draw(st.binary(max_size=80))
    with Wire(one.core.brokers[1].port) as bad:
        head = pack(">hhih", key, version, 1, -1) + (b"\0" if APIS[key].request_header_version(version) == 2 else b"")
        bad.socket.sendall((len(head) + len(body)).to_bytes(4, "big") + head + body)
    with Wire(one.core.brokers[1].port) as other:
        assert other.request(MetadataRequest(topics=()), 12).topics == ()
    assert one.core.failures == []


@settings(max_examples=portion(200), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_random_requests_get_a_response_or_close_the_connection(one: EmbeddedCluster, data: st.DataObject) -> None:
    """Well-formed messages of all types, with random values."""
    api = APIS[data.draw(st.sampled_from(sorted(APIS)))]
    version = data.draw(st.sampled_from(api.versions))
    request = data.draw(messages(api.request.cls, version, unknown_tags=False))
    with Wire(one.core.brokers[1].port) as odd:
        odd.send(request, version)
    with Wire(one.core.brokers[1].port) as other:
        other.request(MetadataRequest(topics=()), 12)
    assert one.core.failures == [], one.core.failures[0]


def test_a_joining_member_gets_a_response_after_the_rebalance_delay(wire: Wire) -> None:
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer"
    )
    first = wire.request(join, 9)
    assert first.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE or first.error_code in (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    )
    beat = wire.request(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert beat.error_code == ErrorCode.NOT_COORDINATOR  # the offsets topic does not exist before FindCoordinator


def test_not_coordinator_is_returned_for_each_group(cluster: EmbeddedCluster) -> None:
    core = cluster.core
    cluster.call(lambda: core.internal_topic("__consumer_offsets"))
    partition = core.groups.partition_for("g")
    assert partition is not None
    other = next(broker for broker in core.brokers.values() if broker.id != partition.leader)
    requested: list[tuple[Any, int, Any]] = [
        (DescribeGroupsRequest(groups=("g",)), 5, lambda found: found.groups[0].error_code),
        (ConsumerGroupDescribeRequest(group_ids=("g",)), 1, lambda found: found.groups[0].error_code),
        (ShareGroupDescribeRequest(group_ids=("g",)), 1, lambda found: found.groups[0].error_code),
        (StreamsGroupDescribeRequest(group_ids=("g",)), 0, lambda found: found.groups[0].error_code),
        (DeleteGroupsRequest(groups_names=("g",)), 2, lambda found: found.results[0].error_code),
        (
            OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g"),)),
            9,
            lambda found: found.groups[0].error_code,
        ),
        (OffsetFetchRequest(group_id="g"), 5, lambda found: found.error_code),
        (HeartbeatRequest(group_id="g"), 4, lambda found: found.error_code),
    ]
    with Wire(other.port) as wrong:
        for request, version, error_of in requested:
            assert error_of(wrong.request(request, version)) == ErrorCode.NOT_COORDINATOR
        assert wrong.request(DescribeGroupsRequest(), 5).groups == ()


def test_a_paused_broker_does_not_respond_until_it_resumes(one: EmbeddedCluster, wire: Wire) -> None:
    broker = one.core.brokers[1]
    wire.send(replace(fetch_of((0, 0)), max_wait_ms=50), 12)
    one.call(lambda: broker.freeze(True))
    with Wire(broker.port) as another:
        another.send(MetadataRequest(topics=None), 12)
        for silent in (wire, another):
            silent.socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                silent.exactly(1)
            silent.socket.settimeout(10)
        one.call(lambda: broker.freeze(False))
        assert wire.receive(FetchRequest, 12).error_code == 0
        assert another.receive(MetadataRequest, 12).topics[0].name == "t"


def test_a_broker_paused_longer_than_its_session_timeout_is_fenced_until_it_resumes() -> None:
    clock = ManualClock()
    with EmbeddedCluster(brokers=2, clock=clock, properties={"broker.session.timeout.ms": 4000}) as two:
        topic = two.call(lambda: two.core.create_topic("t", partitions=4, replicas=2))
        two.call(lambda: two.core.brokers[1].freeze(True))
        two.call(lambda: clock.advance(3999))
        assert {partition.leader for partition in topic.partitions} == {1, 2}
        two.call(lambda: clock.advance(1))
        assert {partition.leader for partition in topic.partitions} == {2}
        two.call(lambda: two.core.brokers[1].freeze(False))
        assert {partition.in_sync for partition in topic.partitions} <= {(1, 2), (2, 1)}


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, ErrorCode.NONE), (0, ErrorCode.NONE), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_another_leader_epoch_of_a_client_is_an_error(wire: Wire, epoch: int, code: ErrorCode) -> None:
    part = ListOffsetsPartition(timestamp=-1, current_leader_epoch=epoch)
    requested = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(part,)),))
    assert wire.request(requested, 7).topics[0].partitions[0].error_code == code


@pytest.mark.parametrize(("version", "leader"), [(12, -1), (15, -1), (16, 2), (18, 2)])
def test_fetch_returns_the_current_leader_since_v16(version: int, leader: int) -> None:
    """Earlier versions have the field, but brokers leave it at -1 (KIP-951)."""
    with EmbeddedCluster(brokers=2, seed=1) as two:
        topic = two.call(lambda: two.core.create_topic("t", assignment=[[2]]))
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        named = (
            FetchTopic(topic_id=topic.id, partitions=(part,))
            if version >= 13
            else FetchTopic(topic="t", partitions=(part,))
        )
        with Wire(two.core.brokers[1].port) as wire:
            reply = wire.request(FetchRequest(max_wait_ms=0, min_bytes=1, topics=(named,)), version)
        found = reported(reply)[0]
        assert (found.error_code, found.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader)
        assert [node_endpoint.node_id for node_endpoint in reply.node_endpoints] == ([2] if leader == 2 else [])


def test_topics_with_colliding_names_are_deleted_one_by_one(one: EmbeddedCluster) -> None:
    made = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a.b", "a_b")]
    with Wire(one.core.brokers[1].port) as wire:

        def errors(request: CreateTopicsRequest | DeleteTopicsRequest) -> list[int]:
            reply = wire.request(request, 5)
            results = reply.topics if isinstance(request, CreateTopicsRequest) else reply.responses
            return [result.error_code for result in results]

        assert errors(CreateTopicsRequest(topics=tuple(made))) == [0, 0]
        assert errors(DeleteTopicsRequest(topic_names=("a.b",))) == [0]
        assert errors(CreateTopicsRequest(topics=(made[0],))) == [17]  # a_b still exists
        assert errors(DeleteTopicsRequest(topic_names=("a_b",))) == [0]
        assert errors(CreateTopicsRequest(topics=(made[0],))) == [0]


def test_an_expensive_regex_does_not_block_other_requests() -> None:
    """Issue 14: one heartbeat took seconds.

    Another client is served meanwhile, and the group gets its topics in the end.
    """
    names = ["ab" * 118 + f"-{number}" for number in range(100)]
    with EmbeddedCluster(properties={"offsets.topic.num.partitions": 1}) as one, Wire(one.core.brokers[1].port) as wire:
        topics = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names)
        wire.request(CreateTopicsRequest(topics=topics), 7)
        wire.request(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
        join = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex="a*b*" * 2600 + "-[0-9]+",
            topic_partitions=(),
        )
        assert wire.request(join, 1).member_epoch == 1
        (runtime,) = one.core.groups.runtimes().values()
        with Wire(one.core.brokers[1].port) as other:
            other.request(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
        assert runtime.shard.tasks, "the regex was matched in one turn"

        epoch, assigned = 1, ()
        until = time.monotonic() + 120
        while len(assigned) < len(names):
            assert time.monotonic() < until
            beat = replace(join, member_epoch=epoch, subscribed_topic_regex=None, topic_partitions=None)
            reply = wire.request(beat, 1)
            epoch = reply.member_epoch
            assigned = assigned if reply.assignment is None else reply.assignment.topic_partitions

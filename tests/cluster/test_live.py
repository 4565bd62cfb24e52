"""Readers of a live cluster with injected faults."""

import pytest

from quorate.cluster import Delay, Disconnect, EmbeddedCluster, Error
from quorate.codecs import LiveError, read_live
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.helpers.wire import Wire


@pytest.fixture
def group(cluster: EmbeddedCluster) -> str:
    """Create a group with one member, in an existing topic."""
    cluster.call(
        lambda: (cluster.core.create_topic("t", partitions=2), cluster.core.internal_topic("__consumer_offsets"))
    )
    partition = cluster.core.groups.partition_for("g")
    assert partition is not None
    with Wire(cluster.core.brokers[partition.leader].port) as wire:
        join = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
        assert wire.request(join, 1).error_code == 0
    return "g"


def test_a_reader_retries_if_a_broker_stops_at_its_start(cluster: EmbeddedCluster, group: str) -> None:
    cluster.faults.add(Disconnect(), api="ListOffsets", times=3)
    found = list(read_live(cluster.bootstrap_servers))
    assert {getattr(one.record, "name", None) for one in found} >= {
        "ConsumerGroupMetadata",
        "ConsumerGroupMemberMetadata",
    }


def test_a_reader_without_a_response_raises_an_error(cluster: EmbeddedCluster, group: str) -> None:
    cluster.faults.add(Disconnect(), api="ListOffsets")
    with pytest.raises(
        LiveError, match="no offsets of __consumer_offsets within 1,000 ms: their leaders do not respond"
    ):
        list(read_live(cluster.bootstrap_servers, connect_timeout_ms=1_000))


def test_a_missing_topic_is_reported_also_by_slow_brokers(cluster: EmbeddedCluster) -> None:
    """The consumer raised the error of another request, whose text is the topic name (issue 14)."""
    cluster.faults.add(Delay(1_500), api="Metadata")
    with pytest.raises(LiveError, match="__share_group_state does not exist; brokers create it when"):
        next(read_live(cluster.bootstrap_servers, topic="__share_group_state", connect_timeout_ms=60_000))


def test_a_topic_created_while_a_reader_starts_is_read(cluster: EmbeddedCluster, group: str) -> None:
    unknown = cluster.faults.add(
        Error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), api="Metadata", topic="__consumer_offsets", times=3
    )
    assert list(read_live(cluster.bootstrap_servers))
    assert unknown.happened == 3


def test_a_reader_waits_for_leaders_of_a_topic(cluster: EmbeddedCluster, group: str) -> None:
    elected = cluster.faults.add(
        Error(ErrorCode.LEADER_NOT_AVAILABLE), api="Metadata", topic="__consumer_offsets", times=8
    )
    assert list(read_live(cluster.bootstrap_servers))
    assert elected.happened == 8


def test_a_permanent_error_of_a_topic_is_reported(cluster: EmbeddedCluster, group: str) -> None:
    cluster.faults.add(Error(ErrorCode.LEADER_NOT_AVAILABLE), api="Metadata", topic="__consumer_offsets")
    with pytest.raises(LiveError) as caught:
        list(read_live(cluster.bootstrap_servers, connect_timeout_ms=1_000))
    assert "the partitions of __consumer_offsets are not known after 1,000 ms: LEADER_NOT_AVAILABLE" in str(
        caught.value
    )
    assert str(caught.value).endswith("are enough brokers up?")


def test_partitions_whose_brokers_are_down_are_reported() -> None:
    properties = {"offsets.topic.num.partitions": 2, "offsets.topic.replication.factor": 1}
    with EmbeddedCluster(brokers=2, properties=properties, seed=1) as cluster:
        topic = cluster.call(lambda: cluster.core.internal_topic("__consumer_offsets"))
        gone = topic.partitions[1].leader
        cluster.stop_broker(gone)
        with pytest.raises(
            LiveError, match="within 1,000 ms: no leader for partition 1; are the brokers of their replicas"
        ):
            list(read_live(cluster.bootstrap_servers, connect_timeout_ms=1_000))

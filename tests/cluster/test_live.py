"""Readers of a live cluster, on one that fails when it is told to."""

import pytest

from quorate.cluster import Disconnect, EmbeddedCluster
from quorate.codecs import LiveError, read_live
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from tests.cluster.wire import Wire


@pytest.fixture
def group(cluster: EmbeddedCluster) -> str:
    """A group with one member, in a topic that is there."""
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
        assert wire.ask(join, 1).error_code == 0
    return "g"


def test_a_reader_asks_again_when_a_broker_goes_away_while_it_begins(cluster: EmbeddedCluster, group: str) -> None:
    cluster.core.faults.add(Disconnect(), api="ListOffsets", times=3)
    found = list(read_live(cluster.bootstrap_servers))
    assert {getattr(one.record, "name", None) for one in found} >= {
        "ConsumerGroupMetadata",
        "ConsumerGroupMemberMetadata",
    }


def test_a_reader_that_never_gets_an_answer_says_so(cluster: EmbeddedCluster, group: str) -> None:
    cluster.core.faults.add(Disconnect(), api="ListOffsets")
    with pytest.raises(LiveError, match="reading __consumer_offsets failed"):
        list(read_live(cluster.bootstrap_servers, connect_timeout_ms=1_000))

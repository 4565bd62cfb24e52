"""StreamsGroupHeartbeat on an embedded cluster: internal topics and topic names."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.codecs.api import StreamsGroupHeartbeatRequest, StreamsGroupTopologyDescriptionUpdateRequest
from quorate.codecs.api.broker import FindCoordinatorRequest
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.streams_group_heartbeat import KeyValue, Subtopology, TopicInfo, Topology
from tests.cluster.helpers.wire import Wire

PROPERTIES = {"offsets.topic.num.partitions": 1, "group.streams.initial.rebalance.delay.ms": 0}
CHANGELOG, REPARTITION = "app-counts-changelog", "app-words-repartition"
JOIN = StreamsGroupHeartbeatRequest(
    group_id="app",
    member_id="m1",
    process_id="p1",
    rebalance_timeout_ms=60_000,
    topology=Topology(
        subtopologies=(
            Subtopology(subtopology_id="0", source_topics=("lines",), repartition_sink_topics=(REPARTITION,)),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=(TopicInfo(name=REPARTITION, partitions=3),),
                state_changelog_topics=(
                    TopicInfo(name=CHANGELOG, topic_configs=(KeyValue(key="cleanup.policy", value="compact"),)),
                ),
            ),
        )
    ),
    active_tasks=(),
    standby_tasks=(),
    warmup_tasks=(),
)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, properties=PROPERTIES) as made:
        made.call(lambda: made.core.create_topic("lines", partitions=2, replicas=1))
        yield made


@pytest.fixture
def wire(cluster: EmbeddedCluster) -> Iterator[Wire]:
    with Wire(cluster.core.brokers[1].port) as made:
        made.request(FindCoordinatorRequest(coordinator_keys=("app",)), 4)
        yield made


def beat(wire: Wire, request: StreamsGroupHeartbeatRequest) -> Any:
    return wire.request(request, 1)


def test_a_broker_creates_internal_topics_with_their_partitions_and_configs(
    cluster: EmbeddedCluster, wire: Wire
) -> None:
    joined = beat(wire, JOIN)
    assert [one.status_code for one in joined.status] == [3]
    assert joined.active_tasks == ()
    topics = cluster.core.topics
    assert {name: len(topics[name].partitions) for name in (CHANGELOG, REPARTITION)} == {CHANGELOG: 3, REPARTITION: 3}
    assert topics[CHANGELOG].config == {"cleanup.policy": "compact"}
    again = beat(wire, replace(JOIN, member_epoch=joined.member_epoch, topology=None, rebalance_timeout_ms=-1))
    assert not again.error_code
    assert all(one.status_code != 3 for one in again.status)


def test_a_topic_that_cannot_be_created_is_in_the_next_status(cluster: EmbeddedCluster, wire: Wire) -> None:
    first, second = JOIN.topology.subtopologies  # type: ignore[union-attr]
    bad = replace(second, state_changelog_topics=(TopicInfo(name=CHANGELOG, replication_factor=3),))
    joined = beat(wire, replace(JOIN, topology=Topology(subtopologies=(first, bad))))
    assert "Creation failed" not in joined.status[0].status_detail
    again = beat(wire, replace(JOIN, member_epoch=joined.member_epoch, topology=None, rebalance_timeout_ms=-1))
    (missing,) = [one for one in again.status if one.status_code == 3]
    assert f"Creation failed: {CHANGELOG} (" in missing.status_detail
    assert CHANGELOG not in cluster.core.topics


@pytest.mark.parametrize("name", ["__consumer_offsets", "with space"])
def test_topologies_with_internal_or_invalid_topic_names_are_rejected(wire: Wire, name: str) -> None:
    topology = Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=(name,)),))
    assert beat(wire, replace(JOIN, topology=topology)).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_topology_descriptions_need_a_plug_in(wire: Wire) -> None:
    request = StreamsGroupTopologyDescriptionUpdateRequest(group_id="app", member_id="m1")
    assert wire.request(request, 0).error_code == ErrorCode.UNSUPPORTED_VERSION

"""UpdateFeatures: a cluster agrees on other levels of features, tells of them, behaves so, and knows them after a restart.

Beside a real broker: test_pair.
"""

from pathlib import Path
from typing import Any

from quorate.cluster import EmbeddedCluster
from quorate.cluster.features import INCOMPLETE
from quorate.cluster.handlers import HANDLERS
from quorate.codecs import Uuid
from quorate.codecs.api import ConsumerGroupDescribeRequest, ShareGroupHeartbeatRequest
from quorate.codecs.api.broker import (
    ApiVersionsRequest,
    DescribeQuorumRequest,
    FindCoordinatorRequest,
    UpdateFeaturesRequest,
)
from quorate.codecs.api.broker.describe_quorum_request import PartitionData, TopicData
from quorate.codecs.api.broker.update_features import FeatureUpdateKey
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.wire import Wire

UP, DOWN = 1, 2


def update(wire: Wire, *levels: tuple[str, int, int], only_check: bool = False) -> Any:
    updates = tuple(
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in levels
    )
    return wire.ask(UpdateFeaturesRequest(feature_updates=updates, validate_only=only_check), 1)


def told(wire: Wire) -> tuple[int, dict[str, int]]:
    answer = wire.ask(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 4)
    return answer.finalized_features_epoch, {one.name: one.max_version_level for one in answer.finalized_features}


def describe(wire: Wire) -> int:
    (group,) = wire.ask(ConsumerGroupDescribeRequest(group_ids=("g",)), 0).groups
    return int(group.error_code)


def test_groups_of_the_consumer_protocol_come_and_go_with_their_feature_and_clients_are_told() -> None:
    with EmbeddedCluster(brokers=1) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        assert describe(wire) != ErrorCode.UNSUPPORTED_VERSION
        first, levels = told(wire)
        assert update(wire, ("group.version", 0, DOWN)).error_code == ErrorCode.NONE
        second, fewer = told(wire)
        assert second > first
        assert fewer == {name: level for name, level in levels.items() if name != "group.version"}
        assert describe(wire) == ErrorCode.UNSUPPORTED_VERSION
        assert update(wire, ("group.version", 1, UP)).error_code == ErrorCode.NONE
        assert told(wire)[1] == levels
        assert describe(wire) != ErrorCode.UNSUPPORTED_VERSION


def test_a_cluster_of_older_brokers_gets_the_features_after_its_upgrade() -> None:
    with EmbeddedCluster(brokers=1, version="3.9.2") as cluster:
        cluster.upgrade("4.3.1")
        with Wire(cluster.core.brokers[1].port) as wire:
            assert describe(wire) == ErrorCode.UNSUPPORTED_VERSION
            assert update(wire, ("metadata.version", 30, UP), ("group.version", 1, UP)).error_code == ErrorCode.NONE
            assert describe(wire) != ErrorCode.UNSUPPORTED_VERSION


def test_a_new_cluster_is_without_features_of_which_an_api_is_missing() -> None:
    """Issue 14: with share.version on, librdkafka's share consumer joined, and polled nothing for ever."""
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=("t",))
    with EmbeddedCluster(brokers=1) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        wire.ask(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
        assert not told(wire)[1].keys() & {"share.version", "streams.version"}
        assert wire.ask(request, 1).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert update(wire, ("share.version", 1, UP), ("streams.version", 1, UP)).error_code == ErrorCode.NONE
        assert told(wire)[1].items() >= {"share.version": 1, "streams.version": 1}.items()
        assert wire.ask(request, 1).error_code == ErrorCode.NONE


def test_a_feature_is_incomplete_only_while_its_api_is_missing() -> None:
    answered = {one.api.name for one in HANDLERS.values()}
    assert not answered & set(INCOMPLETE.values()), "it is answered now: take the feature out of INCOMPLETE"


def test_nothing_changes_where_one_of_several_levels_cannot_be_or_only_a_check_is_asked_for() -> None:
    with EmbeddedCluster(brokers=1) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        before = told(wire)
        failed = update(wire, ("transaction.version", 0, DOWN), ("group.version", 9, UP))
        assert failed.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "group.version" in failed.error_message
        assert update(wire, ("transaction.version", 0, DOWN), only_check=True).error_code == ErrorCode.NONE
        assert told(wire) == before


def test_levels_outlive_a_restart_also_of_features_that_are_off(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=1, data=tmp_path) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        update(wire, ("group.version", 0, DOWN), ("kraft.version", 1, UP))
        levels = told(wire)[1]
    with EmbeddedCluster(brokers=1, data=tmp_path) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        assert told(wire)[1] == levels
        assert "group.version" not in levels
        assert levels["kraft.version"] == 1


def test_each_broker_is_a_controller_and_the_first_that_is_up_leads(tmp_path: Path) -> None:
    asked = DescribeQuorumRequest(topics=(TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(),)),))
    with EmbeddedCluster(brokers=3, data=tmp_path) as cluster:
        cluster.stop_broker(1)
        with Wire(cluster.core.brokers[2].port) as wire:
            found = wire.ask(asked, 2)
        assert [node.node_id for node in found.nodes] == [1, 2, 3]
        (state,) = found.topics[0].partitions
        assert state.leader_id == 2
        ends = [one.log_end_offset for one in state.current_voters]
        assert ends == [-1, state.high_watermark, state.high_watermark]
        assert state.high_watermark > 0


def test_controllers_have_directories_since_kraft_version_1_which_older_requests_do_not_tell() -> None:
    asked = DescribeQuorumRequest(topics=(TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(),)),))
    with EmbeddedCluster(brokers=2) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        (before,) = wire.ask(asked, 2).topics[0].partitions
        assert {one.replica_directory_id for one in before.current_voters} == {Uuid.ZERO}
        update(wire, ("kraft.version", 1, UP))
        (after,) = wire.ask(asked, 2).topics[0].partitions
        assert len({one.replica_directory_id for one in after.current_voters} - {Uuid.ZERO}) == 2
        for version in (0, 1):
            assert wire.ask(asked, version).topics[0].partitions[0].error_code == ErrorCode.NONE

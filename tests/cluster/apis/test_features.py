"""UpdateFeatures: feature levels are changed, reported, take effect, and survive a restart.

Compared with a real broker in test_pair.
"""

from pathlib import Path
from typing import Any

from quorate.cluster import EmbeddedCluster
from quorate.codecs import Uuid
from quorate.codecs.api import ConsumerGroupDescribeRequest, StreamsGroupDescribeRequest
from quorate.codecs.api.broker import (
    ApiVersionsRequest,
    DescribeQuorumRequest,
    FindCoordinatorRequest,
    UpdateFeaturesRequest,
)
from quorate.codecs.api.broker.describe_quorum_request import PartitionData, TopicData
from quorate.codecs.api.broker.update_features import FeatureUpdateKey
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.helpers.wire import Wire

UP, DOWN = 1, 2


def update(wire: Wire, *levels: tuple[str, int, int], only_check: bool = False) -> Any:
    updates = tuple(
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in levels
    )
    return wire.request(UpdateFeaturesRequest(feature_updates=updates, validate_only=only_check), 1)


def reported(wire: Wire) -> tuple[int, dict[str, int]]:
    response = wire.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 4)
    return response.finalized_features_epoch, {
        finalized_feature.name: finalized_feature.max_version_level for finalized_feature in response.finalized_features
    }


def describe(wire: Wire) -> int:
    (group,) = wire.request(ConsumerGroupDescribeRequest(group_ids=("g",)), 0).groups
    return int(group.error_code)


def test_the_consumer_protocol_follows_its_feature_and_clients_see_it() -> None:
    with EmbeddedCluster(brokers=1) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        assert describe(wire) != ErrorCode.UNSUPPORTED_VERSION
        first, levels = reported(wire)
        assert update(wire, ("group.version", 0, DOWN)).error_code == ErrorCode.NONE
        second, fewer = reported(wire)
        assert second > first
        assert fewer == {name: level for name, level in levels.items() if name != "group.version"}
        assert describe(wire) == ErrorCode.UNSUPPORTED_VERSION
        assert update(wire, ("group.version", 1, UP)).error_code == ErrorCode.NONE
        assert reported(wire)[1] == levels
        assert describe(wire) != ErrorCode.UNSUPPORTED_VERSION


def test_features_can_be_enabled_after_an_upgrade() -> None:
    with EmbeddedCluster(brokers=1, version="3.9.2") as cluster:
        cluster.upgrade("4.3.1")
        with Wire(cluster.core.brokers[1].port) as wire:
            assert describe(wire) == ErrorCode.UNSUPPORTED_VERSION
            assert update(wire, ("metadata.version", 30, UP), ("group.version", 1, UP)).error_code == ErrorCode.NONE
            assert describe(wire) != ErrorCode.UNSUPPORTED_VERSION


def test_a_feature_can_be_disabled_and_enabled() -> None:
    request = StreamsGroupDescribeRequest(group_ids=("g",))
    with EmbeddedCluster(brokers=1) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        wire.request(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
        assert reported(wire)[1].items() >= {"share.version": 2, "streams.version": 1}.items()
        assert update(wire, ("streams.version", 0, DOWN)).error_code == ErrorCode.NONE
        assert "streams.version" not in reported(wire)[1]
        assert wire.request(request, 0).groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION
        assert update(wire, ("streams.version", 1, UP)).error_code == ErrorCode.NONE
        assert wire.request(request, 0).groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_nothing_changes_if_one_level_is_invalid_or_with_validate_only() -> None:
    with EmbeddedCluster(brokers=1) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        before = reported(wire)
        failed = update(wire, ("transaction.version", 0, DOWN), ("group.version", 9, UP))
        assert failed.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "group.version" in failed.error_message
        assert update(wire, ("transaction.version", 0, DOWN), only_check=True).error_code == ErrorCode.NONE
        assert reported(wire) == before


def test_levels_survive_a_restart_also_of_disabled_features(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=1, data=tmp_path) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        update(wire, ("group.version", 0, DOWN), ("kraft.version", 1, UP))
        levels = reported(wire)[1]
    with EmbeddedCluster(brokers=1, data=tmp_path) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        assert reported(wire)[1] == levels
        assert "group.version" not in levels
        assert levels["kraft.version"] == 1


def test_each_broker_is_a_voter_and_the_first_that_is_up_is_the_leader(tmp_path: Path) -> None:
    requested = DescribeQuorumRequest(
        topics=(TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(),)),)
    )
    with EmbeddedCluster(brokers=3, data=tmp_path) as cluster:
        cluster.stop_broker(1)
        with Wire(cluster.core.brokers[2].port) as wire:
            found = wire.request(requested, 2)
        assert [node.node_id for node in found.nodes] == [1, 2, 3]
        (state,) = found.topics[0].partitions
        assert state.leader_id == 2
        ends = [current_voter.log_end_offset for current_voter in state.current_voters]
        assert ends == [-1, state.high_watermark, state.high_watermark]
        assert state.high_watermark > 0


def test_controllers_have_directories_since_kraft_version_1_and_describe_quorum_v1() -> None:
    requested = DescribeQuorumRequest(
        topics=(TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(),)),)
    )
    with EmbeddedCluster(brokers=2) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        (before,) = wire.request(requested, 2).topics[0].partitions
        assert {current_voter.replica_directory_id for current_voter in before.current_voters} == {Uuid.ZERO}
        update(wire, ("kraft.version", 1, UP))
        (after,) = wire.request(requested, 2).topics[0].partitions
        assert len({current_voter.replica_directory_id for current_voter in after.current_voters} - {Uuid.ZERO}) == 2
        for version in (0, 1):
            assert wire.request(requested, version).topics[0].partitions[0].error_code == ErrorCode.NONE

"""`kafka_version`: versions, features and group behaviour, compared with recordings of releases."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import ClusterError, EmbeddedCluster
from quorate.cluster.handlers import HANDLERS, TELEMETRY
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    ShareGroupHeartbeatRequest,
)
from quorate.codecs.api.broker import ApiVersionsRequest, DescribeConfigsRequest, FindCoordinatorRequest
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.lookup import api_of
from quorate.codecs.releases import RELEASES, KafkaVersion, features_of, last_versions
from quorate.coordinator.config import ConfigError, MigrationPolicy
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.wire import Wire

RECORDED = {
    one["version"]: one
    for one in map(
        json.loads, (Path(__file__).parents[1] / "data" / "api_versions.jsonl").read_text(encoding="utf-8").splitlines()
    )
}
API_VERSIONS = ApiVersionsRequest(client_software_name="w", client_software_version="1")


def reported(cluster: EmbeddedCluster, version: int) -> Any:
    with Wire(cluster.core.brokers[1].port) as wire:
        return wire.request(API_VERSIONS, version)


@pytest.mark.parametrize("version", RECORDED)
def test_a_cluster_reports_the_versions_of_its_release(version: str) -> None:
    with EmbeddedCluster(version=version, properties=QUICK) as cluster:
        keys = {
            api_key.api_key: [api_key.min_version, api_key.max_version] for api_key in reported(cluster, 4).api_keys
        }
    real = {int(key): span for key, span in RECORDED[version]["api_keys"].items()}
    known = {handled.api.key: handled.api for handled in HANDLERS.values() if not handled.api.own}
    # The declared versions are those of 4.x: an embedded 3.9 lacks those that 4.0 removed.
    expected = {
        key: [max(first, known[key].versions[0]) if key else first, last]
        for key, (first, last) in real.items()
        if key in known
    }
    assert keys == expected


@pytest.mark.parametrize("requested", [3, 4])
@pytest.mark.parametrize("version", RECORDED)
def test_a_cluster_has_the_features_of_its_release(version: str, requested: int) -> None:
    with EmbeddedCluster(version=version, properties=QUICK) as cluster:
        found = reported(cluster, requested)
    real = RECORDED[version][f"features_{requested}"]
    assert {
        supported_feature.name: [supported_feature.min_version, supported_feature.max_version]
        for supported_feature in found.supported_features
    } == real["supported"]
    assert {
        finalized_feature.name: finalized_feature.max_version_level for finalized_feature in found.finalized_features
    } == real["finalized"]
    assert all(
        finalized_feature.min_version_level == finalized_feature.max_version_level
        for finalized_feature in found.finalized_features
    )


@pytest.mark.parametrize("version", RECORDED)
def test_the_table_of_releases_equals_the_recordings_of_real_brokers(version: str) -> None:
    release = KafkaVersion.parse(version)
    recorded = RECORDED[version]
    assert last_versions(release) == {int(key): last for key, (_, last) in recorded["api_keys"].items()}
    features = features_of(release)
    assert {name: [least, most] for name, (least, most, _) in features.items()} == recorded["features_4"]["supported"]
    assert {name: level for name, (_, _, level) in features.items() if level} == recorded["features_4"]["finalized"]


def test_no_release_removes_versions_of_the_one_before() -> None:
    for older, newer in pairwise(RELEASES):
        assert all(last_versions(newer)[key] >= last for key, last in last_versions(older).items())


def test_a_version_newer_than_the_release_closes_the_connection_and_is_reported() -> None:
    request = OffsetCommitRequest(group_id="g")
    with EmbeddedCluster(version="4.0.2", properties=QUICK) as old:
        with Wire(old.core.brokers[1].port) as wire:
            wire.send(request, 10)
            assert wire.is_closed()
        assert "API key 8 version 10 is not supported by Kafka 4.0.2" in old.core.notes[-1]
    with EmbeddedCluster(properties=QUICK) as new, Wire(new.core.brokers[1].port) as wire:
        wire.request(request, 10)


def heartbeat(wire: Wire, version: int = 0) -> int:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=("t",), topic_partitions=()
    )
    return int(wire.request(request, version).error_code)


def test_the_consumer_protocol_is_rejected_by_default_in_3_9() -> None:
    with (
        EmbeddedCluster(version="3.9.2", properties=QUICK) as cluster,
        Wire(cluster.core.brokers[1].port) as wire,
    ):
        assert heartbeat(wire) == ErrorCode.UNSUPPORTED_VERSION
        (described,) = wire.request(ConsumerGroupDescribeRequest(group_ids=("g",)), 0).groups
        assert (described.group_id, described.error_code) == ("g", ErrorCode.UNSUPPORTED_VERSION)


def test_an_upgrade_adds_versions_and_keeps_feature_levels() -> None:
    with EmbeddedCluster(version="3.9.2", properties=QUICK) as cluster:
        cluster.upgrade("4.3.1")
        found = reported(cluster, 4)
        assert {api_key.api_key: api_key.max_version for api_key in found.api_keys}[0] == 13
        assert {
            finalized_feature.name: finalized_feature.max_version_level
            for finalized_feature in found.finalized_features
        } == {"metadata.version": 21}
        with Wire(cluster.core.brokers[1].port) as wire:
            assert heartbeat(wire) == ErrorCode.UNSUPPORTED_VERSION


def test_a_new_cluster_supports_the_consumer_protocol() -> None:
    with (
        EmbeddedCluster(version="4.0.2", properties=QUICK) as cluster,
        Wire(cluster.core.brokers[1].port) as wire,
    ):
        wire.request(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
        assert heartbeat(wire) == ErrorCode.NONE


@pytest.mark.parametrize("version", ["3.5.0", "5.0.0", "4.9.0"])
def test_an_unknown_release_is_rejected(version: str) -> None:
    said = re.escape(f"cannot run Kafka {version}: use 4.4.0, or another of 3.9, 4.0")
    with pytest.raises(ConfigError, match=said):
        EmbeddedCluster(version=version)
    with EmbeddedCluster() as cluster, pytest.raises(ClusterError, match=said):
        cluster.upgrade(version)


def test_groups_are_migrated_by_default_from_4_0_on() -> None:
    """The default `group.consumer.migration.policy` follows the release, also after an upgrade."""
    core = EmbeddedCluster(brokers=1, version="3.9.2").core
    assert core.broker_configs.coordinator.group_consumer_migration_policy is MigrationPolicy.DISABLED
    core.broker_configs.upgrade(KafkaVersion.NEWEST)
    assert core.broker_configs.coordinator.group_consumer_migration_policy is MigrationPolicy.BIDIRECTIONAL


def test_apis_of_later_releases_are_reported_once_they_are_handled() -> None:
    """A new release in the table must not hide handled APIs."""
    newest = last_versions(RELEASES[-1])
    for handled in HANDLERS.values():
        if not handled.api.own and handled.api.key not in TELEMETRY:
            assert handled.api.key in newest, handled.api.name
            assert api_of(handled.api.key).versions[-1] >= newest[handled.api.key]


@pytest.mark.parametrize(
    ("version", "count", "has", "lacks"),
    [
        ("4.3.1", 17, "share.delivery.count.limit", ""),
        ("4.2.1", 11, "streams.initial.rebalance.delay.ms", "share.delivery.count.limit"),
        ("4.1.1", 10, "share.isolation.level", "streams.initial.rebalance.delay.ms"),
        ("4.0.2", 6, "share.auto.offset.reset", "share.isolation.level"),
    ],
)
def test_groups_have_the_configs_of_the_release(version: str, count: int, has: str, lacks: str) -> None:
    resource = DescribeConfigsResource(resource_type=32, resource_name="g", configuration_keys=None)
    with EmbeddedCluster(version=version) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        (found,) = wire.request(DescribeConfigsRequest(resources=(resource,)), 4).results
    names = {config.name for config in found.configs}
    assert len(names) == count
    assert has in names
    assert lacks not in names


def test_3_9_has_topic_configs_that_later_releases_lack_and_no_group_configs() -> None:
    topic = DescribeConfigsResource(resource_type=2, resource_name="orders", configuration_keys=None)
    group = DescribeConfigsResource(resource_type=32, resource_name="g", configuration_keys=None)
    with EmbeddedCluster(version="3.9.2") as cluster, Wire(cluster.core.brokers[1].port) as wire:
        cluster.call(lambda: cluster.core.create_topic("orders", replicas=1))
        (of_topic,) = wire.request(DescribeConfigsRequest(resources=(topic,)), 4).results
        refused, of_group = wire.request(DescribeConfigsRequest(resources=(topic, group)), 4).results
        assert refused.error_code == ErrorCode.INVALID_REQUEST  # as a whole
    assert "message.format.version" in {config.name for config in of_topic.configs}
    assert of_group.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "epochs"), [("4.2.1", [1, 2, 2, 3, 3, 3, -1, 5]), ("4.3.1", [2, 3, 3, 4, 4, 4, -1, 5])]
)
def test_share_groups_bump_epochs_as_in_the_release(version: str, epochs: list[int]) -> None:
    settings = {"group.share.assignment.interval.ms": 0, "offsets.topic.num.partitions": 1}
    with EmbeddedCluster(version=version, properties=settings) as cluster:
        cluster.call(lambda: cluster.core.create_topic("t", partitions=2, replicas=1))
        with Wire(cluster.core.brokers[1].port) as wire:
            wire.request(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
            share = FindCoordinatorRequest(key_type=2, coordinator_keys=(f"g:{cluster.core.topics['t'].id}:0",))
            wire.request(share, 6)  # creates `__share_group_state`, which would delay the first heartbeat
            reported = {"m": 0, "n": 0}

            def beat(member: str, epoch: int | None = None) -> int:
                at = reported[member] if epoch is None else epoch
                requested = ShareGroupHeartbeatRequest(
                    group_id="g",
                    member_id=member,
                    member_epoch=at,
                    rack_id=None,
                    subscribed_topic_names=("t",) if at == 0 else None,
                )
                reported[member] = wire.request(requested, 1).member_epoch
                return reported[member]

            found = [beat("m"), beat("m"), beat("m"), beat("n"), beat("n"), beat("m"), beat("n", -1), beat("m")]
            assert found == epochs

"""APIs for administrators that random requests rarely exercise, compared with a real broker."""

from pathlib import Path

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.codecs import Uuid
from quorate.codecs.api.broker import (
    AlterConfigsRequest,
    AlterReplicaLogDirsRequest,
    ApiVersionsRequest,
    CreateDelegationTokenRequest,
    CreateTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeDelegationTokenRequest,
    DescribeTopicPartitionsRequest,
    ExpireDelegationTokenRequest,
    GetTelemetrySubscriptionsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    MetadataRequest,
    PushTelemetryRequest,
    RenewDelegationTokenRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from quorate.codecs.api.broker.alter_configs import AlterableConfig as Replaced
from quorate.codecs.api.broker.alter_configs import AlterConfigsResource as Replacing
from quorate.codecs.api.broker.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirTopic
from quorate.codecs.api.broker.create_delegation_token import CreatableRenewers
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.describe_topic_partitions import Cursor, TopicRequest
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.api.broker.update_features import FeatureUpdateKey
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.helpers.pair import Pair
from tests.cluster.helpers.wire import Wire

CLIENT_METRICS = 16
SET, DELETE, APPEND = 0, 1, 2
BOB = CreatableRenewers(principal_type="User", principal_name="bob")


# ---- topics


def test_the_replication_factor_is_checked_before_the_number_of_partitions(pair: Pair) -> None:
    """bench/cluster_differential.py on 4.4.0, seed 50098"""
    topic = CreatableTopic(name="none", num_partitions=0, replication_factor=0)
    ours, _, found = pair.request(CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)
    assert not found
    assert ours.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_cursors_partition_counts_for_its_topic_only(pair: Pair) -> None:
    """bench/cluster_differential.py on 4.3.1, seed 50204"""
    topic = CreatableTopic(name="pages", num_partitions=3, replication_factor=1)
    pair.request(CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)
    assert pair.settle() == []
    request = DescribeTopicPartitionsRequest(
        topics=(TopicRequest(name="missing"), TopicRequest(name="pages")),
        response_partition_limit=2,
        cursor=Cursor(topic_name="missing", partition_index=5),
    )
    ours, _, found = pair.request(request, 0)
    assert not found
    assert [partition.partition_index for partition in ours.topics[1].partitions] == [0, 1]


# ---- features


def test_kraft_version_changes_although_a_feature_after_it_is_rejected(pair: Pair) -> None:
    """bench/cluster_differential.py on 4.4.0, seed 40015"""
    reported = ApiVersionsRequest(client_software_name="w", client_software_version="1")
    levels = []
    for other in ("group.version", "nothing"):  # before and after kraft.version in the order of a HashMap
        updates = tuple(
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1)
            for name, level in (("kraft.version", 1), (other, 7))
        )
        ours, _, found = pair.request(UpdateFeaturesRequest(timeout_ms=5000, feature_updates=updates), 1)
        assert not found
        assert ours.error_code == ErrorCode.INVALID_UPDATE_VERSION
        pair.settle()
        ours, theirs, _ = pair.request(reported, 4)
        kraft = [
            {one.name: one.max_version_level for one in response.finalized_features}.get("kraft.version")
            for response in (ours, theirs)
        ]
        assert kraft[0] == kraft[1]
        levels.append(kraft[0])
    assert levels == [None, 1]


# ---- log directories


def moved(path: str, topic: str, *partitions: int) -> AlterReplicaLogDirsRequest:
    topics = (AlterReplicaLogDirTopic(name=topic, partitions=partitions),)
    return AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=topics),))


@pytest.mark.oracle
@pytest.mark.parametrize("topic", ["here", "unknown", "x" * 213, "x" * 214, "x" * 249, "a/b", ""])
def test_replicas_do_not_move_to_a_missing_directory(pair: Pair, topic: str) -> None:
    here = CreatableTopic(name="here", num_partitions=2, replication_factor=1)
    pair.request(CreateTopicsRequest(topics=(here,), timeout_ms=5000), 7)
    assert pair.settle() == []
    for version in (1, 2):
        assert pair.request(moved("/nowhere", topic, 0, 1), version)[2] == []


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("here", 0, ErrorCode.NONE),
        ("here", 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("unknown", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("elsewhere", 0, ErrorCode.REPLICA_NOT_AVAILABLE),
        ("x" * 240, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_a_replica_stays_in_the_only_directory(tmp_path: Path, topic: str, partition: int, code: ErrorCode) -> None:
    """As on a broker of 4.3.1."""
    with EmbeddedCluster(brokers=2, data=tmp_path, seed=1) as cluster:
        cluster.call(lambda: cluster.core.create_topic("here", assignment=((1,),)))
        cluster.call(lambda: cluster.core.create_topic("elsewhere", assignment=((2,),)))
        with Wire(cluster.core.brokers[1].port) as wire:
            path = str(cluster.core.data.broker(1).absolute())
            (found,) = wire.request(moved(path, topic, partition), 2).results
    assert [(one.partition_index, one.error_code) for one in found.partitions] == [(partition, code)]


# ---- delegation tokens


TOKENS = (
    *((CreateDelegationTokenRequest(renewers=(BOB,), max_lifetime_ms=-1), version) for version in (1, 2)),
    (CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None), 3),
    (CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob"), 3),
    (CreateDelegationTokenRequest(renewers=(CreatableRenewers(principal_type="Group", principal_name="g"),)), 3),
    *((RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), version) for version in (1, 2)),
    *((ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1), version) for version in (1, 2)),
    *((DescribeDelegationTokenRequest(owners=owners), version) for version in (1, 3) for owners in (None, ())),
)


@pytest.mark.oracle
def test_tokens_are_not_allowed_without_authentication(pair: Pair) -> None:
    for request, version in TOKENS:
        assert pair.request(request, version)[2] == [], request


# ---- configs of client metrics


def altered(name: str, *configs: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
    each = tuple(
        AlterableConfig(name=one, config_operation=operation, value=value) for one, operation, value in configs
    )
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=each)
    return IncrementalAlterConfigsRequest(resources=(resource,))


def described(name: str, *, include_synonyms: bool = True) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None)
    return DescribeConfigsRequest(resources=(resource,), include_synonyms=include_synonyms)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "configs",
    [
        *([("metrics", SET, value)] for value in ("a.b,c", "", "a,a", "a,,b", "*", " a , b ", None)),
        *([("interval.ms", SET, value)] for value in ("100", "99", "3600000", "3600001", " 200 ", "x", "", "1e3")),
        *([("match", SET, value)] for value in ("client_id=a.*,client_source_port=1", "client_id", "client_id=", "=a")),
        *([("match", SET, value)] for value in ("client_id=a=b", "client_id=a==", " client_id = a b ", "client_id=[")),
        [("", SET, "1")],
        *([("match", SET, f"{name}=a")] for name in ("x", "client_instance_id", "client_software_name")),
        *([("metrics", operation, "a")] for operation in (APPEND, 3, DELETE, 9)),
        [("retention.ms", SET, "1")],
        [("retention.ms", DELETE, None)],
        [("interval.ms", SET, "1"), ("retention.ms", SET, "1")],
        [("metrics", SET, "x"), ("interval.ms", SET, "often")],
        [],
    ],
    ids=str,
)
def test_configs_of_client_metrics_are_validated_as_by_a_controller(pair: Pair, configs) -> None:
    assert pair.request(altered("push", *configs), 1)[2] == []
    assert pair.settle() == []
    for name in ("push", "another", ""):
        assert pair.request(altered(name, *configs), 1)[2] == []
        assert pair.request(described(name), 4)[2] == []
        assert pair.request(described(name, include_synonyms=False), 4)[2] == []
    for version, types in ((0, ()), (1, ()), (1, (CLIENT_METRICS,))):
        assert pair.request(ListConfigResourcesRequest(resource_types=types), version)[2] == []


@pytest.mark.oracle
def test_configs_of_client_metrics_are_replaced_and_removed(pair: Pair) -> None:
    for configs in ((Replaced(name="metrics", value="a"),), (Replaced(name="match", value="client_id=b"),), ()):
        resource = Replacing(resource_type=CLIENT_METRICS, resource_name="replaced", configs=configs)
        assert pair.request(AlterConfigsRequest(resources=(resource,)), 2)[2] == []
        assert pair.settle() == []
        assert pair.request(described("replaced"), 4)[2] == []
        assert pair.request(ListConfigResourcesRequest(), 0)[2] == []


def test_subscriptions_are_stored_in_the_metadata_log(tmp_path: Path) -> None:
    with EmbeddedCluster(data=tmp_path) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        for name in ("kept", "gone"):
            assert (
                wire.request(altered(name, ("metrics", SET, "a"), ("interval.ms", SET, "100")), 1)
                .responses[0]
                .error_code
                == 0
            )
        wire.request(altered("gone", ("metrics", DELETE, None), ("interval.ms", DELETE, None)), 1)
    with EmbeddedCluster(data=tmp_path) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        assert cluster.core.state.client_metrics == {"kept": {"metrics": "a", "interval.ms": "100"}}
        (found,) = wire.request(ListConfigResourcesRequest(), 0).config_resources
        assert found.resource_name == "kept"


# ---- telemetry


def client(number: int) -> Uuid:
    return Uuid(bytes(15) + bytes([number]))


@pytest.mark.oracle
def test_clients_receive_their_subscription_and_pushes_are_checked(pair: Pair) -> None:
    """Subscription ids, the order of metrics, throttling, and errors."""
    subscriptions = (
        ("one", (("metrics", SET, "org.apache.b,org.apache.a,x"), ("interval.ms", SET, "3600000"))),
        ("two", (("metrics", SET, "q"), ("interval.ms", SET, "600000"), ("match", SET, "client_source_address=127.*"))),
        ("three", (("metrics", SET, "not this"), ("interval.ms", SET, "100"), ("match", SET, "client_id=other"))),
    )
    for name, configs in subscriptions:
        assert pair.request(altered(name, *configs), 1)[2] == []
    assert pair.settle() == []
    large = b"x" * (1 << 20)
    cases = (
        {"metrics": b""},
        {"metrics": b"x"},
        {"metrics": large},
        {"metrics": large + b"x"},
        {"compression_type": 5},
        {"compression_type": -1},
        *({"compression_type": number, "metrics": b"damaged"} for number in (1, 2, 3, 4)),
        {"terminating": True},
        {"subscription_id": 7},
    )
    for number, case in enumerate(cases, 10):
        ours, _, found = pair.request(GetTelemetrySubscriptionsRequest(client_instance_id=client(number)), 0)
        assert (found, ours.error_code) == ([], 0)
        pushed = {"client_instance_id": client(number), "subscription_id": ours.subscription_id} | case
        for _ in range(2):
            assert pair.request(PushTelemetryRequest(**pushed), 0)[2] == [], case
        assert pair.request(GetTelemetrySubscriptionsRequest(client_instance_id=client(number)), 0)[2] == [], case
        for _ in range(2):
            assert pair.request(PushTelemetryRequest(**(pushed | {"terminating": True})), 0)[2] == [], case
    for number in (0, 1):
        assert pair.request(PushTelemetryRequest(client_instance_id=client(number)), 0)[2] == []
    for name, configs in subscriptions:
        pair.request(altered(name, *((one, DELETE, None) for one, _, _ in configs)), 1)
    assert pair.settle() == []


def reported(wire: Wire) -> set[int]:
    response = wire.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 3)
    return {api_key.api_key for api_key in response.api_keys} & {71, 72}


def test_telemetry_is_reported_only_with_a_plugin_which_receives_the_metrics() -> None:
    with EmbeddedCluster() as cluster, Wire(cluster.core.brokers[1].port) as wire:
        assert reported(wire) == set()
    with EmbeddedCluster(properties={"metric.reporters": "com.example.Push"}) as cluster:
        (broker,) = cluster.core.brokers.values()
        with Wire(broker.port, "app") as wire:
            assert reported(wire) == {71, 72}
            found = wire.request(GetTelemetrySubscriptionsRequest(), 0)
            assert found.client_instance_id != Uuid.ZERO
            push = PushTelemetryRequest(
                client_instance_id=found.client_instance_id, subscription_id=found.subscription_id, metrics=b"otlp"
            )
            assert wire.request(push, 0).error_code == 0
        assert [(one.client_id, one.metrics) for one in broker.telemetry.received] == [("app", b"otlp")]


# ---- brokers


@pytest.mark.oracle
def test_only_registered_brokers_can_be_unregistered(pair: Pair) -> None:
    for number in (2, 0, -1):
        assert pair.request(UnregisterBrokerRequest(broker_id=number), 0)[2] == []


def test_an_unregistered_broker_is_unknown_until_it_restarts(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=3, data=tmp_path, seed=1) as cluster:
        cluster.call(lambda: cluster.core.create_topic("t", assignment=((3, 1),)))
        cluster.stop_broker(3)
        with Wire(cluster.core.brokers[1].port) as wire:
            assert wire.request(UnregisterBrokerRequest(broker_id=3), 0).error_code == 0
            again = wire.request(UnregisterBrokerRequest(broker_id=3), 0)
            assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
            assert again.error_message == "Broker ID 3 is not currently registered"
            known = wire.request(DescribeClusterRequest(include_fenced_brokers=True), 2).brokers
            assert sorted(one.broker_id for one in known) == [1, 2]
            (topic,) = wire.request(MetadataRequest(topics=None), 12).topics
            assert [(partition.leader_id, partition.replica_nodes) for partition in topic.partitions] == [(1, (3, 1))]
            assert 3 not in cluster.core.state.brokers
            cluster.start_broker(3)
            assert 3 in cluster.core.state.brokers
            known = wire.request(DescribeClusterRequest(), 2).brokers
            assert sorted(one.broker_id for one in known) == [1, 2, 3]

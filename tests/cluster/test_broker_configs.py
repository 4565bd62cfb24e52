"""Dynamic configs of brokers (KIP-226): the same as on a real broker, and they take effect."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.cluster.broker_configs import BrokerConfigs
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.broker import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
)
from quorate.codecs.api.broker.alter_configs import AlterableConfig as Given
from quorate.codecs.api.broker.alter_configs import AlterConfigsResource as Replaced
from quorate.codecs.api.broker.create_topics import CreatableTopic, CreatableTopicConfig
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.configs import ConfigResourceType, config_keys, similar_broker_config
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import ConfigError
from tests.broker.broker import VERSION, Broker
from tests.broker.fixtures import need_broker
from tests.cluster.helpers.pair import Pair
from tests.cluster.helpers.pair_play import SETTINGS
from tests.cluster.helpers.wire import Wire

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FINE, REFUSED, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG

SAME = {**SETTINGS, "num.io.threads": 2, "background.threads": 1, "log.cleaner.dedupe.buffer.size": 2 << 20}
"""Configs that limit dynamic changes."""


def changed(
    name: str, *configs: tuple[str, int, str | None], only_check: bool = False, kind: int = BROKER
) -> IncrementalAlterConfigsRequest:
    parts = tuple(AlterableConfig(name=each, config_operation=how, value=value) for each, how, value in configs)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=parts)
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=only_check)


def replaced(name: str, **configs: str) -> AlterConfigsRequest:
    parts = tuple(Given(name=each.replace("_", "."), value=value) for each, value in configs.items())
    return AlterConfigsRequest(resources=(Replaced(resource_type=BROKER, resource_name=name, configs=parts),))


def described(name: str, *keys: str, kind: int = BROKER) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    return DescribeConfigsRequest(resources=(resource,), include_synonyms=True)


CHANGES: Sequence[tuple[Any, ErrorCode]] = (
    (changed("", ("log.retention.ms", SET, "7200000")), FINE),
    (changed("1", ("log.retention.ms", SET, "3600000")), FINE),
    (changed("2", ("log.retention.ms", SET, "1")), REFUSED),  # only broker 2 can change them
    (changed("x", ("log.retention.ms", SET, "1")), REFUSED),
    (changed("1", ("num.partitions", SET, "3")), REFUSED),
    (changed("", ("num.partitions", SET, "3")), REFUSED),
    (changed("", ("broker.rack", SET, "z")), REFUSED),
    (changed("1", ("no.such.thing", SET, "3")), FINE),  # for plugins
    (changed("1", ("log.retention.ms", SET, "soon")), REFUSED),
    (changed("", ("log.retention.bytes", SET, "-7")), FINE),
    (changed("", ("listeners", SET, "PLAINTEXT://:1")), REFUSED),
    (changed("", ("ssl.keystore.location", SET, "/x")), REFUSED),
    (changed("1", ("ssl.keystore.password", SET, "x")), REFUSED),
    (changed("1", ("listener.name.other.ssl.keystore.location", SET, "/x")), FINE),
    (changed("", ("sasl.jaas.config", SET, "x")), REFUSED),
    (changed("1", ("sasl.jaas.config", SET, "x")), FINE),
    (changed("", ("max.connections.per.ip", SET, "0")), REFUSED),
    (changed("", ("max.connections.per.ip.overrides", SET, "127.0.0.1:700")), FINE),
    (changed("1", ("log.cleanup.policy", APPEND, "compact")), FINE),
    (changed("1", ("log.cleanup.policy", SUBTRACT, "delete")), FINE),
    (changed("1", ("log.retention.ms", APPEND, "5")), INVALID),
    (changed("1", ("log.retention.ms", 7, "5")), REFUSED),
    (changed("1", ("message.max.bytes", SET, None)), REFUSED),
    (changed("1", ("message.max.bytes", DELETE, None)), FINE),
    (changed("1", ("log.retention.ms", SET, "5"), ("log.retention.ms", DELETE, None)), REFUSED),
    (changed("1"), FINE),
    (changed("1", ("message.max.bytes", SET, "3000000"), only_check=True), FINE),
    (changed("", ("max.connections", SET, "0")), REFUSED),
    (changed("", ("num.io.threads", SET, "100")), REFUSED),
    (changed("", ("num.io.threads", SET, "3")), FINE),
    (changed("", ("num.io.threads", SET, "0")), REFUSED),
    (changed("", ("log.cleaner.threads", SET, "50")), REFUSED),
    (changed("", ("log.cleaner.dedupe.buffer.size", SET, "1")), REFUSED),
    (changed("1", ("unclean.leader.election.enable", SET, "maybe")), REFUSED),
    (changed("", ("unclean.leader.election.enable", SET, "TRUE")), FINE),
    (changed("", ("follower.replication.throttled.rate", SET, "100")), FINE),
    (changed("", ("log.segment.delete.delay.ms", SET, " 5 ")), FINE),
    (changed("1", ("log.roll.ms", SET, "0")), REFUSED),
    (changed("1", ("log.segment.bytes", SET, "1")), REFUSED),
    (changed("1", ("compression.type", SET, "nope")), REFUSED),
    (changed("1", ("min.insync.replicas", SET, "2")), INVALID),  # eligible leader replicas (KIP-966)
    (changed("", ("min.insync.replicas", DELETE, None)), INVALID),
    (replaced("", log_retention_ms="5"), INVALID),
    (changed("", ("group.consumer.assignment.interval.ms", SET, "15000"), only_check=True), FINE),
    (changed("", ("group.consumer.assignment.interval.ms", SET, "15001")), REFUSED),  # above its maximum
    (changed("1", ("group.share.assignment.interval.ms", SET, "-1")), REFUSED),
    (changed("", ("group.consumer.assignors", SET, "uniform")), REFUSED),
    (changed("", ("log.retention.ms", SET, "0"), only_check=True), FINE),  # broker 1 has its own value
    (changed("1", ("log.retention.ms", SET, "0")), REFUSED),
    (changed("", ("log.cleanup.policy", SET, "compact,"), only_check=True), REFUSED),
    (changed("", ("log.cleanup.policy", SET, "compact,compact"), only_check=True), FINE),
    (changed("", ("log.cleaner.dedupe.buffer.size", SET, str(1 << 20))), REFUSED),
    (changed("", ("max.connections.per.ip", SET, "")), REFUSED),
)
"""Requests in order, and their results."""

REFUSALS: Sequence[IncrementalAlterConfigsRequest] = (
    changed("t", ("retention.ms", SET, "5"), ("retention.ms", SET, "6"), kind=TOPIC),
    changed("t", ("retention.ms", SET, None), kind=TOPIC),
    changed("t", ("retention.ms", APPEND, "5"), kind=TOPIC),
    changed("t", ("no.such.thing", SET, "5"), kind=TOPIC),
    changed("t", ("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8"), kind=TOPIC),
    changed("", ("retention.ms", SET, "5"), kind=TOPIC),
    changed("", ("consumer.session.timeout.ms", SET, "50000"), kind=GROUP),
    changed("g", ("no.such.thing", SET, "1"), kind=GROUP),
    changed("g", ("consumer.session.timeout.ms", SET, "long"), kind=GROUP),
    changed("", ("metrics", SET, "a"), kind=METRICS),
    changed("m", ("no.such.thing", SET, "1"), kind=METRICS),
    changed("m", ("interval.ms", SET, "1"), kind=METRICS),
    changed("m", ("match", SET, "x"), kind=METRICS),
    changed("m", ("metrics", SUBTRACT, "x"), kind=METRICS),
    changed("m", ("metrics", SET, "a,,b"), kind=METRICS),
    changed("m", ("metrics", SET, "a"), kind=77),
)
"""Requests that a broker rejects."""

OWN = frozenset(
    [
        "advertised.listeners",
        "broker.heartbeat.interval.ms",
        "broker.session.timeout.ms",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "metadata.max.idle.interval.ms",
        "num.network.threads",
        "process.roles",
        "auto.create.topics.enable",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
    ]
)
"""More configs of the real broker at its start."""


@pytest.fixture(scope="module")
def real() -> Iterator[Broker]:
    need_broker()
    with Broker(SAME) as running:
        yield running


@pytest.fixture(scope="module")
def pair(real: Broker) -> Iterator[Pair]:
    with EmbeddedCluster(brokers=1, properties=SAME, seed=1, version=VERSION) as ours:
        found = Pair(ours.core.brokers[1].port, real.port)
        found.messages = frozenset()  # compared by `message`, without Scala's prefixes
        yield found
        found.close()


def test_a_broker_has_the_configs_of_a_real_one_before_and_after_changes(pair: Pair) -> None:
    assert_same_configs(pair)
    for request, code in CHANGES:
        ours, theirs, differences = pair.request(request, 1)
        assert ([response.error_code for response in ours.responses], differences) == ([code], []), request
        assert message(ours) == message(theirs)
    pair.settle()
    assert_same_configs(pair)
    assert_same_configs(pair, described(""))
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    assert not pair.request(CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)[2]
    pair.settle()
    assert not pair.request(described("t", kind=TOPIC), 4)[2]
    for refused in REFUSALS:
        ours, theirs, differences = pair.request(refused, 1)
        assert (message(ours), differences) == (message(theirs), []), refused
        assert ours.responses[0].error_code != FINE
    assert pair.request(replaced("1"), 1)[2] == []
    pair.settle()
    assert_same_configs(pair)


def test_a_duplicate_resource_has_an_error_in_each_place(pair: Pair) -> None:
    """A real broker never responds to such an AlterConfigs: it fails with "Duplicate key"."""
    names = ("1", "", "1", "nobody", "nobody")
    parts = [changed(name, ("log.retention.ms", SET, "1000")).resources[0] for name in names]
    request = IncrementalAlterConfigsRequest(resources=tuple(parts), validate_only=True)
    ours, theirs, differences = pair.request(request, 1)
    assert ours.responses == theirs.responses
    assert not differences
    codes = [REFUSED, FINE, REFUSED, REFUSED, REFUSED]
    assert [response.error_code for response in ours.responses] == codes
    with EmbeddedCluster(brokers=1) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        resources = tuple(replaced(name, log_retention_ms="1000").resources[0] for name in ("1", "1"))
        reported = wire.request(AlterConfigsRequest(resources=resources, validate_only=True), 2)
        assert [response.error_code for response in reported.responses] == [REFUSED, REFUSED]


def message(response: Any) -> str | None:
    """Return the error message without prefixes and suffixes of Scala's and nested exceptions."""
    found: str | None = response.responses[0].error_message
    prefix, suffix = (
        "Invalid value org.apache.kafka.common.config.ConfigException: ",
        " for configuration Invalid dynamic configuration",
    )
    return found and found.removeprefix("requirement failed: ").removeprefix(prefix).removesuffix(suffix)


def assert_same_configs(pair: Pair, request: DescribeConfigsRequest | None = None) -> None:
    ours, theirs, _ = pair.request(request or described("1"), 4)
    known, real = ({config.name: config for config in response.results[0].configs} for response in (ours, theirs))
    known.pop("kafka.version", None)  # quorate's own
    assert known.keys() == real.keys()
    for name in known.keys() - OWN:
        assert known[name] == real[name], name
    for name in known.keys() & OWN:
        assert replace(known[name], value=None, config_source=0, synonyms=()) == replace(
            real[name], value=None, config_source=0, synonyms=()
        )


def make_topic(cluster: EmbeddedCluster, partitions: int = 1) -> None:
    with Wire(cluster.core.brokers[1].port) as wire:
        topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)
        assert wire.request(CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7).topics[0].error_code == FINE


def test_dynamic_configs_apply_to_topics_and_survive_a_restart(tmp_path: Path) -> None:
    def own(cluster: EmbeddedCluster, broker: int) -> tuple[str | None, int]:
        with Wire(cluster.core.brokers[broker].port) as wire:
            (reported,) = wire.request(described("t", "max.message.bytes", kind=TOPIC), 4).results[0].configs
        return reported.value, reported.config_source

    def leaders(cluster: EmbeddedCluster) -> dict[int, int]:
        return {
            partition.leader: partition.log.config.max_message_bytes
            for partition in cluster.core.topics["t"].partitions
        }

    with EmbeddedCluster(brokers=2, data=tmp_path) as cluster:
        make_topic(cluster, 2)
        for broker, request in (
            (1, changed("", ("message.max.bytes", SET, "2000"))),
            (2, changed("2", ("message.max.bytes", SET, "3000"))),
        ):
            with Wire(cluster.core.brokers[broker].port) as wire:
                assert wire.request(request, 1).responses[0].error_code == FINE
        assert (own(cluster, 1), own(cluster, 2)) == (("2000", 3), ("3000", 2))
        assert leaders(cluster) == {1: 2000, 2: 3000}
    with EmbeddedCluster(brokers=2, data=tmp_path) as cluster:
        assert leaders(cluster) == {1: 2000, 2: 3000}
        cluster.stop_broker(2)
        assert leaders(cluster)[1] == 2000
        with Wire(cluster.core.brokers[1].port) as wire:
            assert wire.request(changed("", ("message.max.bytes", DELETE, None)), 1).responses[0].error_code == FINE
        assert leaders(cluster)[1] == 1048588


def test_coordinators_follow_dynamic_configs_of_all_brokers() -> None:
    own = {"group.consumer.max.size": 7}
    with EmbeddedCluster(brokers=1, properties=own) as cluster, Wire(cluster.core.brokers[1].port) as wire:
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000
        )
        wire.request(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
        wire.request(replace(heartbeat, subscribed_topic_names=("t",), topic_partitions=()), 1)
        wire.request(changed("", ("group.consumer.assignment.interval.ms", SET, "1234")), 1)
        (runtime,) = cluster.core.groups.runtimes().values()
        config = runtime.shard.config
        assert (config.group_consumer_assignment_interval_ms, config.group_consumer_max_size) == (1234, 7)


@pytest.mark.parametrize("value", ["true", " TRUE ", "false"])
def test_a_topic_cannot_have_remote_storage_without_a_broker_that_has_it(pair: Pair, value: str) -> None:
    """bench/cluster_differential.py on 4.4.0, theme "configs", seed 40005."""
    name, code = "remote.storage.enable", FINE if value == "false" else INVALID
    plain = CreatableTopic(name="not-tiered", num_partitions=1, replication_factor=1)
    pair.request(CreateTopicsRequest(topics=(plain,), timeout_ms=5000), 7)
    pair.settle()
    tiered = replace(plain, name="tiered", configs=(CreatableTopicConfig(name=name, value=value),))
    created, theirs, found = pair.request(CreateTopicsRequest(topics=(tiered,), validate_only=True), 7)
    assert not found
    assert (created.topics[0].error_code, created.topics[0].error_message) == (code, theirs.topics[0].error_message)
    ours, theirs, found = pair.request(changed("not-tiered", (name, SET, value), kind=TOPIC), 1)
    assert not found
    assert (ours.responses[0].error_code, ours.responses[0].error_message) == (code, theirs.responses[0].error_message)


@pytest.mark.parametrize(
    "value", [",", "0:1,", ",0:1", "0:1,,1:1", " , ", "*,", ",*", "*,*", "0:1,*", "a,", "0:x", "٣:1"]
)
def test_lists_of_throttled_replicas_may_have_empty_elements(pair: Pair, value: str) -> None:
    """bench/cluster_differential.py on 4.4.0, theme "configs", seed 36511."""
    topic = CreatableTopic(name="throttled", num_partitions=1, replication_factor=1)
    for name in ("leader.replication.throttled.replicas", "cleanup.policy"):
        config = CreatableTopicConfig(name=name, value=value)
        request = CreateTopicsRequest(topics=(replace(topic, configs=(config,)),), validate_only=True)
        ours, theirs, found = pair.request(request, 7)
        assert not found
        assert ours.topics[0].error_message == theirs.topics[0].error_message


HEARTBEAT_MS = "consumer.heartbeat.interval.ms"


def heartbeat_interval_ms(wire: Wire, group: str) -> int:
    """Return the heartbeat interval that a new member receives."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    for _ in range(300):
        response = wire.request(request, 0)
        if response.error_code not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            break
        wire.request(FindCoordinatorRequest(coordinator_keys=(group,)), 4)
        time.sleep(0.1)
    assert response.error_code == FINE
    return int(response.heartbeat_interval_ms)


def test_brokers_apply_configs_of_groups_within_the_limits_of_their_own(real: Broker, tmp_path: Path) -> None:
    """Since 4.3: limits of a later start count, and a number with spaces is not applied.

    Run after the tests with `pair`: the real broker has another limit when it restarts.
    """
    limit = "group.consumer.max.heartbeat.interval.ms"

    def configure(wire: Wire) -> None:
        for group, value in (("late", "12000"), ("spaces", " 7000 ")):
            response = wire.request(changed(group, (HEARTBEAT_MS, SET, value), kind=GROUP), 1)
            assert response.responses[0].error_code == FINE

    def seen(wire: Wire) -> list[tuple[str, int]]:
        found = []
        for group in ("late", "spaces"):
            (config,) = wire.request(described(group, HEARTBEAT_MS, kind=GROUP), 4).results[0].configs
            found.append((config.value, heartbeat_interval_ms(wire, group)))
        return found

    same = {**SAME, "kafka.version": VERSION}
    with (
        EmbeddedCluster(brokers=1, data=tmp_path, properties=same) as cluster,
        Wire(cluster.core.brokers[1].port) as wire,
    ):
        configure(wire)
        ours = [seen(wire)]
        assert any("configs of group spaces are stored but not applied" in note for note in cluster.core.notes)
    with (
        EmbeddedCluster(brokers=1, data=tmp_path, properties={**same, limit: 9000}) as cluster,
        Wire(cluster.core.brokers[1].port) as wire,
    ):
        ours.append(seen(wire))
    with Wire(real.port) as wire:
        configure(wire)
        theirs = [seen(wire)]
    real.shut_down()
    real.change(**{limit.replace(".", "_"): 9000})
    real.start()
    with Wire(real.port) as wire:
        theirs.append(seen(wire))
    assert ours == theirs == [[("12000", 12_000), ("7000", 5_000)], [("12000", 9_000), ("7000", 5_000)]]


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [({"log.retention.hours": 2}, 7_200_000), ({"log.retention.minutes": 3, "log.retention.hours": 2}, 180_000),
     ({"log.retention.hours": -1}, -1), ({"log.retention.ms": 5, "log.retention.hours": 2}, 5)],
)  # fmt: skip
def test_configs_in_hours_and_minutes_are_synonyms_of_those_in_ms(given: dict[str, int], retention_ms: int) -> None:
    with EmbeddedCluster(brokers=1, properties=given) as cluster:
        make_topic(cluster)
        assert cluster.core.topics["t"].partitions[0].log.config.retention_ms == retention_ms


REPLICAS = "leader.replication.throttled.replicas"
RESET = "share.auto.offset.reset"


@pytest.mark.parametrize(
    ("release", "name", "fine", "refused"),
    [
        ((4, 3), REPLICAS, ["0:1", "*", "", "0:1,1:2", " 0:1 , 1:2", "0:1,0:1", "0:1,"], ["x", "0:a", "*,0:1"]),
        ((4, 3), "segment.bytes", ["1048576"], ["1048575"]),
        ((4, 1), "segment.bytes", ["1048576"], ["1048575"]),
        ((4, 0), "segment.bytes", ["14"], ["13"]),
        ((4, 3), RESET, ["latest", "earliest", "by_duration:PT1H", "by_duration:p1dt2h", "by_duration:PT1.5S"],
         ["none", "Latest", "BY_DURATION:PT1H", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:-PT1H",
          "by_duration:P1Y", "by_duration:PT1.5H"]),
    ],
)  # fmt: skip
def test_values_are_accepted_and_rejected_as_by_brokers(
    release: tuple[int, int], name: str, fine: list[str], refused: list[str]
) -> None:
    version = KafkaVersion(*release)
    key = {**config_keys(ConfigResourceType.TOPIC, version), **config_keys(ConfigResourceType.GROUP, version)}[name]
    assert [value for value in fine if key.problem(value) is not None] == []
    assert [value for value in refused if key.problem(value) is None] == []


@pytest.mark.parametrize("name", ["log.retention.hours", "log.roll.ms"])
def test_a_time_that_is_not_a_number_is_rejected_at_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value long for configuration {name}: Not a number of type"):
        EmbeddedCluster(properties={name: "long"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num.partitons", "num.partitions"),
        ("group.initial.rebalance.delay", "group.initial.rebalance.delay.ms"),
        ("listener.name.client.ssl.keystore.locaton", "listener.name.client.ssl.keystore.location"),
    ],
)
def test_a_misspelt_name_is_rejected_at_the_start(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"Kafka has no config {name}; did you mean {meant}\\?"):
        EmbeddedCluster(properties={name: "1"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [("nope", ""), ("retention.ms", "; did you mean log.retention.ms?"), ("listener.name.client.nope", "")],
)
def test_a_name_that_kafka_does_not_have_is_in_the_notes_of_the_start(name: str, hint: str) -> None:
    notes: list[str] = []
    cluster = EmbeddedCluster(properties={name: "1"}, on_note=notes.append)
    assert cluster.start_notes == (f"properties: Kafka has no config {name}, and brokers ignore it{hint}",)
    assert notes == list(cluster.start_notes)


@pytest.mark.parametrize(
    "name",
    [
        "inter.broker.protocol.version",
        "quorate.max.partitions",
        "group.consumer.client.assignors.enable",
        "super.users",
        "allow.everyone.if.no.acl.found",
        "leader.replication.throttled.rate",
        "listener.name.client.ssl.keystore.location",
        "listener.name.client.scram-sha-256.sasl.jaas.config",
    ],
)
def test_a_name_that_brokers_read_is_not_in_the_notes_of_the_start(name: str) -> None:
    value = {"super.users": "User:a", "group.consumer.client.assignors.enable": "true"}.get(name, "1")
    assert EmbeddedCluster(properties={name: value}, racks=["a", "b", "c"]).start_notes == ()


@pytest.mark.parametrize(
    "name", ["com.example.audit.url", "inter.broker.protocol.version", "share.version.of.my.plugin"]
)
def test_a_name_that_is_like_none_of_kafka_is_kept_for_plug_ins(name: str) -> None:
    assert BrokerConfigs.of({name: "1"}).properties[name] == "1"
    assert similar_broker_config(name) is None

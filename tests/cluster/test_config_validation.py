"""Configs of brokers, topics and groups are rejected as by Kafka, with its messages."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.cluster.broker_configs import BrokerConfigs
from quorate.cluster.client_metrics import INTERVAL_MS
from quorate.cluster.log_config import LogConfig
from quorate.codecs.api.broker import IncrementalAlterConfigsRequest
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.configs import ConfigKey, ConfigResourceType, ConfigType, as_text, config_keys
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import ConfigError, CoordinatorConfig, config_fields
from tests.broker.broker import java
from tests.broker.fixtures import need_broker
from tests.cluster.helpers.wire import Wire

RELEASE = KafkaVersion(4, 3)
TOPIC, BROKER, GROUP = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP
OWN = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "listeners": "CLIENT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "CLIENT",
}
"""Configs that a real broker requires: addresses, which the owner of embedded brokers sets."""
OTHERS = (
    "advertised",
    "broker.id",
    "controller",
    "cordoned",
    "early",
    "log.dir",
    "metadata",
    "remote",
    "sasl",
    "security",
    "ssl",
)
"""Prefixes of configs that need files, addresses or logins, or that embedded brokers ignore."""
Configs = Mapping[str, str]


class KafkaConfigs:
    """Kafka's own classes (KafkaConfigs.java)."""

    def __init__(self) -> None:
        need_broker()
        self._process = subprocess.Popen(
            [*java(), "KafkaConfigs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def problem(self, broker: Configs, **more: Configs) -> str | None:
        """Return why a broker rejects its configs, or those of a `topic` or `group`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"broker": {**OWN, **broker}, **more}) + "\n")
        self._process.stdin.flush()
        found: str | None = next(
            json.loads(line)["error"] for line in self._process.stdout if line.startswith('{"error"')
        )
        return None if found is None else found.removeprefix("requirement failed: ")

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaConfigs]:
    running = KafkaConfigs()
    yield running
    running.close()


def ours(configs: Mapping[str, Any]) -> str | None:
    try:
        BrokerConfigs.of(configs)
    except ConfigError as error:
        return str(error)
    return None


def values_of(rule: ConfigKey) -> list[str]:
    """Yield values at and beyond the limits, the empty value, and invalid values."""
    default = rule.default or ""
    found = ["", " ", "garbage", default, f" {default} "]
    if rule.type in (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE):
        bounds = [int(bound) for bound in (rule.least, rule.most, rule.also) if bound is not None]
        found += [str(bound + step) for bound in bounds for step in (-1, 0, 1)]
        found += ["1.5", "+7", "0", "-5", "1_000"]
        found += (
            ["99999999999", "9" * 30] if rule.type is not ConfigType.DOUBLE else []
        )  # Java formats these differently
    if rule.type is ConfigType.BOOLEAN:
        found += ["true", "TRUE", "yes", "1"]
    if rule.values:
        found += [rule.values[0], rule.values[0].lower(), ",".join(rule.values), f"{rule.values[0]},"]
    return found


def same(found: str | None, real: str | None) -> bool:
    """Return whether two messages give the same reason.

    Ours may say more: the known classes, and which config is the divisor of "/ by zero".
    """
    short = ("Class ", "/ by zero", "Error parsing configuration property 'max.connections.per.ip.overrides'")
    if found is None or real is None or not real.startswith(short):
        return found == real
    return (real.partition(":")[0] if real.startswith("Error") else real) in found


def test_a_broker_accepts_the_values_that_a_real_one_accepts(kafka: KafkaConfigs) -> None:
    differing = []
    for name, config in config_keys(BROKER, RELEASE).items():
        # ReplicaManager loads the replica selector later in a broker's startup.
        if name not in OWN and name != "replica.selector.class" and not name.startswith(OTHERS):
            for value in values_of(config):
                found, real = ours({name: value}), kafka.problem({name: value})
                if not same(found, real):
                    differing.append((name, value, found, real))
    assert differing == []


TOGETHER: tuple[Configs, ...] = (
    {"group.consumer.assignors": "nope"},
    {"group.consumer.assignors": "range,uniform"},
    {"group.consumer.assignors": "uniform,uniform"},
    {"group.consumer.assignors": "uniform,"},
    {"group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor"},
    {"group.share.assignors": "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"},
    {"group.share.assignors": "uniform"},
    {"group.coordinator.rebalance.protocols": "consumer"},
    {"group.coordinator.rebalance.protocols": "classic,classic"},
    *({f"group.{kind}.session.timeout.ms": value}
      for kind in ("consumer", "share", "streams") for value in ("44999", "45000", "60000", "60001")),
    *({f"group.{kind}.heartbeat.interval.ms": value}
      for kind in ("consumer", "share", "streams") for value in ("4999", "5000", "15000", "15001")),
    *({f"group.{kind}.assignment.interval.ms": value}
      for kind in ("consumer", "share", "streams") for value in ("0", "15000", "15001")),
    *({f"group.{kind}.max.heartbeat.interval.ms": "60000", f"group.{kind}.heartbeat.interval.ms": value}
      for kind in ("consumer", "share", "streams") for value in ("44999", "45000", "45001")),
    *({f"group.{kind}.min.session.timeout.ms": "60001"} for kind in ("consumer", "share", "streams")),
    *({f"group.{kind}.max.heartbeat.interval.ms": "4999"} for kind in ("consumer", "share", "streams")),
    {"group.consumer.min.session.timeout.ms": "5", "group.consumer.session.timeout.ms": "5"},
    {"group.consumer.min.session.timeout.ms": "5", "group.consumer.session.timeout.ms": "5001"},
    {"group.streams.num.standby.replicas": "3"},
    {"group.share.max.delivery.count.limit": "5", "group.share.delivery.count.limit": "6"},
    {"group.share.min.delivery.count.limit": "5", "group.share.delivery.count.limit": "4"},
    {"group.share.partition.max.record.locks": "4001"},
    {"group.share.min.record.lock.duration.ms": "30000", "group.share.record.lock.duration.ms": "29999"},
    {"group.share.record.lock.duration.ms": "60001"},
    {"group.share.max.share.sessions": "199"},
    {"log.roll.ms": "0"}, {"log.roll.jitter.ms": "-1"}, {"log.roll.ms": "1", "log.roll.jitter.ms": "0"},
    {"log.retention.ms": "0"}, {"log.retention.ms": "-7"}, {"log.retention.minutes": "0"},
    {"log.retention.hours": "0"}, {"log.retention.hours": "-1"},
    {"log.retention.ms": "5", "log.retention.hours": "0"},
    {"log.cleaner.dedupe.buffer.size": str(1 << 20)}, {"log.cleaner.dedupe.buffer.size": str((1 << 20) + 1)},
    {"log.cleaner.dedupe.buffer.size": str((1 << 21) + 1), "log.cleaner.threads": "2"},
    {"replica.fetch.wait.max.ms": "30000"}, {"replica.fetch.wait.max.ms": "30001"},
    {"replica.fetch.wait.max.ms": "30001", "replica.socket.timeout.ms": "60000"},
    {"queued.max.request.bytes": "104857599"}, {"queued.max.request.bytes": "104857600"},
    {"max.connections.per.ip": "0"}, {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
    {"a.plugins.own": "x"},
)  # fmt: skip


@pytest.mark.parametrize("configs", TOGETHER, ids=str)
def test_a_broker_checks_dependent_configs_as_a_real_one_does(kafka: KafkaConfigs, configs: Configs) -> None:
    found, real = ours(configs), kafka.problem(configs)
    assert same(found, real), (found, real)


def altered(wire: Wire, kind: int, configs: Configs) -> str | None:
    parts = tuple(AlterableConfig(name=name, config_operation=0, value=value) for name, value in configs.items())
    resource = AlterConfigsResource(resource_type=kind, resource_name="x", configs=parts)
    (response,) = wire.request(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True), 1).responses
    assert (response.error_code == 0) == (response.error_message is None)
    found: str | None = response.error_message
    return found


GROUPS: tuple[Configs, ...] = (
    {"consumer.session.timeout.ms": "5000", "consumer.heartbeat.interval.ms": "5000"},
    {"consumer.session.timeout.ms": "44999"},
    {"share.session.timeout.ms": "60001"},
    {"share.record.lock.duration.ms": "14999"},
    {"share.delivery.count.limit": "11"},
    {"share.partition.max.record.locks": "4001"},
    {"streams.num.standby.replicas": "3"},
    {"consumer.assignment.interval.ms": "15001"},
)
BROKERS: tuple[Configs, ...] = (
    {},
    {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.session.timeout.ms": "6000"},
    {"group.share.max.session.timeout.ms": "90000", "group.streams.max.standby.replicas": "5"},
)


@pytest.mark.parametrize("broker", BROKERS, ids=str)
def test_group_configs_are_rejected_as_by_a_real_broker(kafka: KafkaConfigs, broker: Configs) -> None:
    cases = [{name: value} for name, rule in config_keys(GROUP, RELEASE).items() for value in values_of(rule)]
    differing = []
    with (
        EmbeddedCluster(brokers=1, version="4.3", properties=broker) as cluster,
        Wire(cluster.core.brokers[1].port) as wire,
    ):
        for case in (*cases, *GROUPS):
            found, real = altered(wire, GROUP, case), kafka.problem(broker, group=case)
            if found != real:
                differing.append((case, found, real))
    assert differing == []


def test_topic_configs_are_rejected_as_by_a_real_broker(kafka: KafkaConfigs) -> None:
    rules = {name: rule for name, rule in config_keys(TOPIC, RELEASE).items() if not name.startswith("remote.")}
    for name, rule in rules.items():
        for value in values_of(rule):
            found, real = rule.problem(value), kafka.problem({}, topic={name: value})
            assert found == real, (name, value)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"group.consumer.assignors": "nope"},
         "Class nope cannot be found; valid values for group.consumer.assignors: "
         "uniform, range, rack-aware-uniform, lag-aware, or MODULE:CLASS"),
        ({"group.consumer.assignors": ()}, "'group.consumer.assignors' must not be empty"),
        ({"group.consumer.session.timeout.ms": -5}, "Invalid value -5 .*: Value must be at least 1"),
        ({"group.consumer.heartbeat.interval.ms": 0}, "Value must be at least 1"),
        ({"group.consumer.heartbeat.interval.ms": 45_000, "group.consumer.max.heartbeat.interval.ms": 45_000},
         "must be less than group.consumer.session"),
    ],
)  # fmt: skip
def test_a_cluster_does_not_start_with_configs_that_kafka_rejects(properties: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        EmbeddedCluster(properties=properties)


@pytest.mark.parametrize("names", [(), ("",), ("nope",), ("range", "simple")])
def test_a_coordinator_rejects_unknown_assignors(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"group\.consumer\.assignors"):
        CoordinatorConfig(group_consumer_assignors=names)


def test_assignors_can_be_named_by_kafkas_classes() -> None:
    classes = [f"org.apache.kafka.coordinator.group.assignor.{name}Assignor" for name in ("Range", "Uniform")]
    assert BrokerConfigs.of({"group.consumer.assignors": classes}).coordinator.group_consumer_assignors == (
        "range",
        "uniform",
    )


def test_coordinators_have_the_defaults_of_the_table() -> None:
    known = config_keys(BROKER, KafkaVersion.NEWEST)
    defaults = {name: field.default for name, field in config_fields().items()}
    assert {name for name in defaults if name not in known} == {
        "classic.group.new.member.join.timeout.ms",  # a constant in Kafka
        "group.consumer.client.assignors.enable",
        "hash.algorithm",
        "jdk",
        "kafka.version",
    }
    for name in defaults.keys() & known.keys():
        default = defaults[name]
        assert as_text(default) == known[name].default


def test_logs_have_the_defaults_of_the_table() -> None:
    assert LogConfig() == LogConfig.of(BrokerConfigs.of({}), {})
    assert (
        str(INTERVAL_MS) == config_keys(ConfigResourceType.CLIENT_METRICS, KafkaVersion.NEWEST)["interval.ms"].default
    )

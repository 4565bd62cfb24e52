"""Settings of brokers and topics, by Kafka's names with Kafka's defaults, as far as the embedded cluster follows them. What it does not follow is kept and shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from quorate.cluster.behaviour import BrokerBehaviour
from quorate.cluster.broker_settings import SYNONYMS, THROTTLES, of_brokers, setting_named
from quorate.cluster.config_relations import broker_problem
from quorate.cluster.topic_settings import Kind, Release, Setting, of_topics
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import ConfigError, CoordinatorConfig

__all__ = ["ALL", "BROKER_DEFAULTS", "MOST_PARTITIONS", "Settings"]

MOST_PARTITIONS = "quorate.max.partitions"
"""Of our own: how many partitions a cluster may have. Kafka's brokers take as many as there are until they are out of memory; this is one process, often beside its clients."""

BROKER_DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "true",
    "broker.session.timeout.ms": "9000",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "message.max.bytes": "1048588",
    "log.message.timestamp.type": "CreateTime",
    "log.cleanup.policy": "delete",
    "log.retention.ms": "604800000",
    "log.retention.bytes": "-1",
    "log.segment.bytes": "1073741824",
    "socket.request.max.bytes": "104857600",
    "sasl.server.max.receive.size": "524288",
    "connections.max.idle.ms": "600000",
    "max.connections": "2147483647",
    "max.connections.per.ip": "2147483647",
    "fetch.max.bytes": "57671680",
    "max.incremental.fetch.session.cache.slots": "1000",
    "replica.selector.class": "",
    "telemetry.max.bytes": "1048576",
    "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
    "delete.topic.enable": "true",
    "unclean.leader.election.enable": "false",
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.segment.bytes": "104857600",
    "transaction.state.log.num.partitions": "50",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.segment.bytes": "104857600",
    "transaction.max.timeout.ms": "900000",
    "transactional.id.expiration.ms": "604800000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
    "producer.id.expiration.ms": "86400000",
    "producer.id.expiration.check.interval.ms": "600000",
    "log.retention.check.interval.ms": "300000",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "15000",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    MOST_PARTITIONS: "100000",
}
"""Settings of brokers that mean something here, besides those of the group coordinator (`CoordinatorConfig`)."""

ALL = None
"""Instead of a broker's id: all of them."""
_COORDINATORS = frozenset(one.name.replace("_", ".") for one in fields(CoordinatorConfig) if one.init)
_OWN = {
    MOST_PARTITIONS: Setting(name=MOST_PARTITIONS, kind=Kind.LONG, default=BROKER_DEFAULTS[MOST_PARTITIONS], least=0)
}


def _text(value: Any) -> str:
    """As a properties file would have it."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@dataclass(slots=True)
class Settings:
    """The settings that all brokers share. `coordinator`: those of the group coordinator; `changed`: what was changed while brokers run, by broker or for `ALL` (KIP-226)."""

    properties: dict[str, str]
    coordinator: CoordinatorConfig
    changed: dict[int | None, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> "Settings":
        """From what the owner gave. Raises `ConfigError` for what a broker of that release refuses to start with, in Kafka's words."""
        given = {name: _text(value) for name, value in properties.items()}
        version = CoordinatorConfig.from_properties(
            {k: v for k, v in given.items() if k == "kafka.version"}
        ).kafka_version
        release = (version.major, version.minor)
        for name, value in given.items():
            rule = _OWN.get(name) or setting_named(release, name).rule
            if name not in THROTTLES and (problem := rule.problem(value)):
                raise ConfigError(problem)
        coordinator = CoordinatorConfig.from_properties({k: v for k, v in given.items() if k in _COORDINATORS})
        made = cls(given, coordinator)
        if problem := broker_problem(release, made.effective):
            raise ConfigError(problem)
        return made

    @property
    def kafka_version(self) -> KafkaVersion:
        """The release that the brokers behave as."""
        return self.coordinator.kafka_version

    @property
    def behaviour(self) -> BrokerBehaviour:
        """What that release does."""
        return BrokerBehaviour.of(self.coordinator.kafka_version)

    @property
    def release(self) -> Release:
        """Major and minor number of the release that the brokers behave as."""
        return self.coordinator.kafka_version.major, self.coordinator.kafka_version.minor

    def effective(self, name: str, broker: int | None = None) -> str | None:
        """A broker's value, which is the release's default where none was given; `None` where there is neither."""
        value = self.given(name, broker)
        if value is not None:
            return value
        known = of_brokers(self.release).get(name)
        return None if known is None else known.default

    def given(self, name: str, broker: int | None = None) -> str | None:
        """What was given for a broker's setting, in the order in which that counts: for the broker alone or for all while they run, or at the start."""
        return next((values[name] for values in self._sources(broker) if name in values), None)

    def get(self, name: str, broker: int | None = None) -> str:
        """A broker's setting; of no broker in particular without `broker`."""
        value = self.given(name, broker)
        return BROKER_DEFAULTS.get(name, "") if value is None else value

    def number(self, name: str, broker: int | None = None) -> int:
        """A broker's setting that is a number."""
        return int(self.get(name, broker))

    def truth(self, name: str, broker: int | None = None) -> bool:
        """A broker's setting that is true or false."""
        return self.get(name, broker).strip().lower() == "true"

    def _sources(self, broker: int | None) -> Iterable[Mapping[str, str]]:
        """Where settings of a broker come from, first what counts first (KIP-226)."""
        if not self.changed:
            return (self.properties,)
        return (self.changed.get(broker, {}), self.changed.get(ALL, {}), self.properties)

    def of_topic(self, name: str, config: Mapping[str, str], broker: int | None = None) -> str:
        """A topic's setting: its own, else the broker's that leads."""
        if name in config:
            return config[name]
        setting = of_topics(self.release)[name]
        if setting.broker is None:
            return setting.default
        value = self.given(setting.broker, broker)
        if value is None:
            for other, times in SYNONYMS.get(setting.broker, ()):
                if (also := self.given(other, broker)) is not None:
                    return str(max(int(also) * times, -1))
        return setting.default if value is None else value

    def change(self, broker: int | None, values: Mapping[str, str]) -> None:
        """Have a broker, or all of them (`ALL`), follow other settings than at the start; earlier changes are forgotten."""
        self.changed = {**self.changed, broker: dict(values)}
        if not values:
            del self.changed[broker]
        followed = {name: value.strip() for name, value in self.changed.get(ALL, {}).items() if name in _COORDINATORS}
        at_first = {name: value for name, value in self.properties.items() if name in _COORDINATORS}
        version = self.coordinator.kafka_version
        self.coordinator = replace(CoordinatorConfig.from_properties(at_first | followed), kafka_version=version)

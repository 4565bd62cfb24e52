"""Configs of the brokers, and topics' configs behind which they stand: Kafka's by name with the defaults of its release, and quorate's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from quorate.cluster.behaviour import BrokerBehaviour
from quorate.cluster.config_validation import broker_problem
from quorate.codecs.configs import (
    THROTTLES,
    ConfigKey,
    ConfigResourceType,
    ConfigType,
    as_text,
    broker_config_key,
    config_keys,
)
from quorate.codecs.releases import RELEASES, KafkaVersion
from quorate.coordinator.config import ConfigError, CoordinatorConfig

__all__ = ["ALL", "MAX_PARTITIONS", "BrokerConfigs", "check_release"]

MAX_PARTITIONS = "quorate.max.partitions"
"""How many partitions a cluster may have. Kafka's brokers take as many as there are until they are
out of memory; this is one process, often shared with its clients.
"""

_OWN = {MAX_PARTITIONS: ConfigKey(name=MAX_PARTITIONS, type=ConfigType.LONG, default="100000", least=0)}
"""Configs that no broker of Kafka has. All others have Kafka's defaults."""

ALL = None
"""Instead of a broker's id: all of them."""
_COORDINATORS = frozenset(one.name.replace("_", ".") for one in fields(CoordinatorConfig) if one.init)


def check_release(version: KafkaVersion) -> None:
    """Raises `ConfigError` for a release that a cluster cannot be."""
    if version.line not in RELEASES:
        known = ", ".join(one.short for one in RELEASES)
        raise ConfigError(
            f"an embedded cluster cannot be Kafka {version}: use {KafkaVersion.NEWEST}, or another of {known}"
        )


@dataclass(slots=True)
class BrokerConfigs:
    """The configs that all brokers share.

    `coordinator`: those of the group coordinator; `changed`: what was changed while brokers run, by
    broker or for `ALL` (KIP-226).
    """

    properties: dict[str, str]
    coordinator: CoordinatorConfig
    changed: dict[int | None, dict[str, str]] = field(default_factory=dict)
    _keys: dict[int, Mapping[str, ConfigKey]] = field(default_factory=dict, init=False, repr=False)
    _keys_version: KafkaVersion | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> "BrokerConfigs":
        """From what the owner gave.

        Raises `ConfigError` for what a broker of that release refuses to start with, in Kafka's
        words.
        """
        given = {name: as_text(value) for name, value in properties.items()}
        version = CoordinatorConfig.from_properties(
            {k: v for k, v in given.items() if k == "kafka.version"}
        ).kafka_version
        check_release(version)
        for name, value in given.items():
            key = _OWN.get(name) or broker_config_key(version, name)
            if name not in THROTTLES and (problem := key.problem(value)):
                raise ConfigError(problem)
        coordinator = CoordinatorConfig.from_properties({k: v for k, v in given.items() if k in _COORDINATORS})
        made = cls(given, coordinator)
        if problem := broker_problem(version, made.effective):
            raise ConfigError(problem)
        return made

    @property
    def kafka_version(self) -> KafkaVersion:
        """The release that the brokers behave as."""
        return self.coordinator.kafka_version

    @property
    def behaviour(self) -> BrokerBehaviour:
        """What that release does."""
        return BrokerBehaviour.of(self.kafka_version)

    def keys(self, resource: int) -> Mapping[str, ConfigKey]:
        """The configs that a type of resource (`ConfigResourceType`) has in that release."""
        version = self.coordinator.kafka_version
        if (
            version is not self._keys_version
        ):  # asked for with each batch that is produced: a version's hash would take as long as the rest
            self._keys_version, self._keys = version, {}
        known = self._keys.get(resource)
        if known is None:
            known = self._keys[resource] = config_keys(resource, version)
        return known

    def effective(self, name: str, broker: int | None = None) -> str | None:
        """A broker's value, which is the release's default where none was given; `None` where there is neither."""
        value = self.given(name, broker)
        if value is not None:
            return value
        key = self.keys(ConfigResourceType.BROKER).get(name) or _OWN.get(name)
        return None if key is None else key.default

    def given(self, name: str, broker: int | None = None) -> str | None:
        """What was given for a broker's config, in the order in which that counts (KIP-226): for the broker alone or for all while they run, or at the start."""
        if not self.changed:
            return self.properties.get(name)
        sources = (self.changed.get(broker, {}), self.changed.get(ALL, {}), self.properties)
        return next((values[name] for values in sources if name in values), None)

    def get(self, name: str, broker: int | None = None) -> str:
        """A broker's value, empty where there is none; of no broker in particular without `broker`."""
        return self.effective(name, broker) or ""

    def number(self, name: str, broker: int | None = None) -> int:
        """A broker's config that is a number."""
        return int(self.get(name, broker))

    def boolean(self, name: str, broker: int | None = None) -> bool:
        """A broker's config that is true or false."""
        return self.get(name, broker).strip().lower() == "true"

    def of_topic(self, name: str, config: Mapping[str, str], broker: int | None = None) -> str:
        """A topic's config: its own, else that of the broker that leads."""
        if name in config:
            return config[name]
        key = self.keys(ConfigResourceType.TOPIC)[name]
        for synonym, times in key.synonyms:
            if (value := self.given(synonym, broker)) is not None:
                return value if times == 1 else str(max(int(value) * times, -1))
        return key.default or ""

    def change(self, broker: int | None, values: Mapping[str, str]) -> None:
        """Give a broker, or all of them (`ALL`), other configs than at the start; earlier changes are forgotten."""
        self.changed = {**self.changed, broker: dict(values)}
        if not values:
            del self.changed[broker]
        self.upgrade(self.kafka_version)

    def upgrade(self, version: KafkaVersion) -> None:
        """Behave as another release, whose defaults count from now on."""
        changed = {name: value.strip() for name, value in self.changed.get(ALL, {}).items()}
        given = {name: value for name, value in (self.properties | changed).items() if name in _COORDINATORS}
        self.coordinator = CoordinatorConfig.from_properties({**given, "kafka.version": version})

"""Configs of brokers, by release, quorate's own, and topics' configs that default to them."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

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
    similar_broker_config,
    unknown_broker_config,
)
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.releases import RELEASES, KafkaVersion
from quorate.coordinator.config import (
    ASSIGNORS,
    ConfigError,
    CoordinatorConfig,
    config_fields,
    named_assignors,
    release_of,
)

if TYPE_CHECKING:
    from quorate.assignors.assignor import Assignor

MAX_PARTITIONS = "quorate.max.partitions"
"""The maximum number of partitions. Kafka has no such limit; this is one process, often shared with
its clients.
"""

_OWN = {MAX_PARTITIONS: ConfigKey(name=MAX_PARTITIONS, type=ConfigType.LONG, default="100000", least=0)}
"""Configs that Kafka's brokers do not have."""

ALL = None
"""Stands for all brokers, in place of an id."""
_COORDINATORS = frozenset(config_fields())


def check_release(version: KafkaVersion) -> None:
    """Raise `ConfigError` for an unsupported release."""
    if version.line not in RELEASES:
        known = ", ".join(release.short for release in RELEASES)
        raise ConfigError(
            f"an embedded cluster cannot run Kafka {version}: use {KafkaVersion.NEWEST}, or another of {known}"
        )


@dataclass(slots=True)
class BrokerConfigs:
    """The configs of all brokers.

    `coordinator`: those of coordinators. `changed`: dynamic configs, by broker or for `ALL`
    (KIP-226).
    """

    properties: dict[str, str]
    coordinator: CoordinatorConfig
    changed: dict[int | None, dict[str, str]] = field(default_factory=dict)
    _keys: dict[int, Mapping[str, ConfigKey]] = field(default_factory=dict, init=False, repr=False)
    _keys_version: KafkaVersion | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> "BrokerConfigs":
        """Create from the owner's configs.

        Raises `ConfigError` for configs that a broker of that release rejects at startup, with
        Kafka's message, and for names that are probably misspelt, which a broker ignores.
        """
        plug_ins: Mapping[str, Assignor] = {}
        if ASSIGNORS in properties:  # may have assignors as elements
            text, plug_ins = named_assignors(properties[ASSIGNORS])
            properties = {**properties, ASSIGNORS: text}
        given = {name: as_text(value) for name, value in properties.items()}
        version = release_of(given)
        check_release(version)
        for name, value in given.items():
            key = _OWN.get(name) or broker_config_key(version, name)
            if key.custom and name not in THROTTLES and (meant := similar_broker_config(name)):
                raise ConfigError(f"Kafka has no config {name}; did you mean {meant}?")
            if name not in THROTTLES and (problem := key.problem(value)):
                raise ConfigError(problem)
        coordinator = CoordinatorConfig.from_properties(
            {k: v for k, v in given.items() if k in _COORDINATORS}, plug_ins
        )
        created = cls(given, coordinator)
        if problem := broker_problem(version, created.effective):
            raise ConfigError(problem)
        return created

    @property
    def ignored(self) -> list[str]:
        """Notices of configs that brokers ignore, because no release of Kafka has them."""
        read = _OWN.keys() | _COORDINATORS
        return [
            notice
            for name in self.properties
            if name not in read and (notice := unknown_broker_config(name)) is not None
        ]

    @property
    def kafka_version(self) -> KafkaVersion:
        """The release that brokers behave as."""
        return self.coordinator.kafka_version

    @property
    def behaviour(self) -> BrokerBehaviour:
        """The behaviour of that release."""
        return BrokerBehaviour.of(self.kafka_version)

    def keys(self, resource: int) -> Mapping[str, ConfigKey]:
        """Return the config keys of a resource type (`ConfigResourceType`) in that release."""
        version = self.coordinator.kafka_version
        # Called for each produced batch; hashing a version for `config_keys` would double the time.
        if version is not self._keys_version:
            self._keys_version, self._keys = version, {}
        known = self._keys.get(resource)
        if known is None:
            known = self._keys[resource] = config_keys(resource, version)
        return known

    def effective(self, name: str, broker: int | None = None) -> str | None:
        """Return a broker's value, else the release's default, else `None`."""
        value = self.given(name, broker)
        if value is not None:
            return value
        key = self.keys(ConfigResourceType.BROKER).get(name) or _OWN.get(name)
        return None if key is None else key.default

    def given(self, name: str, broker: int | None = None) -> str | None:
        """Return an explicit value: dynamic of the broker, dynamic of all, or static (KIP-226)."""
        if not self.changed:
            return self.properties.get(name)
        sources = (self.changed.get(broker, {}), self.changed.get(ALL, {}), self.properties)
        return next((values[name] for values in sources if name in values), None)

    def get(self, name: str, broker: int | None = None) -> str:
        """Return a broker's value, or ""; without `broker`, the value that all brokers share."""
        return self.effective(name, broker) or ""

    def number(self, name: str, broker: int | None = None) -> int:
        """Return a numeric config of a broker."""
        return int(self.get(name, broker))

    def boolean(self, name: str) -> bool:
        """Return a boolean config that all brokers share."""
        return self.get(name).strip().lower() == "true"

    def of_topic(self, name: str, config: Mapping[str, str], broker: int | None = None) -> str:
        """Return a topic's config: its own value, else that of the broker that leads."""
        if name in config:
            return config[name]
        key = self.keys(ConfigResourceType.TOPIC)[name]
        for synonym, times in key.synonyms:
            if (value := self.given(synonym, broker)) is not None:
                return value if times == 1 else str(max(int(value) * times, -1))
        return key.default or ""

    def change(self, broker: int | None, values: Mapping[str, str]) -> None:
        """Replace the dynamic configs of a broker, or of all (`ALL`)."""
        self.changed = {**self.changed, broker: dict(values)}
        if not values:
            del self.changed[broker]
        self.upgrade(self.kafka_version)

    def upgrade(self, version: KafkaVersion) -> None:
        """Behave as another release, with its default configs."""
        changed = {name: value.strip() for name, value in self.changed.get(ALL, {}).items()}
        given = {name: value for name, value in (self.properties | changed).items() if name in _COORDINATORS}
        if ASSIGNORS in given:  # by the names of those that are loaded
            given[ASSIGNORS] = as_text(self.coordinator.group_consumer_assignors)
        self.coordinator = CoordinatorConfig.from_properties(
            {**given, "kafka.version": version}, self.coordinator.server_assignors
        )

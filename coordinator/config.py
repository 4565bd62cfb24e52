"""The coordinator's configs, by Kafka's names, with the defaults of Kafka 4.3."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from quorate.codecs.configs import ConfigKey, ConfigResourceType, as_text, config_keys, elements
from quorate.codecs.errors import QuorateError
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.metadata_hash import HashAlgorithm

__all__ = ["GROUP_CONFIGS", "ConfigError", "CoordinatorConfig", "MigrationPolicy", "group_configs"]


class ConfigError(QuorateError, ValueError):
    """An unknown config, or an invalid value of a config."""


class MigrationPolicy(StrEnum):
    """`group.consumer.migration.policy`: which conversions of non-empty groups are allowed."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        """Whether a joining member of the new protocol converts a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group becomes classic after its last member of the new protocol."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Configs of a broker that affect its coordinators.

    A field has Kafka's name with underscores. Durations are in ms unless the name has another unit.

    Four fields are not Kafka's. `kafka_version` is the release whose behaviour to follow;
    `behaviour` is derived from it. `hash_algorithm` selects the metadata hash (KIP-1101), `jdk` the
    Java release whose iteration order to follow. `group_consumer_client_assignors_enable` enables
    client-side assignors (KIP-848, in no release of Kafka).
    """

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_client_assignors_enable: bool = False
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_max_size: int = 200
    group_share_assignment_interval_ms: int = 1_000
    group_share_initialize_retry_interval_ms: int = 30_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    classic_group_new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    kafka_version: KafkaVersion = KafkaVersion.NEWEST
    hash_algorithm: HashAlgorithm = HashAlgorithm.XXH3
    jdk: int = 17
    behaviour: Behaviour = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_assignors(self.group_consumer_assignors)
        object.__setattr__(self, "behaviour", Behaviour.of(self.kafka_version))

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        """Create it from Kafka's names, such as {"group.consumer.session.timeout.ms": 45000}.

        Lists may be strings with commas. Missing configs have the defaults of the release in
        "kafka.version".

        Raises `ConfigError`.
        """
        known = {field.name.replace("_", "."): field for field in fields(cls) if field.init}
        keys = config_keys(ConfigResourceType.BROKER, KafkaVersion.NEWEST)
        newest = KafkaVersion.NEWEST
        version = _converted("kafka.version", None, properties.get("kafka.version", newest), newest)
        of_release = config_keys(ConfigResourceType.BROKER, version)
        defaults = {name: one.default for name, one in of_release.items() if name in known and one.default is not None}
        chosen: dict[str, Any] = {}
        for name, value in {**defaults, **properties}.items():
            if name not in known:
                raise ConfigError(f"{name} is not a config of the group coordinator")
            chosen[known[name].name] = _converted(name, keys.get(name), value, known[name].default)
        return cls(**chosen)


GROUP_CONFIGS = frozenset(
    f"{kind}.{name}.ms"
    for kind in ("consumer", "share")
    for name in ("session.timeout", "heartbeat.interval", "assignment.interval")
)
"""Dynamic configs of a group (KIP-848, KIP-932).

Each overrides the broker's config of the same name with the prefix "group.".
"""


def group_configs(properties: Mapping[str, Any]) -> Mapping[str, int]:
    """Convert configs of a group, named as in `GROUP_CONFIGS`, to fields of `CoordinatorConfig`.

    A value of `None` leaves the broker's config. Raises `ConfigError`.
    """
    keys = config_keys(ConfigResourceType.GROUP, KafkaVersion.NEWEST)
    chosen: dict[str, int] = {}
    for name, value in properties.items():
        if name not in GROUP_CONFIGS:
            raise ConfigError(f"{name} is not a config of a group")
        if value is not None:
            chosen[f"group_{name.replace('.', '_')}"] = _converted(name, keys[name], value, 0)
    return chosen


_PREFIX = "org.apache.kafka.coordinator.group.assignor."
_ASSIGNORS = {f"{_PREFIX}UniformAssignor": "uniform", f"{_PREFIX}RangeAssignor": "range"}
"""Kafka's class names, which `group.consumer.assignors` accepts as well."""


def _check_assignors(names: tuple[str, ...]) -> None:
    """Reject a missing or unknown assignor, with which Kafka does not start."""
    name, valid = "group.consumer.assignors", ", ".join(_ASSIGNORS.values())
    if not any(names):
        raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
    if unknown := [one for one in names if one not in _ASSIGNORS.values()]:
        raise ConfigError(f"Class {unknown[0]} cannot be found; valid values for {name}: {valid}")


_TRUTH = {"true": True, "false": False}


def _converted(name: str, key: ConfigKey | None, value: Any, default: Any) -> Any:
    """Convert a value to the type of the default. `key`: Kafka's definition of the config."""
    text = as_text(value)
    if key is not None and (problem := key.problem(text)):
        raise ConfigError(problem)
    try:
        match default:
            case tuple():
                return tuple(_ASSIGNORS.get(part, part) for part in elements(text))
            case KafkaVersion():
                return KafkaVersion.parse(text)
            case StrEnum():
                return type(default)(text.strip().lower())
            case bool():
                return _TRUTH[text.strip().lower()]
            case _:
                return int(text)
    except (KeyError, ValueError):
        raise ConfigError(f"invalid value {value!r} for {name}: must be {_takes(default)}") from None


def _takes(default: Any) -> str:
    match default:
        case bool():
            return "true or false"
        case KafkaVersion():
            return "a release such as 4.3.1"
        case StrEnum():
            return ", ".join(type(default))
        case _:
            return "a whole number"

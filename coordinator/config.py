"""The coordinator's configs, by Kafka's names, with the defaults of Kafka 4.3."""

from collections.abc import Mapping
from dataclasses import Field, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from quorate.assignors.errors import AssignorError
from quorate.codecs.configs import ConfigKey, ConfigResourceType, as_text, config_keys, elements
from quorate.codecs.errors import QuorateError
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.metadata_hash import HashAlgorithm

if TYPE_CHECKING:
    from quorate.assignors.assignor import Assignor

__all__ = [
    "ASSIGNORS",
    "GROUP_CONFIGS",
    "KAFKA_ASSIGNORS",
    "ConfigError",
    "CoordinatorConfig",
    "MigrationPolicy",
    "config_fields",
    "group_configs",
    "named_assignors",
    "release_of",
]

ASSIGNORS = "group.consumer.assignors"

KAFKA_ASSIGNORS = ("uniform", "range")
"""Kafka's assignors of consumer groups. Each release has its own; they are created for each use."""


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

    `group_consumer_assignors`: names of assignors; MODULE:CLASS is replaced by the assignor's name.
    `server_assignors`: those of them that are not Kafka's, by name. What is missing is loaded.
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
    group_streams_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_max_size: int = 2_147_483_647
    group_streams_num_standby_replicas: int = 0
    group_streams_num_warmup_replicas: int = 2
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = ()
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_task_offset_interval_ms: int = 60_000
    group_streams_acceptable_recovery_lag: int = 10_000
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
    server_assignors: "Mapping[str, Assignor]" = field(default_factory=dict, repr=False, compare=False)
    behaviour: Behaviour = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names, plug_ins = _loaded(self.group_consumer_assignors, self.server_assignors)
        object.__setattr__(self, "group_consumer_assignors", names)
        object.__setattr__(self, "server_assignors", plug_ins)
        object.__setattr__(self, "behaviour", Behaviour.of(self.kafka_version))

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any], server_assignors: "Mapping[str, Assignor] | None" = None
    ) -> Self:
        """Create it from Kafka's names, such as {"group.consumer.session.timeout.ms": 45000}.

        Lists may be strings with commas; "group.consumer.assignors" may also have assignors as
        elements. Missing configs have the defaults of the release in "kafka.version".
        `server_assignors`: those that are loaded already, by name.

        Raises `ConfigError`.
        """
        loaded = dict(server_assignors or {})
        if ASSIGNORS in properties:
            text, given = named_assignors(properties[ASSIGNORS])
            properties = {**properties, ASSIGNORS: text}
            loaded |= given
        known = config_fields()
        keys = config_keys(ConfigResourceType.BROKER, KafkaVersion.NEWEST)
        of_release = config_keys(ConfigResourceType.BROKER, release_of(properties))
        chosen: dict[str, Any] = {}
        for name, config in known.items():
            key = of_release.get(name)
            if name not in properties and key is not None and key.default is not None:
                chosen[config.name] = _converted(name, None, key.default, config.default)
        for name, value in properties.items():
            if name not in known:
                raise ConfigError(f"{name} is not a config of the group coordinator")
            chosen[known[name].name] = _converted(name, keys.get(name), value, known[name].default)
        return cls(**chosen, server_assignors=loaded)


def release_of(properties: Mapping[str, Any]) -> KafkaVersion:
    """Return the release in "kafka.version", by default the newest. Raises `ConfigError`."""
    newest = KafkaVersion.NEWEST
    version: KafkaVersion = _converted("kafka.version", None, properties.get("kafka.version", newest), newest)
    return version


def config_fields() -> Mapping[str, "Field[Any]"]:
    """Return the fields of `CoordinatorConfig` that are configs, by Kafka's names."""
    return {
        field.name.replace("_", "."): field
        for field in fields(CoordinatorConfig)
        if field.init and field.name != "server_assignors"
    }


GROUP_CONFIGS = frozenset(
    f"{kind}.{name}.ms"
    for kind in ("consumer", "share", "streams")
    for name in ("session.timeout", "heartbeat.interval", "assignment.interval")
) | {
    "streams.num.standby.replicas",
    "streams.num.warmup.replicas",
    "streams.rack.aware.assignment.tags",
    "streams.initial.rebalance.delay.ms",
    "streams.task.offset.interval.ms",
    "streams.acceptable.recovery.lag",
}
"""Dynamic configs of a group (KIP-848, KIP-932, KIP-1071).

Each overrides the broker's config of the same name with the prefix "group.".
"""


def group_configs(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert configs of a group, named as in `GROUP_CONFIGS`, to fields of `CoordinatorConfig`.

    A value of `None` leaves the broker's config. Raises `ConfigError`.
    """
    keys = config_keys(ConfigResourceType.GROUP, KafkaVersion.NEWEST)
    chosen: dict[str, Any] = {}
    for name, value in properties.items():
        if name not in GROUP_CONFIGS:
            raise ConfigError(f"{name} is not a config of a group")
        if value is not None:
            default = config_fields()[f"group.{name}"].default
            chosen[f"group_{name.replace('.', '_')}"] = _converted(name, keys[name], value, default)
    return chosen


_PREFIX = "org.apache.kafka.coordinator.group.assignor."
_ASSIGNORS = {f"{_PREFIX}UniformAssignor": "uniform", f"{_PREFIX}RangeAssignor": "range"}
"""Kafka's class names, which `group.consumer.assignors` accepts as well."""


def named_assignors(value: Any) -> "tuple[str, dict[str, Assignor]]":
    """Return a value of `group.consumer.assignors` as text, and the assignors in it by name.

    Raises `ConfigError` for an element that is neither a text nor an assignor.
    """
    loaded: dict[str, Assignor] = {}
    names: list[str] = []
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, str):
            names.append(one)
            continue
        from quorate.assignors.plug_ins import as_assignor

        try:
            assignor = as_assignor(one)
        except AssignorError as error:
            raise ConfigError(f"{ASSIGNORS}: {error}") from None
        if assignor.name in _ASSIGNORS:
            raise ConfigError(f"{ASSIGNORS}: {assignor.name} is Kafka's own class; give the assignor another name")
        names.append(assignor.name)
        loaded[assignor.name] = assignor
    if twice := [name for name in loaded if names.count(name) > 1]:
        raise ConfigError(f"{ASSIGNORS}: several assignors have the name {twice[0]}; rename one")
    return as_text(names), loaded


def _loaded(
    names: tuple[str, ...], known: "Mapping[str, Assignor]"
) -> "tuple[tuple[str, ...], Mapping[str, Assignor]]":
    """Return names of assignors, and those that are not Kafka's; loads those that are not `known`.

    Raises `ConfigError` for a missing or unknown assignor, with which Kafka does not start.
    """
    if not any(names):
        raise ConfigError(
            f"Configuration '{ASSIGNORS}' must not be empty. Valid values include: {', '.join(KAFKA_ASSIGNORS)}"
        )
    found: dict[str, Assignor] = {}
    texts: dict[str, str] = {}
    for text in dict.fromkeys(names):
        assignor = known.get(text)
        if text not in KAFKA_ASSIGNORS and assignor is None:
            from quorate.assignors.registry import is_known, server_assignor, server_assignor_names

            if text == "simple" or not is_known(text):
                raise ConfigError(
                    f"Class {text} cannot be found; valid values for {ASSIGNORS}: {server_assignor_names()}"
                )
            try:
                assignor = server_assignor(text)
            except AssignorError as error:
                raise ConfigError(f"{ASSIGNORS}: {error}") from None
        name = text if assignor is None else assignor.name
        if name in texts.values():
            raise ConfigError(f"{ASSIGNORS}: several assignors have the name {name}; rename that of {text}")
        texts[text] = name
        if assignor is not None:
            found[name] = assignor
    return tuple(texts[text] for text in names), found


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

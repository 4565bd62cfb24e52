"""Validation of configs of brokers, topics, groups and client metrics, with Kafka's error messages.

`ConfigKey.problem` checks single values. This module checks values against each other (Kafka's
KafkaConfig, GroupCoordinatorConfig, ShareGroupConfig, GroupConfig, LogConfig,
ClientMetricsConfigs), and what may change while brokers run (DynamicBrokerConfig, KIP-226).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol

from quorate.cluster.behaviour import BrokerBehaviour
from quorate.cluster.client_metrics import selectors
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.configs import ConfigKey, ConfigResourceType, UpdateMode, broker_config_key, config_keys, elements
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import ASSIGNORS, KAFKA_ASSIGNORS
from quorate.coordinator.errors import ApiError


class EffectiveConfigs(Protocol):
    """The brokers' configs, as validation needs them (`quorate.cluster.broker_configs`)."""

    changed: dict[int | None, dict[str, str]]

    @property
    def kafka_version(self) -> KafkaVersion:
        """The release that brokers behave as."""

    @property
    def behaviour(self) -> BrokerBehaviour:
        """How brokers of this release behave."""

    def keys(self, resource_type: int) -> Mapping[str, ConfigKey]:
        """Return the config keys of a resource type in this release."""

    def effective(self, name: str, broker: int | None = None) -> str | None:
        """Return a broker's value, or the release's default."""


Value = Callable[[str], str | None]
"""Returns a broker's config by name, or `None`."""

_AT_LEAST, _AT_MOST, _BELOW = "must be greater than or equal to", "must be less than or equal to", "must be less than"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_PREFIX = "org.apache.kafka.coordinator.group.assignor."
_SELECTORS = tuple(f"org.apache.kafka.common.replica.{name}Selector" for name in ("RackAwareReplica", "Leader"))
_PRINCIPALS = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_PLUGINS = ("alter.config.policy.class.name", "client.quota.callback.class", "create.topic.policy.class.name")
_CODECS = ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec")
_TAGS = "streams.rack.aware.assignment.tags"
_TASK_ASSIGNOR = "streams.assignor.name"
_STREAMS_PREFIX = "org.apache.kafka.coordinator.group.streams.assignor."
_SHARE_ASSIGNORS = ("simple", f"{_PREFIX}SimpleAssignor")

_Relation = tuple[str, str, str]
_SHARE: tuple[_Relation, ...] = (
    ("group.share.max.delivery.count.limit", _AT_LEAST, "group.share.delivery.count.limit"),
    ("group.share.delivery.count.limit", _AT_LEAST, "group.share.min.delivery.count.limit"),
    ("group.share.max.partition.max.record.locks", _AT_LEAST, "group.share.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", _AT_LEAST, "group.share.min.partition.max.record.locks"),
    ("group.share.record.lock.duration.ms", _AT_LEAST, "group.share.min.record.lock.duration.ms"),
    ("group.share.max.record.lock.duration.ms", _AT_LEAST, "group.share.record.lock.duration.ms"),
    ("group.share.max.share.sessions", _AT_LEAST, "group.share.max.size"),
)


def _relations() -> Iterator[_Relation]:
    """Yield the relations in the order in which Kafka checks them."""
    for kind in ("consumer", "share", "streams"):
        group = f"group.{kind}."
        for rest in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
            yield f"{group}max.{rest}", _AT_LEAST, f"{group}min.{rest}"
            yield f"{group}{rest}", _AT_LEAST, f"{group}min.{rest}"
            yield f"{group}{rest}", _AT_MOST, f"{group}max.{rest}"
            if rest.startswith("session"):
                yield f"{group}heartbeat.interval.ms", _BELOW, f"{group}session.timeout.ms"
    yield "group.streams.num.standby.replicas", _AT_MOST, "group.streams.max.standby.replicas"
    yield from _SHARE


_RELATIONS = tuple(_relations())


# ---- at the startup of a broker


def broker_problem(version: KafkaVersion, value: Value) -> str | None:
    """Return why a broker rejects these configs at startup or as a change, or `None`."""
    known = config_keys(ConfigResourceType.BROKER, version)
    behaviour = BrokerBehaviour.of(version)

    def number(name: str) -> int | None:
        found = value(name) if name in known else None
        return int(found) if found else None

    for left, must, right in _RELATIONS:
        if must is _BELOW and not behaviour.session_above_heartbeat:
            continue
        if not _holds(number(left), must, number(right)):
            return f"{left} {must} {right}"
    return _class_problem(behaviour, value) or _log_problem(known, number) or _connection_problem(value, number)


def _class_problem(behaviour: BrokerBehaviour, value: Value) -> str | None:
    """Check plug-in classes: there is no JVM here, so only Kafka's own can be found."""
    share = value("group.share.assignors")
    assignors = ["simple"] if share is None else elements(share)
    if len(assignors) != 1 and set(assignors) != {"simple"}:
        return f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}"
    if unknown := [assignor for assignor in assignors if assignor not in _SHARE_ASSIGNORS]:
        return f"Class {unknown[0]} cannot be found; valid values for group.share.assignors: {_SHARE_ASSIGNORS[0]}"
    names = elements(value(ASSIGNORS) or "")
    if not behaviour.short_assignors and (short := [one for one in names if one in KAFKA_ASSIGNORS]):
        return f"Class {short[0]} cannot be found; before 4.0 group.consumer.assignors are names of classes"
    if (selector := (value("replica.selector.class") or "").strip()) and selector not in _SELECTORS:
        return f"Class {selector} cannot be found; valid values for replica.selector.class: {', '.join(_SELECTORS)}"
    for name in (*_PLUGINS, "principal.builder.class"):
        found = value(name)
        if found is not None and (name in _PLUGINS or found.strip() != _PRINCIPALS):
            return f"Invalid value {found} for configuration {name}: Class {found} could not be found."
    protocols = value("group.coordinator.rebalance.protocols")
    if protocols is not None and "classic" not in elements(protocols):
        return "Disabling the 'classic' protocol is not supported."
    return None


def _holds(left: int | None, must: str, right: int | None) -> bool:
    if left is None or right is None:
        return True  # not a config of this release
    return left >= right if must is _AT_LEAST else left <= right if must is _AT_MOST else left < right


def _log_problem(known: Mapping[str, ConfigKey], number: Callable[[str], int | None]) -> str | None:
    def first(name: str) -> int | None:
        """Return the config or its first synonym that is set."""
        names = (name, *(synonym for synonym, _ in known[name].synonyms))
        return next((found for found in map(number, names) if found is not None), None)

    if (roll := first("log.roll.ms")) is not None and roll < 1:
        return "log.roll.ms must be greater than or equal to 1"
    if (jitter := first("log.roll.jitter.ms")) is not None and jitter < 0:
        return "log.roll.jitter.ms must be greater than or equal to 0"
    if first("log.retention.ms") == 0:
        return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    buffer, threads = number("log.cleaner.dedupe.buffer.size"), number("log.cleaner.threads")
    acks, replicas = number("offsets.commit.required.acks"), number("offsets.topic.replication.factor")
    if acks is not None and replicas is not None and not -1 <= acks <= replicas:
        return (
            "offsets.commit.required.acks must be greater or equal to -1"
            " and less or equal to offsets.topic.replication.factor"
        )
    for name in _CODECS:
        if (codec := number(name)) is not None and codec not in range(5):
            return f"Unknown compression type id: {codec}"
    if threads == 0:
        return "log.cleaner.threads must be at least 1 (with 0, Kafka's brokers stop with: / by zero)"
    if buffer is not None and threads is not None and buffer // threads <= 1 << 20:
        return "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    return None


def _connection_problem(value: Value, number: Callable[[str], int | None]) -> str | None:
    wait = number("replica.fetch.wait.max.ms")
    if not _holds(wait, _AT_MOST, number("replica.socket.timeout.ms")):
        return (
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms"
            " to prevent unnecessary socket timeouts"
        )
    if not _holds(wait, _AT_MOST, number("replica.lag.time.max.ms")):
        return (
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
            " to prevent frequent changes in ISR"
        )
    queued = number("queued.max.request.bytes")
    if queued is not None and queued > 0 and not _holds(queued, _AT_LEAST, number("socket.request.max.bytes")):
        return "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    delay, idle = number("connection.failed.authentication.delay.ms"), number("connections.max.idle.ms")
    if delay is not None and idle is not None and delay >= idle >= 0:
        return (
            f"connection.failed.authentication.delay.ms={delay} should always be less than"
            f" connections.max.idle.ms={idle}"
            " to prevent failed authentication responses from timing out"
        )
    for entry in filter(None, (part.strip() for part in (value("max.connections.per.ip.overrides") or "").split(","))):
        if re.fullmatch(r".*:[+-]?\d{1,9}", entry, re.ASCII) is None:
            return (
                "Error parsing configuration property 'max.connections.per.ip.overrides': "
                f"{entry!r} is not address:number"
            )
    if number("max.connections.per.ip") == 0 and not value("max.connections.per.ip.overrides"):
        return "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    return None


# ---- of topics, groups and client metrics


def check_topic_configs(broker_configs: EffectiveConfigs, configs: Mapping[str, str | None]) -> None:
    """Raise `ApiError` for configs that no topic can have."""
    known = broker_configs.keys(ConfigResourceType.TOPIC)
    values = _checked(known, configs, "topic")
    name_of_least, name_of_most = "min.compaction.lag.ms", "max.compaction.lag.ms"
    least, most = (int(values.get(name, known[name].default or 0)) for name in (name_of_least, name_of_most))
    if least > most:
        problem = f"conflict topic config setting {name_of_least} ({least}) > {name_of_most} ({most})"  # plain: Kafka's
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)
    tiered = values.get("remote.storage.enable", "").strip().lower() == "true"
    if tiered and broker_configs.effective("remote.log.storage.system.enable") != "true":
        problem = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)


def check_group_configs(broker_configs: EffectiveConfigs, configs: Mapping[str, str | None]) -> None:
    """Raise `ApiError` for configs of a group that are invalid, or that brokers' configs forbid."""
    values = _checked(broker_configs.keys(ConfigResourceType.GROUP), configs, "group")
    if problem := _group_problem(values, broker_configs):
        raise ApiError(ErrorCode.INVALID_CONFIG, problem)


def _checked(known: Mapping[str, ConfigKey], configs: Mapping[str, str | None], whose: str) -> Mapping[str, str]:
    """Return the values, none of which is null.

    Raises `ApiError` for unknown configs and invalid values.
    """
    values = _without_nulls(configs, whose)
    for name, value in values.items():
        if name not in known:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown {whose} config name: {name}")
        if problem := known[name].problem(value):
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)
    return values


def _without_nulls(configs: Mapping[str, str | None], whose: str) -> Mapping[str, str]:
    if nulls := [name for name, value in configs.items() if value is None]:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for {whose} configs: {','.join(nulls)}")
    return {name: value for name, value in configs.items() if value is not None}


def group_limits(broker_configs: EffectiveConfigs, names: Iterable[str]) -> dict[str, tuple[int | None, int | None]]:
    """Return the minimum and maximum of those configs of groups that brokers' configs limit."""
    known = broker_configs.keys(ConfigResourceType.BROKER)

    def limit(bound: str) -> int | None:
        text = broker_configs.effective(bound) if bound in known else None
        return int(text) if text else None

    found = {name: (limit(least), limit(most)) for name in names for least, most in [_names_of_limits(name)]}
    return {name: limits for name, limits in found.items() if limits != (None, None)}


def _names_of_limits(name: str) -> tuple[str, str]:
    kind, _, rest = name.partition(".")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest.removeprefix('num.')}"


def _group_problem(configs: Mapping[str, str], broker_configs: EffectiveConfigs) -> str | None:
    value = broker_configs.effective
    if len({*(tags := elements(configs.get(_TAGS, "")))}) < len(tags):
        return f"{_TAGS} must not contain duplicate tag keys."
    for name, limits in group_limits(broker_configs, configs).items():
        for bound, must, limit in zip(_names_of_limits(name), (_AT_LEAST, _AT_MOST), limits, strict=True):
            if not _holds(int(configs[name]), must, limit):
                if not broker_configs.behaviour.names_limits:
                    return f"{name} {must} {bound}"
                if None in limits:
                    return f"{name} {must} {limit}"
                return f"{name} must be in the range {limits[0]} to {limits[1]} inclusive."
    if (assignor := configs.get(_TASK_ASSIGNOR)) is not None:
        registered = [one.removeprefix(_STREAMS_PREFIX) for one in elements(value("group.streams.assignors") or "")]
        if assignor not in (names := ["sticky" if one == "StickyTaskAssignor" else one for one in registered]):
            listed = ", ".join(names)
            return (
                f"{_TASK_ASSIGNOR} '{assignor}' is not a registered task assignor. "
                f"Registered assignors are: [{listed}]."
            )
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        given = [configs.get(name) or value(f"group.{name}") for name in (session, heartbeat)]
        if given[0] and given[1] and int(given[0]) <= int(given[1]):
            return f"{session} must be greater than {heartbeat}"
    if configs.get(_DEAD_LETTERS, "").startswith("__"):
        return f"{_DEAD_LETTERS}: DLQ topic name must not start with '__'"
    return None


def check_client_metrics(broker_configs: EffectiveConfigs, name: str, configs: Mapping[str, str | None]) -> None:
    """Raise `ApiError` for configs of a subscription, in the order of ClientMetricsConfigs."""
    values = _without_nulls(configs, "client metrics")
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    known = broker_configs.keys(ConfigResourceType.CLIENT_METRICS)
    if (unknown := next((each for each in values if each not in known), None)) is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {unknown}")
    for each, value in values.items():
        if problem := known[each].problem(value):
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)
    if "interval.ms" in values and not 100 <= (interval_ms := int(values["interval.ms"])) <= 3_600_000:
        problem = f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    selectors(elements(values.get("match", "")))


# ---- while brokers run

_MIN_IN_SYNC = "min.insync.replicas"
_LISTENERS = ("advertised.listeners", "listener.security.protocol.map", "listeners")
_THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def has_eligible_leaders(features: Mapping[str, int]) -> bool:
    """Return whether eligible leader replicas are enabled (KIP-966)."""
    return features.get("eligible.leader.replicas.version", 0) > 0


def check_broker_configs(
    broker_configs: EffectiveConfigs,
    by: int,
    broker: int | None,
    configs: Mapping[str, str | None],
    *,
    features: Mapping[str, int],
    requested: Collection[str],
) -> None:
    """Raise `ApiError` for configs that one broker, or all (`None`), cannot change at runtime.

    `by`: the broker that received the request, against whose configs the values are checked.
    `features`: the finalized levels. `requested`: the configs that the request names.
    """
    keys = {name: broker_config_key(broker_configs.kafka_version, name) for name in configs}
    values = {name: value for name, value in configs.items() if value is not None}
    problem = (
        _problem_of_modes(keys, UpdateMode.READ_ONLY, "Cannot update these configs dynamically")
        or _problem_of_modes(keys, UpdateMode.LISTENER, _PER_LISTENER)
        or _problem_of_repetition(broker_configs, keys, values)
        or next(filter(None, (keys[name].problem(value) for name, value in values.items())), None)
        or (_problem_of_modes(keys, UpdateMode.PER_BROKER, _PER_BROKER) if broker is None else None)
        or _problem_of_listeners(broker_configs, broker, values)
        or _problem_together(broker_configs, by, broker, values)
    )
    if problem:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    if has_eligible_leaders(features):
        if broker is not None and _MIN_IN_SYNC in requested:
            problem = f"Broker-level {_MIN_IN_SYNC} cannot be altered while ELR is enabled."
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)
        if broker is None and _MIN_IN_SYNC not in configs:
            problem = f"Cluster-level {_MIN_IN_SYNC} cannot be removed while ELR is enabled."
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)


_PER_LISTENER = "These security configs can be dynamically updated only per-listener using the listener prefix"
_UNCHECKED = "config.providers"  # Kafka takes it out before it checks the others
_PER_BROKER = "Cannot update these configs at default cluster level, broker id must be specified"


def _problem_of_modes(keys: Mapping[str, ConfigKey], mode: UpdateMode, problem: str) -> str | None:
    names = [name for name, key in keys.items() if key.update_mode is mode]
    return f"{problem}: [{', '.join(names)}]" if names else None


def _problem_of_repetition(
    broker_configs: EffectiveConfigs, keys: Mapping[str, ConfigKey], values: Mapping[str, str]
) -> str | None:
    if not BrokerBehaviour.of(broker_configs.kafka_version).unique_elements:
        return None
    lists = {name: elements(value) for name, value in values.items() if keys[name].whole_elements}
    repeated = (name for name, found in lists.items() if len({*found}) < len(found) and name != _UNCHECKED)
    return next((f"Configuration '{name}' values must not be duplicated." for name in repeated), None)


def _problem_of_listeners(
    broker_configs: EffectiveConfigs, broker: int | None, configs: Mapping[str, str]
) -> str | None:
    """Reject changed listeners: embedded brokers' addresses are fixed by the cluster's owner."""
    before = broker_configs.changed.get(broker, {})
    changed = (name for name in _LISTENERS if name in configs and configs[name] != before.get(name))
    return next((f"{name} of an embedded broker cannot change while it runs" for name in changed), None)


def _problem_together(
    broker_configs: EffectiveConfigs, by: int, broker: int | None, configs: Mapping[str, str]
) -> str | None:
    own = broker_configs.changed.get(by, {}) if broker is None else {}

    def now(name: str) -> str | None:
        return broker_configs.effective(name, by)

    def then(name: str) -> str | None:
        return configs[name] if name in configs and name not in own else now(name)

    for name in (thread for thread in _THREADS if thread in configs):
        was, threads = int(now(name) or 0), int(configs[name])
        failed = f"Dynamic thread count update validation failed for {name}={threads}, value should"
        if threads < was // 2:
            return f"{failed} be at least half the current value {was}"
        if threads > was * 2:
            return f"{failed} not be greater than double the current value {was}"
    if int(then("max.connections") or 0) == 0:
        return "Invalid max.connections 0"
    return broker_problem(broker_configs.kafka_version, then)

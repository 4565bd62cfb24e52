"""DescribeConfigs v1–4: settings of topics, brokers and groups (KIP-133, KIP-226, KIP-569, KIP-848).

Which settings there are, and what they may be, is known to `topic_settings` and `broker_settings`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, answers
from quorate.cluster.apis.broker_configs import broker_config
from quorate.cluster.broker_settings import SYNONYMS, BrokerSetting, UpdateMode, of_brokers, setting_named
from quorate.cluster.client_metrics import CLIENT_METRICS, parsed
from quorate.cluster.settings import ALL, MOST_PARTITIONS
from quorate.cluster.topic_settings import TOPIC_SETTINGS, Kind, Setting, elements, of_groups, of_topics
from quorate.cluster.topics import is_valid_name
from quorate.cluster.turns import Work, each
from quorate.codecs.api.broker import DescribeConfigsRequest, DescribeConfigsResponse
from quorate.codecs.api.broker.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.core import ClusterCore

__all__ = [
    "BROKER",
    "CLIENT_METRICS_CONFIG",
    "GROUP",
    "TOPIC",
    "check_settings",
    "check_topic_config",
    "is_this_broker",
    "settings_of",
    "shown",
    "strange_type",
    "topic_config",
]

TOPIC, BROKER, CLIENT_METRICS_CONFIG, GROUP = 2, 4, 16, 32
"""Types of resources that have settings."""
_BROKER_LOGGER = 8
_FROM_TOPIC, _FROM_BROKER, _FROM_ALL_BROKERS, _AT_START, _DEFAULT = 1, 2, 3, 4, 5
_FROM_CLIENT_METRICS, _FROM_GROUP = 7, 8


# ---- what a setting may be


def _release(cluster: "ClusterCore") -> tuple[int, int]:
    return cluster.settings.release


def settings_of(cluster: "ClusterCore", resource_type: int) -> Mapping[str, Setting]:
    """The settings that topics, brokers, client metrics or groups have in the cluster's release; none of others."""
    release = _release(cluster)
    if resource_type == TOPIC:
        return of_topics(release)
    if resource_type == BROKER:
        return {name: one.rule for name, one in of_brokers(release).items()}
    if resource_type == CLIENT_METRICS_CONFIG:
        return CLIENT_METRICS
    return of_groups(release) if resource_type == GROUP else {}


def check_topic_config(cluster: "ClusterCore", config: Mapping[str, str | None]) -> None:
    """Raises `ApiError` for a setting that no topic has, or that has no such value."""
    check_settings(settings_of(cluster, TOPIC), config, "a topic")
    least, most = (
        int(config.get(name) or TOPIC_SETTINGS[name].default)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if least > most:
        raise ApiError(ErrorCode.INVALID_CONFIG, "min.compaction.lag.ms is above max.compaction.lag.ms")


def check_settings(known: Mapping[str, Setting], config: Mapping[str, str | None], whose: str) -> None:
    """Raises `ApiError` for a setting that `known` has not, or that has no such value. `whose`: they are, for the message."""
    nulls = [name for name, value in config.items() if value is None]
    if nulls:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{', '.join(nulls)} cannot be null")
    for name, value in config.items():
        if name not in known:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} is no setting of {whose}")
        assert value is not None
        if problem := known[name].problem(value):
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)


# ---- showing them


def shown(broker: "Broker", config: Mapping[str, str]) -> list[DescribeConfigsResourceResult]:
    """The settings of a topic with settings of its own, as they were given, and where each comes from, as a broker sees it."""
    return [_shown(broker, one, config, _FROM_TOPIC) for one in settings_of(broker.cluster, TOPIC).values()]


def _shown(
    broker: "Broker", setting: Setting, own: Mapping[str, str], own_source: int
) -> DescribeConfigsResourceResult:
    cluster = broker.cluster
    found = [(setting.name, own[setting.name], own_source)] if setting.name in own else []
    value = setting.default
    if own_source == _FROM_GROUP and _release(cluster) < (4, 3):
        found.append((setting.name, setting.default, _DEFAULT))  # behind the group's there is its default, by its name
    elif setting.broker is not None:
        found += _synonyms(broker, setting.broker, setting.default)
        value = cluster.settings.of_topic(setting.name, {}, broker.id) if own_source == _FROM_TOPIC else value
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=found[0][1] if found else value,
        config_source=found[0][2] if found else _DEFAULT,
        config_type=int(setting.kind),
        synonyms=_told(found),
        documentation=None,
    )


def _read(one: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    """A setting as Kafka has it after reading what was given."""
    value = None if one.value is None else _as_kafka_says(Kind(one.config_type), one.value)
    return one if value == one.value else replace(one, value=value)


def _synonyms(broker: "Broker", name: str, default: str | None = None) -> list[tuple[str, str, int]]:
    """What was said of a setting of a broker, first what counts, and where: name, value, source. `default`: where brokers are not known to have one."""
    cluster = broker.cluster
    names = (name, *(other for other, _ in SYNONYMS.get(name, ())))
    known = of_brokers(_release(cluster))
    defaults = {each: known[each].default if each in known else default for each in names}
    sources = [
        (cluster.settings.changed.get(broker.id, {}), _FROM_BROKER),
        (broker_config(cluster, ALL), _FROM_ALL_BROKERS),
        (cluster.settings.properties, _AT_START),
    ]
    every = [(each, values[each], source) for values, source in sources for each in names if each in values]
    every += [(each, value, _DEFAULT) for each, value in defaults.items() if value is not None]
    while every and every[0][0] != name:  # Kafka shows none before the setting itself is said
        del every[0]
    return every


def _told(found: list[tuple[str, str, int]], *, secret: bool = False) -> tuple[DescribeConfigsSynonym, ...]:
    return tuple(
        DescribeConfigsSynonym(name=name, value=None if secret else value, source=source)
        for name, value, source in found
    )


def _of_broker(broker: "Broker") -> Iterator[DescribeConfigsResourceResult]:
    """A broker's settings: all that its release has, and what Kafka does not know but was given while it runs."""
    cluster = broker.cluster
    settings = cluster.settings
    at_start = {**settings.properties, **_facts(broker)}
    release = _release(cluster)
    known = of_brokers(release)
    changed = {*settings.changed.get(broker.id, {}), *broker_config(cluster, ALL)}
    for name in sorted({*known, *at_start, *changed} - {MOST_PARTITIONS}):
        one = setting_named(release, name)
        found = _synonyms(broker, name)
        if name in at_start and name not in settings.properties:
            found.insert(0, (name, at_start[name], _AT_START))
        if not one.shown and all(source == _DEFAULT for *_, source in found):
            continue
        value = found[0][1] if found else one.default
        secret = _is_secret(one)
        yield DescribeConfigsResourceResult(
            name=name,
            value=None if secret or value is None else _as_kafka_says(one.kind, value),
            read_only=one.custom or one.change is UpdateMode.NOBODY,
            config_source=found[0][2] if found else _DEFAULT,
            is_sensitive=secret,
            synonyms=_told(found, secret=secret),
            config_type=int(one.kind),
            documentation=None,
        )


def _facts(broker: "Broker") -> dict[str, str]:
    """What a broker's server.properties would say of itself."""
    address = f"PLAINTEXT://{broker.host}:{broker.port}"
    said = {
        "advertised.listeners": address,
        "broker.id": str(broker.id),
        "listeners": address,
        "node.id": str(broker.id),
        "process.roles": "broker,controller",
    }
    if broker.rack is not None:
        said["broker.rack"] = broker.rack
    if broker.cluster.data is not None:
        said["log.dirs"] = str(broker.cluster.data.path)
    return said


def _is_secret(one: BrokerSetting) -> bool:
    """Passwords, and what may be one since nobody knows it."""
    return one.kind is Kind.PASSWORD or one.kind is Kind.UNKNOWN


def _as_kafka_says(kind: Kind, value: str) -> str:
    """A value once it was read: without what says nothing."""
    match kind:
        case Kind.BOOLEAN:
            return value.strip().lower()
        case Kind.INT | Kind.LONG | Kind.SHORT:
            return str(int(value))
        case Kind.LIST:
            return ",".join(elements(value))
        case _:
            return value.strip()


def _of_all_brokers(cluster: "ClusterCore") -> Iterator[DescribeConfigsResourceResult]:
    """What was changed for all brokers while they run."""
    for name, value in broker_config(cluster, ALL).items():
        one = setting_named(_release(cluster), name)
        secret = _is_secret(one)
        yield DescribeConfigsResourceResult(
            name=name,
            value=None if secret else value,
            read_only=one.custom,
            config_source=_FROM_ALL_BROKERS,
            is_sensitive=secret,
            synonyms=_told([(name, value, _FROM_ALL_BROKERS)], secret=secret),
            config_type=int(one.kind),
            documentation=None,
        )


@answers(
    DescribeConfigsRequest,
    lacks="documentation; loggers",
)
def describe_configs(
    broker: "Broker", request: DescribeConfigsRequest, context: Context
) -> Work[DescribeConfigsResponse]:
    """Tell the settings of each resource. One of a kind that the release does not know keeps all others from being told."""
    if (strange := strange_type(broker.cluster, request.resources)) is not None:
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message=f"resources of type {strange} have no settings",
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
                for one in request.resources
            )
        )
    found = yield from each(request.resources, lambda one: _described(broker, one, request.include_synonyms))
    return DescribeConfigsResponse(results=found)


def strange_type(cluster: "ClusterCore", resources: Sequence[DescribeConfigsResource]) -> int | None:
    """A type of resource that is asked for, but has no configs in the cluster's release."""
    known = {TOPIC, BROKER, _BROKER_LOGGER, CLIENT_METRICS_CONFIG, *({GROUP} if _release(cluster) >= (4, 0) else ())}
    return min({one.resource_type for one in resources} - known, default=None)


def _described(broker: "Broker", asked: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
    name, cluster = asked.resource_name, broker.cluster
    try:
        if asked.resource_type == TOPIC:
            settings = [_read(one) for one in shown(broker, topic_config(cluster, name))]
        elif asked.resource_type == BROKER:
            settings = [*(_of_broker(broker) if is_this_broker(broker, name) else _of_all_brokers(cluster))]
        elif asked.resource_type == GROUP and (known := settings_of(cluster, GROUP)):
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "a group has a name")
            own = cluster.group_settings.get(name, {})
            settings = [_shown(broker, one, own, _FROM_GROUP) for one in known.values()]
        elif asked.resource_type == CLIENT_METRICS_CONFIG:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            given = cluster.client_metrics.get(name, {})
            own = {each: parsed(each, value) for each, value in given.items()}
            settings = [_shown(broker, one, own, _FROM_CLIENT_METRICS) for one in CLIENT_METRICS.values()]
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"resources of type {asked.resource_type} have no settings here")
    except ApiError as refusal:
        return DescribeConfigsResult(
            error_code=refusal.code,
            error_message=refusal.message,
            resource_type=asked.resource_type,
            resource_name=name,
        )
    keys = frozenset(asked.configuration_keys or ())
    return DescribeConfigsResult(
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=name,
        configs=tuple(
            _without_synonyms(one) if not synonyms else one for one in settings if not keys or one.name in keys
        ),
    )


def _without_synonyms(one: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=one.name,
        value=one.value,
        read_only=one.read_only,
        config_source=one.config_source,
        is_sensitive=one.is_sensitive,
        config_type=one.config_type,
        documentation=None,
    )


def topic_config(cluster: "ClusterCore", name: str) -> dict[str, str]:
    """A topic's own settings. Raises `ApiError` without such a topic."""
    if not is_valid_name(name):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"a topic cannot be named {name!r}")
    if name not in cluster.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return cluster.topics[name].config


def is_this_broker(broker: "Broker", name: str) -> bool:
    """Whether a broker's own settings are meant, by its id; an empty name means those that all brokers were given while they run. Raises `ApiError`."""
    if not name:
        return False
    if name != str(broker.id):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"broker {broker.id} is asked for the settings of {name!r}")
    return True

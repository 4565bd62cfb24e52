"""DescribeConfigs v1–4: configs of topics, brokers, client metrics and groups.

See KIP-133, KIP-226, KIP-569, KIP-714 and KIP-848. `quorate.codecs.configs` has the table of
configs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.broker_configs import ALL, MAX_PARTITIONS
from quorate.cluster.client_metrics import parsed
from quorate.cluster.config_validation import has_eligible_leaders
from quorate.cluster.topics import is_valid_name
from quorate.cluster.turns import Work, map_in_turns
from quorate.codecs.api.broker import DescribeConfigsRequest, DescribeConfigsResponse
from quorate.codecs.api.broker.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.configs import ConfigKey, ConfigResourceType, ConfigType, UpdateMode, broker_config_key
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

__all__ = ["broker_config", "is_this_broker", "shown", "topic_config", "unknown_resource_type"]

_FROM_TOPIC, _FROM_BROKER, _FROM_ALL_BROKERS, _AT_START, _DEFAULT = 1, 2, 3, 4, 5
_FROM_CLIENT_METRICS, _FROM_GROUP = 7, 8
_LOGGER = ConfigResourceType.BROKER_LOGGER
_MIN_IN_SYNC = "min.insync.replicas"


def broker_config(cluster: "SharedCluster", broker: int | None) -> dict[str, str]:
    """Return the dynamic configs of a broker, or the cluster-wide ones for `ALL`.

    With eligible leader replicas (KIP-966) `min.insync.replicas` is always one of the latter.
    """
    configs = dict(cluster.broker_configs.changed.get(broker, {}))
    if broker is ALL and has_eligible_leaders(cluster.features):
        configs.setdefault(_MIN_IN_SYNC, cluster.broker_configs.get(_MIN_IN_SYNC))
    return configs


def shown(broker: "Broker", config: Mapping[str, str]) -> list[DescribeConfigsResourceResult]:
    """Return the configs of a topic with the source of each, as a broker reports them.

    `config`: the topic's own configs. Values are as the client wrote them.
    """
    keys = broker.cluster.broker_configs.keys(ConfigResourceType.TOPIC).values()
    return [_shown(broker, one, config, _FROM_TOPIC) for one in keys]


def _shown(broker: "Broker", key: ConfigKey, own: Mapping[str, str], own_source: int) -> DescribeConfigsResourceResult:
    found = [(key.name, own[key.name], own_source)] if key.name in own else []
    value = key.default or ""
    if key.synonyms:
        found += _synonyms(broker, [name for name, _ in key.synonyms])
        value = broker.cluster.broker_configs.of_topic(key.name, {}, broker.id) if own_source == _FROM_TOPIC else value
    elif own_source == _FROM_GROUP:  # groups do not inherit configs of brokers
        found.append((key.name, value, _DEFAULT))
    return DescribeConfigsResourceResult(
        name=key.name,
        value=found[0][1] if found else value,
        config_source=found[0][2] if found else _DEFAULT,
        config_type=int(key.type),
        synonyms=_as_synonyms(found),
        documentation=None,
    )


def _read(one: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    """Return a config with its value as Kafka prints it after parsing."""
    value = None if one.value is None else ConfigKey(name=one.name, type=ConfigType(one.config_type)).parsed(one.value)
    return one if value == one.value else replace(one, value=value)


def _synonyms(broker: "Broker", names: Sequence[str]) -> list[tuple[str, str, int]]:
    """Return name, value and source of a config's synonyms, highest precedence first."""
    cluster = broker.cluster
    known = cluster.broker_configs.keys(ConfigResourceType.BROKER)
    defaults = {each: known[each].default for each in names if each in known}
    sources = [
        (cluster.broker_configs.changed.get(broker.id, {}), _FROM_BROKER),
        (broker_config(cluster, ALL), _FROM_ALL_BROKERS),
        (cluster.broker_configs.properties, _AT_START),
    ]
    every = [(each, values[each], source) for values, source in sources for each in names if each in values]
    every += [(each, value, _DEFAULT) for each, value in defaults.items() if value is not None]
    while every and every[0][0] != names[0]:  # Kafka omits synonyms of higher precedence than the config
        del every[0]
    return every


def _as_synonyms(found: list[tuple[str, str, int]], *, secret: bool = False) -> tuple[DescribeConfigsSynonym, ...]:
    return tuple(
        DescribeConfigsSynonym(name=name, value=None if secret else value, source=source)
        for name, value, source in found
    )


def _of_broker(broker: "Broker") -> Iterator[DescribeConfigsResourceResult]:
    """Yield a broker's configs: those of its release, and unknown ones that are dynamic."""
    cluster = broker.cluster
    broker_configs = cluster.broker_configs
    at_start = {**broker_configs.properties, **_own_properties(broker)}
    known = broker_configs.keys(ConfigResourceType.BROKER)
    changed = {*broker_configs.changed.get(broker.id, {}), *broker_config(cluster, ALL)}
    for name in sorted({*known, *at_start, *changed} - {MAX_PARTITIONS}):
        key = broker_config_key(broker_configs.kafka_version, name)
        found = _synonyms(broker, [name, *(synonym for synonym, _ in key.synonyms)])
        if name in at_start and name not in broker_configs.properties:
            found.insert(0, (name, at_start[name], _AT_START))
        if key.internal and all(source == _DEFAULT for *_, source in found):
            continue
        value = found[0][1] if found else key.default
        yield DescribeConfigsResourceResult(
            name=name,
            value=None if key.sensitive or value is None else key.parsed(value),
            read_only=key.custom or key.update_mode is UpdateMode.READ_ONLY,
            config_source=found[0][2] if found else _DEFAULT,
            is_sensitive=key.sensitive,
            synonyms=_as_synonyms(found, secret=key.sensitive),
            config_type=int(key.type),
            documentation=None,
        )


def _own_properties(broker: "Broker") -> dict[str, str]:
    """Return the configs that would be in the broker's own server.properties."""
    address = f"PLAINTEXT://{broker.host}:{broker.port}"
    configs = {
        "advertised.listeners": address,
        "broker.id": str(broker.id),
        "listeners": address,
        "node.id": str(broker.id),
        "process.roles": "broker,controller",
    }
    if broker.rack is not None:
        configs["broker.rack"] = broker.rack
    if broker.cluster.data is not None:
        configs["log.dirs"] = str(broker.cluster.data.path)
    return configs


def _of_all_brokers(cluster: "SharedCluster") -> Iterator[DescribeConfigsResourceResult]:
    """Yield the cluster-wide dynamic configs of brokers."""
    for name, value in broker_config(cluster, ALL).items():
        key = broker_config_key(cluster.broker_configs.kafka_version, name)
        yield DescribeConfigsResourceResult(
            name=name,
            value=None if key.sensitive else value,
            read_only=key.custom,
            config_source=_FROM_ALL_BROKERS,
            is_sensitive=key.sensitive,
            synonyms=_as_synonyms([(name, value, _FROM_ALL_BROKERS)], secret=key.sensitive),
            config_type=int(key.type),
            documentation=None,
        )


def describe_configs(
    broker: "Broker", request: DescribeConfigsRequest, context: Context
) -> Work[DescribeConfigsResponse]:
    """Describe the configs of each resource.

    A resource type that the release does not know rejects the whole request.
    """
    if (unknown := unknown_resource_type(broker.cluster, request.resources)) is not None:
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message=f"resource type {unknown} has no configs",
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
                for one in request.resources
            )
        )
    found = yield from map_in_turns(request.resources, lambda one: _described(broker, one, request.include_synonyms))
    return DescribeConfigsResponse(results=found)


def unknown_resource_type(cluster: "SharedCluster", resources: Sequence[DescribeConfigsResource]) -> int | None:
    """Return a requested resource type that has no configs in the cluster's release, if any."""
    known = {one for one in ConfigResourceType if one is _LOGGER or cluster.broker_configs.keys(one)}
    return min({one.resource_type for one in resources} - known, default=None)


def _described(broker: "Broker", requested: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
    name, cluster, kind = requested.resource_name, broker.cluster, requested.resource_type
    known = cluster.broker_configs.keys(kind)
    try:
        if kind == ConfigResourceType.TOPIC:
            configs = [_read(one) for one in shown(broker, topic_config(cluster, name))]
        elif kind == ConfigResourceType.BROKER:
            configs = [*(_of_broker(broker) if is_this_broker(broker, name) else _of_all_brokers(cluster))]
        elif kind == ConfigResourceType.GROUP and known:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            own = cluster.state.group_configs.get(name, {})
            configs = [_shown(broker, one, own, _FROM_GROUP) for one in known.values()]
        elif kind == ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            given = cluster.state.client_metrics.get(name, {})
            own = {each: parsed(known[each], value) for each, value in given.items()}
            configs = [_shown(broker, one, own, _FROM_CLIENT_METRICS) for one in known.values()]
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"configs of resource type {kind} are not supported")
    except ApiError as refusal:
        return DescribeConfigsResult(
            error_code=refusal.code,
            error_message=refusal.message,
            resource_type=requested.resource_type,
            resource_name=name,
        )
    keys = frozenset(requested.configuration_keys or ())
    return DescribeConfigsResult(
        error_message=None,
        resource_type=requested.resource_type,
        resource_name=name,
        configs=tuple(
            _without_synonyms(one) if not synonyms else one for one in configs if not keys or one.name in keys
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


def topic_config(cluster: "SharedCluster", name: str) -> dict[str, str]:
    """Return a topic's own configs. Raises `ApiError` if the topic does not exist."""
    if not is_valid_name(name):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"invalid topic name {name!r}")
    if name not in cluster.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return cluster.topics[name].config


def is_this_broker(broker: "Broker", name: str) -> bool:
    """Return whether a resource name is this broker's id; "" means cluster-wide dynamic configs.

    Raises `ApiError` for any other name.
    """
    if not name:
        return False
    if re.fullmatch(r"[+-]?\d+", name) is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if name != str(broker.id):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker.id}, but received {name}")
    return True

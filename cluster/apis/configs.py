"""DescribeConfigs v1–4: configs of topics, brokers, client metrics and groups.

See KIP-133, KIP-226, KIP-569, KIP-714 and KIP-848. The table of configs is in
`quorate.codecs.configs`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.broker_configs import ALL, MAX_PARTITIONS
from quorate.cluster.client_metrics import parsed
from quorate.cluster.config_validation import has_eligible_leaders
from quorate.cluster.topics import is_valid_name, name_problem
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

_TOPIC, _DYNAMIC_BROKER, _DYNAMIC_DEFAULT_BROKER, _STATIC_BROKER, _DEFAULT = 1, 2, 3, 4, 5
_CLIENT_METRICS, _GROUP = 7, 8
"""Sources of configs, as in Kafka's DescribeConfigsResponse.ConfigSource."""
_LOGGER = ConfigResourceType.BROKER_LOGGER
_MIN_IN_SYNC = "min.insync.replicas"


def broker_config(cluster: "SharedCluster", broker: int | None) -> dict[str, str]:
    """Return the dynamic configs of a broker, or the cluster-wide ones for `ALL`.

    With eligible leader replicas (KIP-966), `min.insync.replicas` always has a cluster-wide value.
    """
    configs = dict(cluster.broker_configs.changed.get(broker, {}))
    if broker is ALL and has_eligible_leaders(cluster.features):
        configs.setdefault(_MIN_IN_SYNC, cluster.broker_configs.get(_MIN_IN_SYNC))
    return configs


def topic_config_results(broker: "Broker", config: Mapping[str, str]) -> list[DescribeConfigsResourceResult]:
    """Return the configs of a topic with the source of each, as a broker reports them.

    `config`: the topic's own configs. Values are as the client wrote them.
    """
    keys = broker.cluster.broker_configs.keys(ConfigResourceType.TOPIC).values()
    return [_config_result(broker, key, config, _TOPIC) for key in keys]


def _config_result(
    broker: "Broker", key: ConfigKey, own: Mapping[str, str], own_source: int
) -> DescribeConfigsResourceResult:
    """Describe a config of a resource.

    `own`: the resource's own configs. `own_source`: their source.
    """
    synonyms = [(key.name, own[key.name], own_source)] if key.name in own else []
    value = key.default or ""
    if key.synonyms:
        synonyms += _synonyms(broker, [name for name, _ in key.synonyms])
        value = broker.cluster.broker_configs.of_topic(key.name, {}, broker.id) if own_source == _TOPIC else value
    elif own_source == _GROUP:  # groups do not inherit configs of brokers
        synonyms.append((key.name, value, _DEFAULT))
    return DescribeConfigsResourceResult(
        name=key.name,
        value=synonyms[0][1] if synonyms else value,
        config_source=synonyms[0][2] if synonyms else _DEFAULT,
        config_type=int(key.type),
        synonyms=_as_synonyms(synonyms),
        documentation=None,
    )


def _with_parsed_value(config: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    """Return a config with its value as Kafka prints it after parsing, also among its synonyms."""
    if config.value is None:
        return config
    value = ConfigKey(name=config.name, type=ConfigType(config.config_type)).parsed(config.value)
    if value == config.value:
        return config
    synonyms = tuple(replace(one, value=value) if one.source == _TOPIC else one for one in config.synonyms)
    return replace(config, value=value, synonyms=synonyms)


def _synonyms(broker: "Broker", names: Sequence[str]) -> list[tuple[str, str, int]]:
    """Return the names, values and sources that apply to a config, highest precedence first.

    `names`: the config's name and those of its synonyms.
    """
    cluster = broker.cluster
    known = cluster.broker_configs.keys(ConfigResourceType.BROKER)
    defaults = {name: known[name].default for name in names if name in known}
    sources = [
        (cluster.broker_configs.changed.get(broker.id, {}), _DYNAMIC_BROKER),
        (broker_config(cluster, ALL), _DYNAMIC_DEFAULT_BROKER),
        (cluster.broker_configs.properties, _STATIC_BROKER),
    ]
    synonyms = [(name, values[name], source) for values, source in sources for name in names if name in values]
    synonyms += [(name, value, _DEFAULT) for name, value in defaults.items() if value is not None]
    while synonyms and synonyms[0][0] != names[0]:  # Kafka omits synonyms of higher precedence than the config
        del synonyms[0]
    return synonyms


def _as_synonyms(synonyms: list[tuple[str, str, int]], *, secret: bool = False) -> tuple[DescribeConfigsSynonym, ...]:
    return tuple(
        DescribeConfigsSynonym(name=name, value=None if secret else value, source=source)
        for name, value, source in synonyms
    )


def _of_broker(broker: "Broker") -> Iterator[DescribeConfigsResourceResult]:
    """Yield a broker's configs: those of its release, its properties, and other dynamic configs."""
    cluster = broker.cluster
    broker_configs = cluster.broker_configs
    static = {**broker_configs.properties, **_own_properties(broker)}
    known = broker_configs.keys(ConfigResourceType.BROKER)
    changed = {*broker_configs.changed.get(broker.id, {}), *broker_config(cluster, ALL)}
    for name in sorted({*known, *static, *changed} - {MAX_PARTITIONS}):
        key = broker_config_key(broker_configs.kafka_version, name)
        synonyms = _synonyms(broker, [name, *(synonym for synonym, _ in key.synonyms)])
        if name in static and name not in broker_configs.properties:
            synonyms.insert(0, (name, static[name], _STATIC_BROKER))
        if key.internal and all(source == _DEFAULT for *_, source in synonyms):
            continue
        value = synonyms[0][1] if synonyms else key.default
        yield DescribeConfigsResourceResult(
            name=name,
            value=None if key.sensitive or value is None else key.parsed(value),
            read_only=key.custom or key.update_mode is UpdateMode.READ_ONLY,
            config_source=synonyms[0][2] if synonyms else _DEFAULT,
            is_sensitive=key.sensitive,
            synonyms=_as_synonyms(synonyms, secret=key.sensitive),
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
            config_source=_DYNAMIC_DEFAULT_BROKER,
            is_sensitive=key.sensitive,
            synonyms=_as_synonyms([(name, value, _DYNAMIC_DEFAULT_BROKER)], secret=key.sensitive),
            config_type=int(key.type),
            documentation=None,
        )


def describe_configs(
    broker: "Broker", request: DescribeConfigsRequest, context: Context
) -> Work[DescribeConfigsResponse]:
    """Describe the configs of each resource.

    The whole request is rejected if the release does not support one of its resource types.
    """
    if has_unknown_resource_type(broker.cluster, request.resources):
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message=ErrorCode.INVALID_REQUEST.text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.resources
            )
        )
    results = yield from map_in_turns(
        request.resources, lambda resource: _described(broker, resource, request.include_synonyms)
    )
    return DescribeConfigsResponse(results=results)


def has_unknown_resource_type(cluster: "SharedCluster", resources: Sequence[DescribeConfigsResource]) -> bool:
    """Return whether a requested resource type has no configs in the cluster's release."""
    known = {kind for kind in ConfigResourceType if kind is _LOGGER or cluster.broker_configs.keys(kind)}
    return any(resource.resource_type not in known for resource in resources)


def _described(broker: "Broker", requested: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
    name, cluster, kind = requested.resource_name, broker.cluster, requested.resource_type
    known = cluster.broker_configs.keys(kind)
    try:
        if kind == ConfigResourceType.TOPIC:
            configs = [
                _with_parsed_value(config) for config in topic_config_results(broker, topic_config(cluster, name))
            ]
        elif kind == ConfigResourceType.BROKER:
            configs = [
                *(_of_broker(broker) if is_this_broker(broker, name, describes=True) else _of_all_brokers(cluster))
            ]
        elif kind == ConfigResourceType.GROUP and known:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            stored = cluster.state.group_configs.get(name, {})
            own = {key: known[key].parsed(value) for key, value in stored.items()}
            listed = [key for key in known.values() if not key.internal or key.name in own]
            configs = [_config_result(broker, key, own, _GROUP) for key in listed]
        elif kind == ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            given = cluster.state.client_metrics.get(name, {})
            own = {key: parsed(known[key], value) for key, value in given.items()}
            configs = [_config_result(broker, key, own, _CLIENT_METRICS) for key in known.values()]
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"configs of resource type {kind} are not supported")
    except ApiError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=error.message,
            resource_type=requested.resource_type,
            resource_name=name,
        )
    keys = frozenset(requested.configuration_keys or ())
    return DescribeConfigsResult(
        error_message="",
        resource_type=requested.resource_type,
        resource_name=name,
        configs=tuple(
            config if synonyms else _without_synonyms(config) for config in configs if not keys or config.name in keys
        ),
    )


def _without_synonyms(config: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.config_source,
        is_sensitive=config.is_sensitive,
        config_type=config.config_type,
        documentation=None,
    )


def topic_config(cluster: "SharedCluster", name: str) -> dict[str, str]:
    """Return a topic's own configs. Raises `ApiError` if the topic does not exist."""
    if not is_valid_name(name):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, name_problem(name))
    if name not in cluster.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return cluster.topics[name].config


def is_this_broker(broker: "Broker", name: str, *, describes: bool = False) -> bool:
    """Return whether a resource name is this broker's id; "" means cluster-wide dynamic configs.

    Raises `ApiError` for any other name; the message of DescribeConfigs is another one.
    """
    if not name:
        return False
    if re.fullmatch(r"[+-]?\d+", name) is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{'Broker' if describes else 'Node'} id must be an integer, but it is: {name}"
        )
    if name != str(broker.id):
        expected = f"{broker.id} or empty string" if describes else f"{broker.id}"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected}, but received {name}")
    return True

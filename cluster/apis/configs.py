"""DescribeConfigs v1–4: settings of topics, brokers and groups (KIP-133, KIP-226, KIP-569, KIP-848).

Which settings there are, and what they may be, is known to `topic_settings`. Those of brokers are given when the cluster is made, and are only shown.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, answers
from quorate.cluster.apis.versions import release_of
from quorate.cluster.errors import Refusal
from quorate.cluster.settings import BROKER_DEFAULTS, MOST_PARTITIONS
from quorate.cluster.topic_settings import NOT_AMONG_SYNONYMS, TOPIC_SETTINGS, Setting, of_groups, of_topics
from quorate.cluster.topics import is_valid_name
from quorate.codecs.api.broker import DescribeConfigsRequest, DescribeConfigsResponse
from quorate.codecs.api.broker.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.core import ClusterCore

__all__ = [
    "BROKER",
    "GROUP",
    "TOPIC",
    "check_settings",
    "check_topic_config",
    "is_this_broker",
    "settings_of",
    "shown",
    "topic_config",
]

TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of resources that have settings."""
_OTHERS_WITH_SETTINGS = (8, 16)
"""Loggers of brokers, and clients' metrics."""
_FROM_TOPIC, _FROM_ALL_BROKERS, _FROM_BROKER, _DEFAULT, _FROM_GROUP = 1, 3, 4, 5, 8
_HIDDEN = frozenset({"producer.id.expiration.check.interval.ms", MOST_PARTITIONS})
"""Settings of brokers that Kafka keeps to itself, or does not have."""


# ---- what a setting may be


def settings_of(cluster: "ClusterCore", resource_type: int) -> Mapping[str, Setting]:
    """The settings that topics or groups have in the cluster's release; none of others."""
    release = release_of(cluster.settings.coordinator.kafka_version)
    if resource_type == TOPIC:
        return of_topics(release)
    return of_groups(release) if resource_type == GROUP else {}


def check_topic_config(cluster: "ClusterCore", config: Mapping[str, str | None]) -> None:
    """Raises `Refusal` for a setting that no topic has, or that has no such value."""
    check_settings(settings_of(cluster, TOPIC), config, "a topic")
    least, most = (
        int(config.get(name) or TOPIC_SETTINGS[name].default)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if least > most:
        raise Refusal(ErrorCode.INVALID_CONFIG, "min.compaction.lag.ms is above max.compaction.lag.ms")


def check_settings(known: Mapping[str, Setting], config: Mapping[str, str | None], whose: str) -> None:
    """Raises `Refusal` for a setting that `known` has not, or that has no such value. `whose`: they are, for the message."""
    nulls = [name for name, value in config.items() if value is None]
    if nulls:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{', '.join(nulls)} cannot be null")
    for name, value in config.items():
        if name not in known:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} is no setting of {whose}")
        assert value is not None
        if problem := known[name].problem(value):
            raise Refusal(ErrorCode.INVALID_CONFIG, problem)


# ---- showing them


def shown(cluster: "ClusterCore", config: Mapping[str, str]) -> list[DescribeConfigsResourceResult]:
    """The settings of a topic with settings of its own, and where each comes from."""
    return [_shown(cluster, one, config, _FROM_TOPIC) for one in settings_of(cluster, TOPIC).values()]


def _shown(
    cluster: "ClusterCore", setting: Setting, own: Mapping[str, str], own_source: int
) -> DescribeConfigsResourceResult:
    properties = cluster.settings.properties
    if own_source == _FROM_GROUP and release_of(cluster.settings.coordinator.kafka_version) < (4, 3):
        setting = replace(setting, broker=setting.name)  # behind the group's there is its default, by the same name
    found = [(setting.name, own[setting.name], own_source)] if setting.name in own else []
    if setting.name == "min.insync.replicas" and cluster.features.get("eligible.leader.replicas.version"):
        # With eligible leader replicas (KIP-966) the controller keeps the brokers' setting for all of them.
        found.append((setting.name, properties.get(setting.name, setting.default), _FROM_ALL_BROKERS))
    if setting.broker is not None:
        given = properties.get(setting.broker)
        if given is not None:
            found.append((setting.broker, given, _FROM_BROKER))
        if setting.name not in NOT_AMONG_SYNONYMS:
            found.append((setting.broker, setting.default, _DEFAULT))
    _, value, source = found[0] if found else (setting.name, setting.default, _DEFAULT)
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=value,
        config_source=source,
        config_type=int(setting.kind),
        synonyms=tuple(DescribeConfigsSynonym(name=name, value=each, source=where) for name, each, where in found),
        documentation=None,
    )


def _of_broker(cluster: "ClusterCore") -> list[DescribeConfigsResourceResult]:
    properties = cluster.settings.properties
    return [
        DescribeConfigsResourceResult(
            name=each,
            value=cluster.settings.get(each),
            read_only=True,
            config_source=_FROM_BROKER if each in properties else _DEFAULT,
            documentation=None,
        )
        for each in sorted({*BROKER_DEFAULTS, *properties} - _HIDDEN)
    ]


def _of_all_brokers(cluster: "ClusterCore") -> list[DescribeConfigsResourceResult]:
    """What the controller keeps for all brokers: with eligible leader replicas (KIP-966) how many replicas have to be in sync."""
    shown = _shown(cluster, TOPIC_SETTINGS["min.insync.replicas"], {}, _FROM_TOPIC)
    return [shown] if shown.config_source == _FROM_ALL_BROKERS else []


@answers(
    DescribeConfigsRequest,
    lacks="settings of brokers that mean nothing here, their types and synonyms; documentation; loggers and client metrics",
)
def describe_configs(broker: "Broker", request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    """Tell the settings of each resource. One of a kind that the release does not know keeps all others from being told."""
    release = release_of(broker.cluster.settings.coordinator.kafka_version)
    known = {TOPIC, BROKER, *_OTHERS_WITH_SETTINGS, *({GROUP} if release >= (4, 0) else ())}
    if strange := sorted({one.resource_type for one in request.resources} - known):
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message=f"resources of type {strange[0]} have no settings",
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
                for one in request.resources
            )
        )
    return DescribeConfigsResponse(
        results=tuple(_described(broker, one, request.include_synonyms) for one in request.resources)
    )


def _described(broker: "Broker", asked: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
    name, cluster = asked.resource_name, broker.cluster
    try:
        if asked.resource_type == TOPIC:
            settings = shown(cluster, topic_config(cluster, name))
        elif asked.resource_type == BROKER:
            settings = _of_broker(cluster) if is_this_broker(broker, name) else _of_all_brokers(cluster)
        elif asked.resource_type == GROUP and (known := settings_of(cluster, GROUP)):
            if not name:
                raise Refusal(ErrorCode.INVALID_REQUEST, "a group has a name")
            own = cluster.group_settings.get(name, {})
            settings = [_shown(cluster, one, own, _FROM_GROUP) for one in known.values()]
        else:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"resources of type {asked.resource_type} have no settings here")
    except Refusal as refusal:
        return DescribeConfigsResult(
            error_code=refusal.code,
            error_message=refusal.message,
            resource_type=asked.resource_type,
            resource_name=name,
        )
    keys = asked.configuration_keys
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
        config_type=one.config_type,
        documentation=None,
    )


def topic_config(cluster: "ClusterCore", name: str) -> dict[str, str]:
    """A topic's own settings. Raises `Refusal` without such a topic."""
    if not is_valid_name(name):
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"a topic cannot be named {name!r}")
    if name not in cluster.topics:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return cluster.topics[name].config


def is_this_broker(broker: "Broker", name: str) -> bool:
    """Whether a broker's own settings are meant, by its id; an empty name means those that all brokers were given while running: none here. Raises `Refusal`."""
    if not name:
        return False
    if name != str(broker.id):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"broker {broker.id} is asked for the settings of {name!r}")
    return True

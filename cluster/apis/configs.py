"""DescribeConfigs v1–4, AlterConfigs v0–2, IncrementalAlterConfigs v0–1: settings of topics, brokers and groups (KIP-133, KIP-226, KIP-339, KIP-569, KIP-848).

Which settings there are, and what they may be, is known to `topic_settings`. Those of brokers are given when the cluster is made, and are only shown.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context, answers
from quorate.cluster.errors import Refusal
from quorate.cluster.settings import BROKER_DEFAULTS
from quorate.cluster.topic_settings import (
    GROUP_SETTINGS,
    NOT_AMONG_SYNONYMS,
    TOPIC_SETTINGS,
    Kind,
    Setting,
    elements,
)
from quorate.cluster.topics import is_valid_name
from quorate.codecs.api.broker import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorate.codecs.api.broker.alter_configs import AlterConfigsResourceResponse
from quorate.codecs.api.broker.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from quorate.codecs.api.broker.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResponse,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.config import ConfigError, CoordinatorConfig, GroupConfig

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.core import ClusterCore

__all__ = ["check_topic_config", "shown"]

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_FROM_TOPIC, _FROM_ALL_BROKERS, _FROM_BROKER, _DEFAULT, _FROM_GROUP = 1, 3, 4, 5, 8
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


_HIDDEN = frozenset({"producer.id.expiration.check.interval.ms"})
"""Settings of brokers that Kafka keeps to itself."""


# ---- what a setting may be


def check_topic_config(config: Mapping[str, str | None]) -> None:
    """Raises `Refusal` for a setting that no topic has, or that has no such value."""
    _check(TOPIC_SETTINGS, config, "a topic")
    least, most = (
        int(config.get(name) or TOPIC_SETTINGS[name].default)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if least > most:
        raise Refusal(ErrorCode.INVALID_CONFIG, "min.compaction.lag.ms is above max.compaction.lag.ms")


def _check(known: Mapping[str, Setting], config: Mapping[str, str | None], whose: str) -> None:
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
    return [_shown(cluster, one, config, _FROM_TOPIC) for one in TOPIC_SETTINGS.values()]


def _shown(
    cluster: "ClusterCore", setting: Setting, own: Mapping[str, str], own_source: int
) -> DescribeConfigsResourceResult:
    properties = cluster.settings.properties
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
    """Tell the settings of each resource."""
    return DescribeConfigsResponse(
        results=tuple(_described(broker, one, request.include_synonyms) for one in request.resources)
    )


def _described(broker: "Broker", asked: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
    name, cluster = asked.resource_name, broker.cluster
    try:
        if asked.resource_type == _TOPIC:
            settings = shown(cluster, _topic_config(cluster, name))
        elif asked.resource_type == _BROKER:
            settings = _of_broker(cluster) if _is_this_broker(broker, name) else _of_all_brokers(cluster)
        elif asked.resource_type == _GROUP:
            if not name:
                raise Refusal(ErrorCode.INVALID_REQUEST, "a group has a name")
            own = cluster.group_settings.get(name, {})
            settings = [_shown(cluster, one, own, _FROM_GROUP) for one in GROUP_SETTINGS.values()]
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


def _topic_config(cluster: "ClusterCore", name: str) -> dict[str, str]:
    if not is_valid_name(name):
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"a topic cannot be named {name!r}")
    if name not in cluster.topics:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return cluster.topics[name].config


def _is_this_broker(broker: "Broker", name: str) -> bool:
    """Whether a broker's own settings are meant, by its id; an empty name means those that all brokers were given while running: none here. Raises `Refusal`."""
    if not name:
        return False
    if name != str(broker.id):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"broker {broker.id} is asked for the settings of {name!r}")
    return True


# ---- changing them


@answers(AlterConfigsRequest)
def alter_configs(broker: "Broker", request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    """Replace all settings of each resource."""

    def change(one: Any, own: Mapping[str, str], known: Mapping[str, Setting]) -> dict[str, str | None]:
        return {each.name: each.value for each in one.configs}

    found = _altered(broker, request.resources, change, request.validate_only)
    return AlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one, error, message in found
        )
    )


@answers(IncrementalAlterConfigsRequest)
def incremental_alter_configs(
    broker: "Broker", request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Set some settings of each resource, take them back, add to lists, or take from them."""
    found = _altered(broker, request.resources, _changed, request.validate_only)
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            IncrementalResponse(
                error_code=error,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one, error, message in found
        )
    )


def _changed(one: Any, own: Mapping[str, str], known: Mapping[str, Setting]) -> dict[str, str | None]:
    """What an incremental change makes of a resource's own settings. Raises `Refusal`."""
    result: dict[str, str | None] = dict(own)
    for each in one.configs:
        setting = known.get(each.name)
        match each.config_operation:
            case 0:
                result[each.name] = each.value
            case 1:
                result.pop(each.name, None)
            case 2 | 3 as operation:
                assert setting is not None
                parts = elements(own.get(each.name, setting.default))
                named = elements(each.value or "")
                if operation == _APPEND:
                    parts += [part for part in named if part not in parts]
                else:
                    parts = [part for part in parts if part not in named]
                result[each.name] = ",".join(parts)
    return result


Change = Callable[[Any, Mapping[str, str], Mapping[str, Setting]], dict[str, str | None]]


def _altered(
    broker: "Broker", resources: Sequence[Any], change: Change, only_check: bool
) -> list[tuple[Any, ErrorCode, str | None]]:
    """Each resource, and what became of it."""
    # An operation that there is not has Kafka's controller fail with everything that the broker passes on.
    nonsense = any(
        getattr(each, "config_operation", _SET) not in range(4)
        for one in resources
        if one.resource_type != _BROKER and _is_sound(one)
        for each in one.configs
    )
    named = Counter((one.resource_type, one.resource_name) for one in resources)
    out: dict[tuple[int, str], tuple[Any, ErrorCode, str | None]] = {}
    for one in resources:
        error, message = ErrorCode.NONE, None
        try:
            if named[one.resource_type, one.resource_name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "a resource is in the request twice")
            if one.resource_type == _BROKER and one.resource_name:
                _is_this_broker(broker, one.resource_name)
            _check_request(one)
            if nonsense and one.resource_type != _BROKER:
                raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "there is no such operation")
            _check_lists(one)
            _alter(broker.cluster, one, change, only_check)
        except Refusal as refusal:
            error, message = refusal.code, refusal.message
        out[one.resource_type, one.resource_name] = (one, error, message)
    if not only_check:
        broker.cluster.settings_changed()
    return list(out.values())


def _is_sound(one: Any) -> bool:
    try:
        _check_request(one)
    except Refusal:
        return False
    return True


def _check_request(one: Any) -> None:
    names = [each.name for each in one.configs]
    if len(set(names)) != len(names):
        raise Refusal(ErrorCode.INVALID_REQUEST, "a setting is in the request twice")
    if nulls := [
        each.name for each in one.configs if each.value is None and getattr(each, "config_operation", _SET) != _DELETE
    ]:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{', '.join(nulls)} cannot be null")


def _check_lists(one: Any) -> None:
    """Raises `Refusal` where something is to be added to what is no list, or taken from it."""
    known = {_TOPIC: TOPIC_SETTINGS, _GROUP: GROUP_SETTINGS}.get(one.resource_type, {})
    for each in one.configs:
        if getattr(each, "config_operation", _SET) in (_APPEND, _SUBTRACT):
            setting = known.get(each.name)
            if setting is None or setting.kind is not Kind.LIST:
                raise Refusal(ErrorCode.INVALID_CONFIG, f"{each.name} is no list")


def _alter(cluster: "ClusterCore", one: Any, change: Change, only_check: bool) -> None:
    kind, name = one.resource_type, one.resource_name
    if kind == _TOPIC:
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "there are no settings for all topics")
        if not is_valid_name(name):
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"a topic cannot be named {name!r}")
        topic = cluster.topics.get(name)
        result = change(one, {} if topic is None else topic.config, TOPIC_SETTINGS)
        check_topic_config(result)
        _topic_config(cluster, name)
        if not only_check:
            cluster.topics[name].config = {each: value for each, value in result.items() if value is not None}
    elif kind == _GROUP:
        if not name:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a group has a name")
        settings = change(one, cluster.group_settings.get(name, {}), GROUP_SETTINGS)
        config = _group_config(cluster.settings.coordinator, settings)
        if not only_check:
            cluster.group_settings[name] = {each: value for each, value in settings.items() if value is not None}
            cluster.group_configs[name] = config
    elif kind == _BROKER:
        if not one.configs:
            return
        raise Refusal(ErrorCode.INVALID_REQUEST, "settings of brokers are given when the cluster is made")
    else:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here")


def _group_config(brokers: CoordinatorConfig, settings: Mapping[str, str | None]) -> GroupConfig:
    """What coordinators follow of a group's settings. Raises `Refusal` also for what the brokers' settings do not allow."""
    _check(GROUP_SETTINGS, settings, "a group")
    followed = {name.replace("_", ".") for name in GroupConfig.__dataclass_fields__}
    try:
        config = GroupConfig().with_properties({name: settings[name] for name in followed if name in settings})
    except ConfigError as error:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(error)) from None
    bounds = (
        (
            "consumer.session.timeout.ms",
            brokers.group_consumer_min_session_timeout_ms,
            brokers.group_consumer_max_session_timeout_ms,
        ),
        (
            "consumer.heartbeat.interval.ms",
            brokers.group_consumer_min_heartbeat_interval_ms,
            brokers.group_consumer_max_heartbeat_interval_ms,
        ),
        *((f"{kind}.session.timeout.ms", 45_000, 60_000) for kind in ("share", "streams")),
        *((f"{kind}.heartbeat.interval.ms", 5_000, 15_000) for kind in ("share", "streams")),
    )
    for name, least, most in bounds:
        if (value := settings.get(name)) is not None and not least <= int(value) <= most:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} cannot be {value}: from {least} to {most}")
    return config

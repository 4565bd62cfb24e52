"""DescribeConfigs v1–4, AlterConfigs v0–2, IncrementalAlterConfigs v0–1: settings of topics, brokers and groups (KIP-133, KIP-226, KIP-339, KIP-848)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, answers
from quorate.cluster.errors import Refusal
from quorate.cluster.settings import BROKER_DEFAULTS, TOPIC_DEFAULTS
from quorate.cluster.topics import TopicState
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
)
from quorate.codecs.api.broker.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResponse,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.config import ConfigError, GroupConfig

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.core import ClusterCore

__all__ = ["check_topic_config", "shown"]

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_FROM_TOPIC, _FROM_BROKER, _DEFAULT = 1, 4, 5
_SET, _DELETE = 0, 1
_KEPT = frozenset(
    {
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "index.interval.bytes",
        "max.compaction.lag.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "preallocate",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
    }
)
"""Settings of topics that Kafka has, and that are kept and shown here without meaning anything."""


def check_topic_config(config: Mapping[str, str | None]) -> None:
    """Raises `Refusal` for a setting that no topic has, or that has no such value."""
    for name, value in config.items():
        if name not in TOPIC_DEFAULTS and name not in _KEPT:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} is no setting of a topic")
        if value is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} has no value")
        if name in TOPIC_DEFAULTS and TOPIC_DEFAULTS[name][1].lstrip("-").isdigit():
            try:
                int(value)
            except ValueError:
                raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} cannot be {value!r}: it is a number") from None


def shown(cluster: "ClusterCore", topic: TopicState) -> list[DescribeConfigsResourceResult]:
    """A topic's settings, and where each comes from."""
    out = []
    for name in sorted({*TOPIC_DEFAULTS, *topic.config}):
        own = name in topic.config
        source = _FROM_TOPIC
        if not own:
            source = _FROM_BROKER if TOPIC_DEFAULTS[name][0] in cluster.settings.properties else _DEFAULT
        value = topic.config[name] if own else cluster.settings.of_topic(name, topic.config)
        out.append(DescribeConfigsResourceResult(name=name, value=value, config_source=source, documentation=None))
    return out


@answers(DescribeConfigsRequest, lacks="synonyms and documentation of settings; loggers and client metrics")
def describe_configs(broker: "Broker", request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    """Tell the settings of each resource."""
    return DescribeConfigsResponse(results=tuple(_described(broker.cluster, one) for one in request.resources))


def _described(cluster: "ClusterCore", asked: DescribeConfigsResource) -> DescribeConfigsResult:
    name = asked.resource_name
    try:
        if asked.resource_type == _TOPIC:
            if name not in cluster.topics:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            settings = shown(cluster, cluster.topics[name])
        elif asked.resource_type == _BROKER:
            if name and (not name.isdigit() or int(name) not in cluster.brokers):
                raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no broker {name!r}")
            properties = cluster.settings.properties
            settings = [
                DescribeConfigsResourceResult(
                    name=each,
                    value=cluster.settings.get(each),
                    read_only=True,
                    config_source=_FROM_BROKER if each in properties else _DEFAULT,
                    documentation=None,
                )
                for each in sorted({*BROKER_DEFAULTS, *properties})
            ]
        elif asked.resource_type == _GROUP:
            settings = _group_settings(cluster, name)
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
        configs=tuple(one for one in settings if keys is None or one.name in keys),
    )


def _group_settings(cluster: "ClusterCore", group: str) -> list[DescribeConfigsResourceResult]:
    found = cluster.group_configs.get(group, GroupConfig())
    out = []
    for field in GroupConfig.__dataclass_fields__:
        own = getattr(found, field)
        brokers = getattr(cluster.settings.coordinator, f"group_{field}", None)
        out.append(
            DescribeConfigsResourceResult(
                name=field.replace("_", "."),
                value=str(brokers if own is None else own),
                config_source=_DEFAULT if own is None else 8,
                documentation=None,
            )
        )
    return out


@answers(AlterConfigsRequest)
def alter_configs(broker: "Broker", request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    """Replace all settings of each resource."""
    responses = []
    for one in request.resources:
        config = {each.name: each.value for each in one.configs}
        error, message = _apply(
            broker.cluster, one.resource_type, one.resource_name, config, True, request.validate_only
        )
        responses.append(
            AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
        )
    return AlterConfigsResponse(responses=tuple(responses))


@answers(IncrementalAlterConfigsRequest, lacks="appending to settings that are lists, and taking from them")
def incremental_alter_configs(
    broker: "Broker", request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Set some settings of each resource, or take them back."""
    responses = []
    error: ErrorCode
    message: str | None
    for one in request.resources:
        if any(each.config_operation not in (_SET, _DELETE) for each in one.configs):
            error, message = ErrorCode.INVALID_REQUEST, "only SET and DELETE are known here"
        else:
            config = {each.name: each.value if each.config_operation == _SET else None for each in one.configs}
            error, message = _apply(
                broker.cluster, one.resource_type, one.resource_name, config, False, request.validate_only
            )
        responses.append(
            IncrementalResponse(
                error_code=error,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=tuple(responses))


def _apply(
    cluster: "ClusterCore", kind: int, name: str, config: Mapping[str, str | None], replace: bool, only_check: bool
) -> tuple[ErrorCode, str | None]:
    try:
        if kind == _TOPIC:
            if name not in cluster.topics:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            check_topic_config({each: given for each, given in config.items() if given is not None or replace})
            topic = cluster.topics[name]
            merged: dict[str, str | None] = dict(config) if replace else {**topic.config, **config}
            if not only_check:
                topic.config = {each: value for each, value in merged.items() if value is not None}
        elif kind == _GROUP:
            found = GroupConfig() if replace else cluster.group_configs.get(name, GroupConfig())
            changed = found.with_properties(config)
            if not only_check:
                cluster.group_configs[name] = changed
        elif kind == _BROKER:
            raise Refusal(ErrorCode.INVALID_REQUEST, "settings of brokers are given when the cluster is made")
        else:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here")
    except Refusal as refusal:
        return refusal.code, refusal.message
    except ConfigError as error:
        return ErrorCode.INVALID_CONFIG, str(error)
    return ErrorCode.NONE, None

"""AlterConfigs v0–2, IncrementalAlterConfigs v0–1 (KIP-133, KIP-339).

They change configs of topics, groups (KIP-848), client metrics (KIP-714), and dynamic configs of
brokers (KIP-226). `quorate.codecs.configs` has the table of configs, and `config_validation` checks
their values.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from quorate.assignors.java_order import JavaHashMap
from quorate.cluster.apis import Context, changes_metadata
from quorate.cluster.apis.configs import broker_config, is_this_broker
from quorate.cluster.authorizer import CLUSTER_NAME, Operation, ResourceType
from quorate.cluster.broker_configs import ALL
from quorate.cluster.config_validation import (
    check_broker_configs,
    check_client_metrics,
    check_group_configs,
    check_topic_configs,
)
from quorate.cluster.controller.records import config_records
from quorate.cluster.topics import is_valid_name, name_problem
from quorate.cluster.turns import Work
from quorate.codecs.api.broker import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorate.codecs.api.broker.alter_configs import AlterConfigsResourceResponse
from quorate.codecs.api.broker.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResponse,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.configs import ConfigKey, ConfigResourceType, ConfigType
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.access import Access
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

__all__: list[str] = []

R = TypeVar("R", bound=Message)

TOPIC, BROKER, GROUP = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP
CLIENT_METRICS = ConfigResourceType.CLIENT_METRICS
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


@changes_metadata
def alter_configs(broker: "Broker", request: AlterConfigsRequest, context: Context) -> Work[AlterConfigsResponse]:
    """Replace all configs of each resource."""

    def change(one: Any, own: Mapping[str, str], known: Mapping[str, ConfigKey]) -> dict[str, str | None]:
        return {config.name: config.value for config in one.configs}

    found = yield from _altered(broker, context.access, request.resources, change, request.validate_only)
    return AlterConfigsResponse(responses=_responses(AlterConfigsResourceResponse, found))


@changes_metadata
def incremental_alter_configs(
    broker: "Broker", request: IncrementalAlterConfigsRequest, context: Context
) -> Work[IncrementalAlterConfigsResponse]:
    """Set or delete configs of each resource, append to lists, or subtract from lists."""
    found = yield from _altered(broker, context.access, request.resources, _changed, request.validate_only)
    return IncrementalAlterConfigsResponse(responses=_responses(IncrementalResponse, found))


def _responses(kind: Callable[..., R], found: Iterable[tuple[Any, ErrorCode, str | None]]) -> tuple[R, ...]:
    return tuple(
        kind(error_code=error, error_message=message, resource_type=one.resource_type, resource_name=one.resource_name)
        for one, error, message in found
    )


def _changed(one: Any, own: Mapping[str, str], known: Mapping[str, ConfigKey]) -> dict[str, str | None]:
    """Return a resource's own configs after an incremental change."""
    result: dict[str, str | None] = dict(own)
    for config in one.configs:
        match config.config_operation:
            case 0:
                result[config.name] = config.value
            case 1:
                result.pop(config.name, None)
            case 2 | 3 as operation:
                parts = [part for part in _parts(own.get(config.name, known[config.name].default or "")) if part]
                for part in _parts(config.value or ""):
                    if operation == _APPEND and part not in parts:
                        parts.append(part)
                    elif operation == _SUBTRACT and part in parts:
                        parts.remove(part)
                result[config.name] = ",".join(parts)
    return result


def _parts(text: str) -> list[str]:
    """Split like Java's `String.split`: "" has one empty part; trailing empty parts are dropped."""
    parts = text.split(",")
    while text and parts and not parts[-1]:
        parts.pop()
    return parts


Change = Callable[[Any, Mapping[str, str], Mapping[str, ConfigKey]], dict[str, str | None]]


def _altered(
    broker: "Broker", access: "Access | None", resources: Sequence[Any], change: Change, only_check: bool
) -> Work[list[tuple[Any, ErrorCode, str | None]]]:
    """Return each resource with its error and message, in the order of the request.

    A resource that is named twice has an error in each place. For AlterConfigs a broker of 4.3.1
    sends no response at all then: counting the errors fails (AlterConfigsResponse.errors).
    """
    # An unknown operation makes Kafka's controller fail everything that the broker forwards to it.
    unknown_operation = False
    for resource in resources:
        unknown_operation = unknown_operation or (
            resource.resource_type != BROKER
            and not _denied(access, resource)
            and _is_sound(broker.cluster, resource)
            and (failure := _operation_error(broker.cluster, resource)) is not None
            and failure.code is ErrorCode.INVALID_REQUEST
        )
        yield None
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    out: list[tuple[Any, ErrorCode, str | None]] = []
    records: list[Message] = []
    for resource in resources:
        error, message = ErrorCode.NONE, None
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if resource.resource_type == BROKER and resource.resource_name:
                is_this_broker(broker, resource.resource_name)
            _check_request(broker.cluster, resource)
            denied = _denied(access, resource)
            if denied and resource.resource_type != BROKER:
                raise ApiError(denied, denied.text)
            if unknown_operation and resource.resource_type != BROKER:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            if (failure := _operation_error(broker.cluster, resource)) is not None:
                raise failure
            # A broker validates its own configs before the controller checks permissions.
            changes = _alter(broker, resource, change)
            if denied:
                raise ApiError(denied, denied.text)
            records += changes
        except ApiError as refusal:
            error, message = refusal.code, refusal.message
        out.append((resource, error, message))
        yield None
    if not only_check:
        yield from broker.cluster.controller.appending(records)
    return out


def _denied(access: "Access | None", one: Any) -> ErrorCode:
    """Return the error for a client that may not alter the configs of a resource.

    The operation is ALTER_CONFIGS on the topic or group, and on the cluster for other types.
    """
    kind, code, name = {
        TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, one.resource_name),
        GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, one.resource_name),
    }.get(one.resource_type, (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, CLUSTER_NAME))
    return ErrorCode.NONE if access is None or access.may(Operation.ALTER_CONFIGS, kind, name) else code


def _is_sound(cluster: "SharedCluster", one: Any) -> bool:
    try:
        _check_request(cluster, one)
    except ApiError:
        return False
    return True


def _check_request(cluster: "SharedCluster", one: Any) -> None:
    """Raise `ApiError` for duplicate configs, null values and unknown resource types."""
    names = [config.name for config in one.configs]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls := [
        config.name
        for config in one.configs
        if config.value is None and getattr(config, "config_operation", _SET) != _DELETE
    ]:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    if one.resource_type != BROKER and not cluster.broker_configs.keys(one.resource_type):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {one.resource_type}")


def _operation_error(cluster: "SharedCluster", one: Any) -> ApiError | None:
    """Return the first unknown operation, or APPEND to a config that is no list, as an error.

    Configs are checked in the order of Java's HashMap, before anything is changed.
    """
    known = cluster.broker_configs.keys(one.resource_type)
    operations: JavaHashMap[str, int] = JavaHashMap()
    for config in one.configs:
        operations.put(config.name, getattr(config, "config_operation", _SET))
    for name, operation in operations.items():
        if operation not in range(4):
            return ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
        key = known.get(name)
        # Kafka's controller knows the types of configs of brokers and topics only, so that no
        # other config is a list for it.
        is_list = key is not None and key.type is ConfigType.LIST and one.resource_type in (BROKER, TOPIC)
        if operation in (_APPEND, _SUBTRACT) and not is_list:
            verb = "APPEND" if operation == _APPEND else "SUBTRACT"
            problem = f"Can't {verb} to key {name} because its type is not LIST."
            if one.resource_type == BROKER:
                problem = f"Config value {verb.lower()} is not allowed for config key: {name}"
            return ApiError(ErrorCode.INVALID_CONFIG, problem)
    return None


def _alter(broker: "Broker", one: Any, change: Change) -> list[Message]:
    """Return the records that change the configs of a resource. Raises `ApiError`."""
    cluster = broker.cluster
    kind, name = one.resource_type, one.resource_name
    known = cluster.broker_configs.keys(kind)
    if kind == TOPIC:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if not is_valid_name(name):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, name_problem(name))
        topic = cluster.topics.get(name)
        result = change(one, {} if topic is None else topic.config, known)
        check_topic_configs(cluster.broker_configs, result)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif kind == GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        result = change(one, cluster.state.group_configs.get(name, {}), known)
        check_group_configs(cluster.broker_configs, result)
    elif kind == CLIENT_METRICS:
        result = change(one, cluster.state.client_metrics.get(name, {}), known)
        check_client_metrics(cluster.broker_configs, name, result)
    else:
        changed = int(name) if name else ALL
        result = change(one, broker_config(cluster, changed), known)
        requested = {config.name for config in one.configs}
        check_broker_configs(
            cluster.broker_configs, broker.id, changed, result, features=cluster.features, requested=requested
        )
    configs = {each: value for each, value in result.items() if value is not None}
    return list(config_records(kind, name, cluster.state.configs_of(kind, name), configs))

"""Error responses for all APIs, with the error code where the response has one.

This is at the top level, or for each topic, partition, group or resource. Responses are built from
the request by field names. Group coordinators build their own error responses.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quorate.codecs.api.broker import (
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ElectLeadersRequest,
    InitProducerIdRequest,
    ListPartitionReassignmentsRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)
from quorate.codecs.api.broker.alter_user_scram_credentials import AlterUserScramCredentialsResult
from quorate.codecs.api.broker.describe_user_scram_credentials import DescribeUserScramCredentialsResult
from quorate.codecs.api.error_codes import ERROR_FIELDS, ErrorCode
from quorate.codecs.api.lookup import api_of
from quorate.codecs.message import FieldSpec, Message, MessageSpec
from quorate.codecs.wire import ArrayType, StructType
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.results import RequestContext

if TYPE_CHECKING:
    from quorate.cluster.shared import SharedCluster

__all__ = ["failed_response", "with_error"]

_SYNONYMS = (
    frozenset({"name", "topic", "topic_name"}),
    frozenset({"partition_index", "partition", "index", "partition_id"}),
)
"""Names of fields with the same meaning in requests and responses."""
_MINUS_ONE = frozenset({"base_offset", "low_watermark", "high_watermark", "node_id", "port"})
"""Fields that are -1 after an error, although that is not the default."""


_UNRELATED = frozenset(
    {"allow_replication_factor_change", "leader_epoch", "producer_epoch", "producer_id", "timestamp"}
)
"""Fields of the same name that have different meanings in a request and its response."""
_ERROR_VALUES: dict[type[Message], dict[str, Any]] = {
    DescribeClientQuotasRequest: {"entries": None},
    InitProducerIdRequest: {"producer_id": -1, "producer_epoch": -1},
}
"""Request type → values of response fields after an error."""
_WITH_PARTS: frozenset[type[Message]] = frozenset(
    {
        AlterClientQuotasRequest,
        AlterPartitionReassignmentsRequest,
        ElectLeadersRequest,
        ListPartitionReassignmentsRequest,
    }
)
"""Requests whose elements are in the response although it has a top-level error."""


def failed_response(cluster: "SharedCluster", request: Message, version: int, code: ErrorCode) -> Message:
    """Return a response to `request`, in a version, with an error and nothing else.

    If the request names nothing, the response is empty.
    """
    if type(request) in GroupCoordinatorShard.handlers:
        context = RequestContext(api_version=version, now_ms=cluster.clock.now_ms())
        return cluster.groups.failed(request, context, code)
    match request:
        case AlterReplicaLogDirsRequest():
            return _of_directories(request, code)
        case AlterUserScramCredentialsRequest():
            return _of_users(request, code)
        case DescribeUserScramCredentialsRequest():  # Kafka leaves out the users' names
            one = DescribeUserScramCredentialsResult(error_code=code)
            return DescribeUserScramCredentialsResponse(error_code=code, results=(one,) * len(request.users or ()))
        case ProduceRequest():
            with_partitions = tuple(one for one in request.topic_data if one.partition_data)
            request = replace(request, topic_data=with_partitions)
    found = _mirrored(request, api_of(type(request)).response, version, code, type(request) in _WITH_PARTS)
    other = _ERROR_VALUES.get(type(request))
    return found if other is None else replace(found, **other)


def _of_directories(request: AlterReplicaLogDirsRequest, code: ErrorCode) -> Message:
    """Return a result for each topic of each directory, also for topics without partitions."""
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=tuple(
                    AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=code)
                    for partition in topic.partitions
                ),
            )
            for directory in request.dirs
            for topic in directory.topics
        )
    )


def _of_users(request: AlterUserScramCredentialsRequest, code: ErrorCode) -> Message:
    """Return one result for each user."""
    users = dict.fromkeys(
        [deletion.name for deletion in request.deletions] + [upsertion.name for upsertion in request.upsertions]
    )
    results = (AlterUserScramCredentialsResult(user=user, error_code=code, error_message=None) for user in users)
    return AlterUserScramCredentialsResponse(results=tuple(results))


def with_error(response: Any, version: int, code: ErrorCode) -> Any:
    """Return a response with an error in it: at the top level, else in each innermost element."""
    spec: MessageSpec = response.spec
    carried = [field for field in spec.fields if version in field.versions]
    values: dict[str, Any] = {field.name: getattr(response, field.name) for field in spec.fields}
    own = [one.name for one in carried if one.name in ERROR_FIELDS]
    for name in own:
        values[name] = int(code)
    if not own:
        for one in carried:
            if _struct_in(one) is not None and values[one.name]:
                values[one.name] = tuple(with_error(part, version, code) for part in values[one.name])
    return spec.cls(**values)


def _mirrored(request: Any, spec: MessageSpec, version: int, code: ErrorCode, with_parts: bool) -> Message:
    values: dict[str, Any] = {}
    carried = [field for field in spec.fields if version in field.versions]
    on_top = any(one.name in ERROR_FIELDS for one in carried)
    for one in carried:
        element = _struct_in(one)
        if one.name in ERROR_FIELDS:
            values[one.name] = int(code)
        elif element is not None:
            if (with_parts or not on_top) and (parts := _elements_for(request, element, version)) is not None:
                values[one.name] = tuple(_mirrored(part, element, version, code, with_parts) for part in parts)
        elif one.nullable and version >= one.nullable_since and getattr(request, one.name, "") is None:
            values[one.name] = None
        elif one.name not in _UNRELATED and (found := _value_of(request, one.name)) is not None:
            values[one.name] = found
        elif one.name in _MINUS_ONE:
            values[one.name] = -1
    return spec.cls(**values)


def _struct_in(spec: FieldSpec) -> MessageSpec | None:
    inner = spec.type.element if isinstance(spec.type, ArrayType) else None
    return inner.spec if isinstance(inner, StructType) else None


def _value_of(request: Any, name: str) -> Any:
    """Return an element's value for the field that the response calls `name`."""
    if isinstance(request, dict):
        return request.get(name)
    for same in (name, *next((names for names in _SYNONYMS if name in names), ())):
        value = getattr(request, same, None)
        if value is not None and not isinstance(value, tuple | Message):
            return value
    return None


def _elements_for(request: Any, element: MessageSpec, version: int) -> list[Any] | None:
    """Return the request's elements that share most field names with the response's elements."""
    if isinstance(request, dict):
        return None
    wanted = {field.name for field in element.fields if field.name not in ERROR_FIELDS and version in field.versions}
    names = {same for name in wanted for group in _SYNONYMS if name in group for same in group} | wanted
    best: tuple[int, list[Any]] | None = None
    for field in request.spec.fields:
        value = getattr(request, field.name)
        if version not in field.versions or not isinstance(field.type, ArrayType) or value is None:
            continue
        inner = _struct_in(field)
        if inner is None:  # an array of numbers or names: the first field of the response's elements
            key = next(name for name in (f.name for f in element.fields) if name in wanted)
            score, parts = 1, [{key: each} for each in value]
        else:
            score, parts = len(names & {f.name for f in inner.fields}), list(value)
        if score and (best is None or score > best[0]):
            best = (score, parts)
    return None if best is None else best[1]

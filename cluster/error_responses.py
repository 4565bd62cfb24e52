"""Error responses for all APIs, with the error code where the response has one.

This is at the top level, or for each topic, partition, group or resource
(`quorate.codecs.api.error_responses`). Here is where Kafka's responses differ from that. Group
coordinators build their own error responses.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quorate.cluster.authorizer import Operation
from quorate.cluster.behaviour import BrokerBehaviour
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
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorate.codecs.api.broker.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)
from quorate.codecs.api.broker.alter_user_scram_credentials import AlterUserScramCredentialsResult
from quorate.codecs.api.broker.describe_user_scram_credentials import DescribeUserScramCredentialsResult
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.error_responses import error_response
from quorate.codecs.message import Message
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.results import RequestContext

if TYPE_CHECKING:
    from quorate.cluster.shared import SharedCluster

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


def missing_permission(cluster: "SharedCluster", operation: Operation) -> str:
    """Return the controller's message for a client without a permission on the cluster.

    Kafka's begins with the request as Java prints it, with its address in memory.
    """
    lacks = f"needs {operation.name} permission" if _behaviour(cluster).names_permissions else "is not authorized"
    return f"The request {lacks}."


def _behaviour(cluster: "SharedCluster") -> BrokerBehaviour:
    return cluster.broker_configs.behaviour


def failed_response(
    cluster: "SharedCluster", request: Message, version: int, code: ErrorCode, message: str = ""
) -> Message:
    """Return a response to `request`, in a version, with an error and nothing else.

    If the request names nothing, the response is empty. `message`: the error message, if the
    response has one, instead of the usual one.
    """
    if type(request) in GroupCoordinatorShard.handlers:
        context = RequestContext(api_version=version, now_ms=cluster.clock.now_ms())
        return cluster.groups.failed(request, context, code)
    match request:
        case AlterReplicaLogDirsRequest():
            return _of_directories(request, code)
        case AlterUserScramCredentialsRequest():
            return _of_users(request, code, message)
        case DescribeUserScramCredentialsRequest():  # Kafka leaves out the users' names
            one = DescribeUserScramCredentialsResult(error_code=code, error_message=None)
            return DescribeUserScramCredentialsResponse(
                error_code=code, error_message=None, results=(one,) * len(request.users or ())
            )
        case UnregisterBrokerRequest() if not _behaviour(cluster).names_permissions:  # no messages until 4.0
            return UnregisterBrokerResponse(error_code=code)
        case ProduceRequest():
            with_partitions = tuple(one for one in request.topic_data if one.partition_data)
            request = replace(request, topic_data=with_partitions)
    with_parts = type(request) in _WITH_PARTS
    found: Message = error_response(request, version, code, message=message, with_parts=with_parts)
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


def _of_users(request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str) -> Message:
    """Return one result for each user."""
    users = dict.fromkeys(
        [deletion.name for deletion in request.deletions] + [upsertion.name for upsertion in request.upsertions]
    )
    results = (
        AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message or None) for user in users
    )
    return AlterUserScramCredentialsResponse(results=tuple(results))

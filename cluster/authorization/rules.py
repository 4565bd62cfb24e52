"""The rules that many APIs share: a permission for the cluster or a group.

The source of all of them are KafkaApis, ControllerApis and AclApis of 4.3.
"""

from collections.abc import Callable

from quorate.cluster.authorization.call import Answered, Call
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.codecs.api.error_codes import ErrorCode

__all__ = ["Rule", "by_handler", "free", "of_cluster", "of_group"]

Rule = Callable[[Call], Answered]


def free(call: Call) -> Answered:
    """Everybody may."""
    return call.answer()


def by_handler(call: Call) -> Answered:
    """The API's handler asks `Context.access`, in the place where Kafka does."""
    return call.answer()


def of_cluster(operation: Operation) -> Rule:
    """The permission to do something with the cluster, for the whole request."""

    def rule(call: Call) -> Answered:
        if call.access.may_with_cluster(operation):
            return call.answer()
        return call.failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return rule


def of_group(operation: Operation) -> Rule:
    """The permission to do something with the group, for the whole request."""

    def rule(call: Call) -> Answered:
        if call.access.may(operation, ResourceType.GROUP, call.request.group_id):
            return call.answer()
        return call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    return rule

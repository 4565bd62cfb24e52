"""Authorization rules of many APIs: a permission on the cluster or on a group.

Source of all rules: KafkaApis, ControllerApis and AclApis of Kafka 4.3.
"""

from collections.abc import Callable

from quorate.cluster.authorization.call import Call, HandlerResult
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.cluster.error_responses import missing_permission
from quorate.codecs.api.error_codes import ErrorCode

Rule = Callable[[Call], HandlerResult]


def no_permission(call: Call) -> HandlerResult:
    """Require no permission."""
    return call.handle()


def checked_by_handler(call: Call) -> HandlerResult:
    """Call the API's handler, which checks permissions itself with `Context.access`."""
    return call.handle()


def cluster_permission(operation: Operation, *, by_controller: bool = False) -> Rule:
    """Return a rule that requires a permission on the cluster.

    `by_controller`: the error has the controller's message.
    """

    def rule(call: Call) -> HandlerResult:
        if call.access.may_with_cluster(operation):
            return call.handle()
        message = missing_permission(call.broker.cluster, operation) if by_controller else ""
        return call.failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message)

    return rule


def controller_permission(operation: Operation) -> Rule:
    """Return a rule that requires a permission on the cluster, which the controller checks."""
    return cluster_permission(operation, by_controller=True)


def group_permission(operation: Operation) -> Rule:
    """Return a rule that requires a permission on the request's group."""

    def rule(call: Call) -> HandlerResult:
        if call.access.may(operation, ResourceType.GROUP, call.request.group_id):
            return call.handle()
        return call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    return rule

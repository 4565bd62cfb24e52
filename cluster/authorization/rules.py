"""The rules that many APIs share: a permission for the cluster, a group or topics; and `RULES`, the one table of what each API needs.

The source of all of them are KafkaApis, ControllerApis and AclApis of 4.3.
"""

from collections.abc import Callable

from quorate.cluster.authorization.call import Answered, Call
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message

__all__ = ["RULES", "Rule", "by_handler", "free", "needs", "of_cluster", "of_group"]

Rule = Callable[[Call], Answered]

RULES: dict[type[Message], Rule] = {}
"""Request type → what decides about it. A test holds it against the table of what is served."""


def needs(request: type[Message]) -> Callable[[Rule], Rule]:
    """Enter a rule into `RULES`."""

    def enter(rule: Rule) -> Rule:
        if request in RULES:
            raise TypeError(f"{request.__name__} has two rules")
        RULES[request] = rule
        return rule

    return enter


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

"""DescribeAcls v1–3 (KIP-140, KIP-290): refused with SECURITY_DISABLED, as by brokers that have no authorizer."""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, answers
from quorate.codecs.api.broker import DescribeAclsRequest, DescribeAclsResponse
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_UNKNOWN = 0
"""What stands for something that a client does not know, in each part of a filter."""


@answers(DescribeAclsRequest, lacks="rules: there is no authorizer, and everything is allowed")
def describe_acls(broker: "Broker", request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse | None:
    """Say that there are none to tell; a filter that has something unknown in it ends the connection."""
    said = (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    if _UNKNOWN in said:
        broker.note(
            f"closed a connection of {context.connection.host[1:]}: a filter of rules (ACLs) has something unknown in it"
        )
        context.connection.close()
        return None
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )

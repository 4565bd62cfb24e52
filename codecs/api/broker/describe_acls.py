"""DescribeAcls v1–3.

KIP-140. v1 patterns (KIP-290); v2 flexible; v3 users as resources (KIP-373).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int8, Int16, Int32, String


@request(api_key=29, versions=range(1, 4), flexible_since=2)
class DescribeAclsRequest(Message):
    """A filter for ACLs. `None`: any name, principal or host."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = field(since=1, default=3)
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class AclDescription(Message):
    """A principal, host, operation and permission."""

    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DescribeAclsResource(Message):
    """A resource and its ACLs."""

    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = field(since=1, default=3)
    acls: Array[AclDescription] = ()


@response(DescribeAclsRequest)
class DescribeAclsResponse(Message):
    """The matching ACLs."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: Array[DescribeAclsResource] = ()

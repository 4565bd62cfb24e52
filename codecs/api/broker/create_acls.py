"""CreateAcls v1–3. KIP-140. v1 patterns (KIP-290); v2 flexible; v3 users as resources (KIP-373)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int8, Int16, Int32, String


@struct
class AclCreation(Message):
    """An ACL to create."""

    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = field(since=1, default=3)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@request(api_key=30, versions=range(1, 4), flexible_since=2)
class CreateAclsRequest(Message):
    """ACLs to create. One that exists already is no error."""

    creations: Array[AclCreation] = ()


@struct
class AclCreationResult(Message):
    """The result for one ACL."""

    error_code: Int16 = 0
    error_message: String | None = ""


@response(CreateAclsRequest)
class CreateAclsResponse(Message):
    """A result for each ACL, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult] = ()

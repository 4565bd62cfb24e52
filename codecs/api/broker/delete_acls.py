"""DeleteAcls v1–3. KIP-140. v1 patterns (KIP-290); v2 flexible; v3 users as resources (KIP-373)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int8, Int16, Int32, String


@struct
class DeleteAclsFilter(Message):
    """A filter for ACLs to delete. `None`: any name, principal or host."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = field(since=1, default=3)
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@request(api_key=31, versions=range(1, 4), flexible_since=2)
class DeleteAclsRequest(Message):
    """Filters; the ACLs that match any of them are deleted."""

    filters: Array[DeleteAclsFilter] = ()


@struct
class DeleteAclsMatchingAcl(Message):
    """An ACL that was deleted, or why it was not."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = field(since=1, default=3)
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@struct
class DeleteAclsFilterResult(Message):
    """The ACLs that one filter matched."""

    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: Array[DeleteAclsMatchingAcl] = ()


@response(DeleteAclsRequest)
class DeleteAclsResponse(Message):
    """A result for each filter, in the order of the request."""

    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult] = ()

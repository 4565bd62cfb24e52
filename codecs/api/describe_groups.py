"""DescribeGroups v0–6, of classic groups.

v3 authorized operations (KIP-430), v4 static members (KIP-345), v5 flexible, v6 error for a group
that does not exist (KIP-1043).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Bytes, Int16, Int32, String


@request(api_key=15, versions=range(0, 7), flexible_since=5)
class DescribeGroupsRequest(Message):
    """The groups to describe."""

    groups: Array[String] = ()
    include_authorized_operations: Bool = field(since=3, default=False)


@struct
class DescribedGroupMember(Message):
    """A member. Metadata and assignment are set in a stable group only."""

    member_id: String = ""
    group_instance_id: String | None = field(since=4, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup(Message):
    """A group, or the error for it.

    `authorized_operations`: one bit per operation, or -2147483648 if not requested.
    """

    error_code: Int16 = 0
    error_message: String | None = field(since=6, default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: Array[DescribedGroupMember] = ()
    authorized_operations: Int32 = field(since=3, default=-2147483648)


@response(DescribeGroupsRequest)
class DescribeGroupsResponse(Message):
    """The groups in the order of the request."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    groups: Array[DescribedGroup] = ()

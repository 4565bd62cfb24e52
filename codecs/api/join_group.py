"""JoinGroup v0–9.

v1 rebalance timeout (KIP-62), v4 two steps to a member id (KIP-394), v5 static members (KIP-345),
v6 flexible, v7 protocol type (KIP-559), v8 reason (KIP-800), v9 a leader may skip the assignment
(KIP-814).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Bytes, Int16, Int32, String


@struct
class JoinGroupRequestProtocol(Message):
    """An assignor that the member offers.

    `metadata`: its subscription, see `quorate.codecs.consumer_protocol`.
    """

    name: String = field(default="", map_key=True)
    metadata: Bytes = b""


@request(api_key=11, versions=range(0, 10), flexible_since=6)
class JoinGroupRequest(Message):
    """A member of the classic protocol joins.

    `rebalance_timeout_ms`: -1 means as long as the session timeout.
    """

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field(since=1, default=-1, ignorable=True)
    member_id: String = ""
    group_instance_id: String | None = field(since=5, default=None)
    protocol_type: String = ""
    protocols: Array[JoinGroupRequestProtocol] = ()
    reason: String | None = field(since=8, default=None, ignorable=True)


@struct
class JoinGroupResponseMember(Message):
    """A member as the leader sees it."""

    member_id: String = ""
    group_instance_id: String | None = field(since=5, default=None, ignorable=True)
    metadata: Bytes = b""


@response(JoinGroupRequest)
class JoinGroupResponse(Message):
    """The new generation; the leader receives the members, to compute the assignment."""

    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field(since=7, default=None, ignorable=True)
    protocol_name: String | None = field(default="", nullable_since=7)
    leader: String = ""
    skip_assignment: Bool = field(since=9, default=False)
    member_id: String = ""
    members: Array[JoinGroupResponseMember] = ()

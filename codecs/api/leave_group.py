"""LeaveGroup v0–5. v3 batches members, also static (KIP-345), v4 flexible, v5 reason (KIP-800)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, String


@struct
class MemberIdentity(Message):
    """A member that leaves."""

    member_id: String = ""
    group_instance_id: String | None = None
    reason: String | None = field(since=5, default=None, ignorable=True)


@request(api_key=13, versions=range(0, 6), flexible_since=4)
class LeaveGroupRequest(Message):
    """The members that leave: `member_id` up to version 2, `members` since version 3."""

    group_id: String = ""
    member_id: String = field(until=2, default="")
    members: Array[MemberIdentity] = field(since=3, default=())


@struct
class MemberResponse(Message):
    """The result for one member."""

    member_id: String = ""
    group_instance_id: String | None = ""  # Kafka's default is not null here
    error_code: Int16 = 0


@response(LeaveGroupRequest)
class LeaveGroupResponse(Message):
    """The result for each member."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16 = 0
    members: Array[MemberResponse] = field(since=3, default=())

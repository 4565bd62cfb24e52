"""SyncGroup v0–5. v3 static members (KIP-345), v4 flexible, v5 protocol type and name (KIP-559)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bytes, Int16, Int32, String


@struct
class SyncGroupRequestAssignment(Message):
    """The assignment of one member by the leader, encoded by `quorate.codecs.consumer_protocol`."""

    member_id: String = ""
    assignment: Bytes = b""


@request(api_key=14, versions=range(0, 6), flexible_since=4)
class SyncGroupRequest(Message):
    """A request for the member's assignment; the leader sends those of all members."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(since=3, default=None)
    protocol_type: String | None = field(since=5, default=None, ignorable=True)
    protocol_name: String | None = field(since=5, default=None, ignorable=True)
    assignments: Array[SyncGroupRequestAssignment] = ()


@response(SyncGroupRequest)
class SyncGroupResponse(Message):
    """The member's assignment."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = field(since=5, default=None, ignorable=True)
    protocol_name: String | None = field(since=5, default=None, ignorable=True)
    assignment: Bytes = b""

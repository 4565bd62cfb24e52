"""Heartbeat v0–4, of the classic protocol. v3 static members (KIP-345), v4 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field
from quorate.codecs.wire import Int16, Int32, String


@request(api_key=12, versions=range(0, 5), flexible_since=4)
class HeartbeatRequest(Message):
    """A member's sign of life."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(since=3, default=None)


@response(HeartbeatRequest)
class HeartbeatResponse(Message):
    """The result: an error says that the member is fenced or must rejoin."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16 = 0

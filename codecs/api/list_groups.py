"""ListGroups v0–5. v3 flexible, v4 states (KIP-518), v5 types (KIP-848)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, String


@request(api_key=16, versions=range(0, 6), flexible_since=3)
class ListGroupsRequest(Message):
    """Filters by state and type; an empty filter matches all groups."""

    states_filter: Array[String] = field(since=4, default=())
    types_filter: Array[String] = field(since=5, default=())


@struct
class ListedGroup(Message):
    """A group."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: String = field(since=4, default="", ignorable=True)
    group_type: String = field(since=5, default="", ignorable=True)


@response(ListGroupsRequest)
class ListGroupsResponse(Message):
    """The groups."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16 = 0
    groups: Array[ListedGroup] = ()

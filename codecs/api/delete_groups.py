"""DeleteGroups v0–3 (KIP-229). v2 flexible, v3 error messages (KIP-1331)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, String


@request(api_key=42, versions=range(0, 4), flexible_since=2)
class DeleteGroupsRequest(Message):
    """The groups to delete."""

    groups_names: Array[String] = ()


@struct
class DeletableGroupResult(Message):
    """The result for one group."""

    group_id: String = field(default="", map_key=True)
    error_code: Int16 = 0
    error_message: String | None = field(since=3, default=None, ignorable=True)


@response(DeleteGroupsRequest)
class DeleteGroupsResponse(Message):
    """The result for each group."""

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult] = ()

"""FindCoordinator v0–6.

v1 transactions (KIP-98), v3 flexible, v4 batches keys (KIP-699), v6 share groups (KIP-932). Up to
version 3 the result is in the message itself.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int8, Int16, Int32, String


@request(api_key=10, versions=range(0, 7), flexible_since=3)
class FindCoordinatorRequest(Message):
    """The keys to find. `key_type`: 0 group, 1 transaction, 2 share group partition."""

    key: String = field(until=3, default="")
    key_type: Int8 = field(since=1, default=0)
    coordinator_keys: Array[String] = field(since=4, default=())


@struct
class Coordinator(Message):
    """The coordinator of one key."""

    key: String = field(since=4, default="")
    node_id: Int32 = field(since=4, default=0)
    host: String = field(since=4, default="")
    port: Int32 = field(since=4, default=0)
    error_code: Int16 = field(since=4, default=0)
    error_message: String | None = field(since=4, default="", ignorable=True)


@response(FindCoordinatorRequest)
class FindCoordinatorResponse(Message):
    """The coordinators."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16 = field(until=3, default=0)
    error_message: String | None = field(since=1, until=3, default="", ignorable=True)
    node_id: Int32 = field(until=3, default=0)
    host: String = field(until=3, default="")
    port: Int32 = field(until=3, default=0)
    coordinators: Array[Coordinator] = field(since=4, default=())

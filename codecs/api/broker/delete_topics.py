"""DeleteTopics v1–6. v4 flexible, v5 messages and throttling (KIP-599), v6 topic ids (KIP-516)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, String, Uuid


@struct
class DeleteTopicState(Message):
    """A topic by name or id, since version 6."""

    name: String | None = field(since=6, default=None)
    topic_id: Uuid = field(since=6, default=Uuid.ZERO)


@request(api_key=20, versions=range(1, 7), flexible_since=4)
class DeleteTopicsRequest(Message):
    """Topics to delete."""

    topics: Array[DeleteTopicState] = field(since=6, default=())
    topic_names: Array[String] = field(until=5, default=(), ignorable=True)
    timeout_ms: Int32 = 0


@struct
class DeletableTopicResult(Message):
    """The result for one topic."""

    name: String | None = field(default="", nullable_since=6, map_key=True)
    topic_id: Uuid = field(since=6, default=Uuid.ZERO, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = field(since=5, default=None, ignorable=True)


@response(DeleteTopicsRequest)
class DeleteTopicsResponse(Message):
    """The result for each topic."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    responses: Array[DeletableTopicResult] = ()

"""DeleteShareGroupOffsets v0 (KIP-932)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Int16, Int32, String, Uuid


@struct
class DeleteShareGroupOffsetsRequestTopic(Message):
    """A topic."""

    topic_name: String = ""


@request(api_key=92, versions=range(0, 1), flexible_since=0)
class DeleteShareGroupOffsetsRequest(Message):
    """The topics whose offsets a group without members loses."""

    group_id: String = ""
    topics: Array[DeleteShareGroupOffsetsRequestTopic] = ()


@struct
class DeleteShareGroupOffsetsResponseTopic(Message):
    """The result for one topic."""

    topic_name: String = ""
    topic_id: Uuid = Uuid.ZERO
    error_code: Int16 = 0
    error_message: String | None = None


@response(DeleteShareGroupOffsetsRequest)
class DeleteShareGroupOffsetsResponse(Message):
    """The result for each topic, or the error of the request."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Array[DeleteShareGroupOffsetsResponseTopic] = ()

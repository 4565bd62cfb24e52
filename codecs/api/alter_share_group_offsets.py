"""AlterShareGroupOffsets v0 (KIP-932)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String, Uuid


@struct
class AlterShareGroupOffsetsRequestPartition(Message):
    """The new start offset of one partition."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0


@struct
class AlterShareGroupOffsetsRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: String = field(default="", map_key=True)
    partitions: Array[AlterShareGroupOffsetsRequestPartition] = ()


@request(api_key=91, versions=range(0, 1), flexible_since=0)
class AlterShareGroupOffsetsRequest(Message):
    """The start offsets to set for a group without members."""

    group_id: String = ""
    topics: Array[AlterShareGroupOffsetsRequestTopic] = ()


@struct
class AlterShareGroupOffsetsResponsePartition(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class AlterShareGroupOffsetsResponseTopic(Message):
    """The results for the partitions of one topic."""

    topic_name: String = field(default="", map_key=True)
    topic_id: Uuid = Uuid.ZERO
    partitions: Array[AlterShareGroupOffsetsResponsePartition] = ()


@response(AlterShareGroupOffsetsRequest)
class AlterShareGroupOffsetsResponse(Message):
    """The result for each partition, or the error of the request."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Array[AlterShareGroupOffsetsResponseTopic] = ()

"""OffsetDelete v0 (KIP-496)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, String


@struct
class OffsetDeleteRequestPartition(Message):
    """A partition whose offset to delete."""

    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic(Message):
    """Partitions of one topic."""

    name: String = field(default="", map_key=True)
    partitions: Array[OffsetDeleteRequestPartition] = ()


@request(api_key=47, versions=range(0, 1))
class OffsetDeleteRequest(Message):
    """The offsets of a group to delete."""

    group_id: String = ""
    topics: Array[OffsetDeleteRequestTopic] = ()


@struct
class OffsetDeleteResponsePartition(Message):
    """The result for one offset."""

    partition_index: Int32 = field(default=0, map_key=True)
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic(Message):
    """The results for the offsets of one topic."""

    name: String = field(default="", map_key=True)
    partitions: Array[OffsetDeleteResponsePartition] = ()


@response(OffsetDeleteRequest)
class OffsetDeleteResponse(Message):
    """The result for each offset."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    topics: Array[OffsetDeleteResponseTopic] = ()

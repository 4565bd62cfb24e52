"""DeleteRecords v0–2. KIP-107. v2 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String


@struct
class DeleteRecordsPartition(Message):
    """Up to where a partition's records may go; -1: all."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic(Message):
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[DeleteRecordsPartition] = ()


@request(api_key=21, versions=range(0, 3), flexible_since=2)
class DeleteRecordsRequest(Message):
    """Partitions whose oldest records may go."""

    topics: Array[DeleteRecordsTopic] = ()
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult(Message):
    """What became of one partition."""

    partition_index: Int32 = field(default=0, map_key=True)
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult(Message):
    """What became of one topic's partitions."""

    name: String = field(default="", map_key=True)
    partitions: Array[DeleteRecordsPartitionResult] = ()


@response(DeleteRecordsRequest)
class DeleteRecordsResponse(Message):
    """What became of each partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult] = ()

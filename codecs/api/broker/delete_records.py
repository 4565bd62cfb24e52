"""DeleteRecords v0–2. KIP-107. v2 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String


@struct
class DeleteRecordsPartition(Message):
    """The offset before which to delete the records of a partition; -1: all."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@struct
class DeleteRecordsTopic(Message):
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[DeleteRecordsPartition] = ()


@request(api_key=21, versions=range(0, 3), flexible_since=2)
class DeleteRecordsRequest(Message):
    """The partitions whose oldest records to delete."""

    topics: Array[DeleteRecordsTopic] = ()
    timeout_ms: Int32 = 0


@struct
class DeleteRecordsPartitionResult(Message):
    """The result for one partition."""

    partition_index: Int32 = field(default=0, map_key=True)
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult(Message):
    """The results for the partitions of one topic."""

    name: String = field(default="", map_key=True)
    partitions: Array[DeleteRecordsPartitionResult] = ()


@response(DeleteRecordsRequest)
class DeleteRecordsResponse(Message):
    """The result for each partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult] = ()

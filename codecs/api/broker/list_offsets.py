"""ListOffsets v1–11.

v2 isolation levels (KIP-98), v4 leader epochs (KIP-320), v6 flexible, v7 the record of the greatest
timestamp (KIP-734), v8 and v9 tiered storage (KIP-405, KIP-1005), v10 a timeout, v11 the earliest
offset not yet tiered.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int8, Int16, Int32, Int64, String


@struct
class ListOffsetsPartition(Message):
    """A partition, and the timestamp of the requested offset."""

    partition_index: Int32 = 0
    current_leader_epoch: Int32 = field(since=4, default=-1, ignorable=True)
    timestamp: Int64 = 0


@struct
class ListOffsetsTopic(Message):
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[ListOffsetsPartition] = ()


@request(api_key=2, versions=range(1, 12), flexible_since=6)
class ListOffsetsRequest(Message):
    """Offsets by timestamp in ms; -1 is the latest, -2 the earliest, -3 the maximum timestamp."""

    replica_id: Int32 = 0
    isolation_level: Int8 = field(since=2, default=0)
    topics: Array[ListOffsetsTopic] = ()
    timeout_ms: Int32 = field(since=10, default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse(Message):
    """An offset; -1: there is none."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = field(since=1, default=-1)
    offset: Int64 = field(since=1, default=-1)
    leader_epoch: Int32 = field(since=4, default=-1)


@struct
class ListOffsetsTopicResponse(Message):
    """Offsets of one topic."""

    name: String = ""
    partitions: Array[ListOffsetsPartitionResponse] = ()


@response(ListOffsetsRequest)
class ListOffsetsResponse(Message):
    """The offsets."""

    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    topics: Array[ListOffsetsTopicResponse] = ()

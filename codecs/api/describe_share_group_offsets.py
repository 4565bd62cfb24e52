"""DescribeShareGroupOffsets v0–1 (KIP-932). v1 has the lag (KIP-1226)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String, Uuid


@struct
class DescribeShareGroupOffsetsRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: String = ""
    partitions: Array[Int32] = ()


@struct
class DescribeShareGroupOffsetsRequestGroup(Message):
    """A group; null: all topics that it has offsets for."""

    group_id: String = ""
    topics: Array[DescribeShareGroupOffsetsRequestTopic] | None = ()


@request(api_key=90, versions=range(0, 2), flexible_since=0)
class DescribeShareGroupOffsetsRequest(Message):
    """The groups whose start offsets to describe."""

    groups: Array[DescribeShareGroupOffsetsRequestGroup] = ()


@struct
class DescribeShareGroupOffsetsResponsePartition(Message):
    """The offsets of one partition."""

    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = field(default=-1, since=1, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic(Message):
    """Partitions of one topic."""

    topic_name: String = ""
    topic_id: Uuid = Uuid.ZERO
    partitions: Array[DescribeShareGroupOffsetsResponsePartition] = ()


@struct
class DescribeShareGroupOffsetsResponseGroup(Message):
    """The offsets of one group."""

    group_id: String = ""
    topics: Array[DescribeShareGroupOffsetsResponseTopic] = ()
    error_code: Int16 = 0
    error_message: String | None = None


@response(DescribeShareGroupOffsetsRequest)
class DescribeShareGroupOffsetsResponse(Message):
    """The offsets of each group."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribeShareGroupOffsetsResponseGroup] = ()

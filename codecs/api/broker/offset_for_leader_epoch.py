"""OffsetForLeaderEpoch v2–4.

KIP-101, asked by consumers since KIP-320. v3 who asks, v4 flexible.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String


@struct
class OffsetForLeaderPartition(Message):
    """Which epoch of a partition is asked about."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = field(since=2, default=-1, ignorable=True)
    leader_epoch: Int32 = 0


@struct
class OffsetForLeaderTopic(Message):
    """Partitions of one topic."""

    topic: String = field(default="", map_key=True)
    partitions: Array[OffsetForLeaderPartition] = ()


@request(api_key=23, versions=range(2, 5), flexible_since=4)
class OffsetForLeaderEpochRequest(Message):
    """Where leader epochs ended, to find out whether a log was truncated."""

    replica_id: Int32 = field(since=3, default=-2, ignorable=True)
    topics: Array[OffsetForLeaderTopic] = ()


@struct
class EpochEndOffset(Message):
    """Where a leader epoch ended."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = field(since=1, default=-1, ignorable=True)
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult(Message):
    """Where epochs ended in one topic."""

    topic: String = field(default="", map_key=True)
    partitions: Array[EpochEndOffset] = ()


@response(OffsetForLeaderEpochRequest)
class OffsetForLeaderEpochResponse(Message):
    """Where the epochs ended."""

    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    topics: Array[OffsetForLeaderTopicResult] = ()

"""OffsetForLeaderEpoch v2–4.

KIP-101, also for consumers since KIP-320. v3 replica id, v4 flexible.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String


@struct
class OffsetForLeaderPartition(Message):
    """A leader epoch of a partition."""

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
    """A request for the end offsets of leader epochs, to detect truncation."""

    replica_id: Int32 = field(since=3, default=-2, ignorable=True)
    topics: Array[OffsetForLeaderTopic] = ()


@struct
class EpochEndOffset(Message):
    """The end offset of a leader epoch."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = field(since=1, default=-1, ignorable=True)
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult(Message):
    """The end offsets of leader epochs in one topic."""

    topic: String = field(default="", map_key=True)
    partitions: Array[EpochEndOffset] = ()


@response(OffsetForLeaderEpochRequest)
class OffsetForLeaderEpochResponse(Message):
    """The end offsets of the leader epochs."""

    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    topics: Array[OffsetForLeaderTopicResult] = ()

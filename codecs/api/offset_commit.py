"""OffsetCommit v2–10.

v5 no retention time (KIP-211), v6 leader epoch (KIP-320), v7 static members (KIP-345), v8 flexible,
v9 member epochs, v10 topic ids in place of names (both KIP-848).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String, Uuid


@struct
class OffsetCommitRequestPartition(Message):
    """An offset to commit."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(since=6, default=-1, ignorable=True)
    committed_metadata: String | None = ""


@struct
class OffsetCommitRequestTopic(Message):
    """Offsets of one topic."""

    name: String = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=Uuid.ZERO, ignorable=True)
    partitions: Array[OffsetCommitRequestPartition] = ()


@request(api_key=8, versions=range(2, 11), flexible_since=8)
class OffsetCommitRequest(Message):
    """Offsets to commit.

    Without a group (a "simple" consumer) generation and member id keep their defaults.
    """

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = field(default=-1, ignorable=True)
    member_id: String = field(default="", ignorable=True)
    group_instance_id: String | None = field(since=7, default=None)
    retention_time_ms: Int64 = field(until=4, default=-1, ignorable=True)
    topics: Array[OffsetCommitRequestTopic] = ()


@struct
class OffsetCommitResponsePartition(Message):
    """The result for one offset."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic(Message):
    """The results for the offsets of one topic."""

    name: String = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=Uuid.ZERO, ignorable=True)
    partitions: Array[OffsetCommitResponsePartition] = ()


@response(OffsetCommitRequest)
class OffsetCommitResponse(Message):
    """The result for each offset."""

    throttle_time_ms: Int32 = field(since=3, default=0, ignorable=True)
    topics: Array[OffsetCommitResponseTopic] = ()

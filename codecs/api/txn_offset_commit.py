"""TxnOffsetCommit v0–6 (KIP-98).

v2 leader epoch (KIP-320), v3 member and generation (KIP-447) and flexible, v4 and v5 as v3
(KIP-890: v4 errors that have the client abort; v5 also adds the offsets to the transaction), v6
topic ids in place of names (KIP-1319).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String, Uuid


@struct
class TxnOffsetCommitRequestPartition(Message):
    """An offset to commit with the transaction."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(since=2, default=-1, ignorable=True)
    committed_metadata: String | None = ""


@struct
class TxnOffsetCommitRequestTopic(Message):
    """Offsets of one topic."""

    name: String = field(until=5, default="", ignorable=True)
    topic_id: Uuid = field(since=6, default=Uuid.ZERO, ignorable=True)
    partitions: Array[TxnOffsetCommitRequestPartition] = ()


@request(api_key=28, versions=range(0, 7), flexible_since=3)
class TxnOffsetCommitRequest(Message):
    """Offsets that take effect when the producer's transaction commits."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Int32 = field(since=3, default=-1)
    member_id: String = field(since=3, default="")
    group_instance_id: String | None = field(since=3, default=None)
    topics: Array[TxnOffsetCommitRequestTopic] = ()


@struct
class TxnOffsetCommitResponsePartition(Message):
    """The result for one offset."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic(Message):
    """The results for the offsets of one topic."""

    name: String = field(until=5, default="", ignorable=True)
    topic_id: Uuid = field(since=6, default=Uuid.ZERO, ignorable=True)
    partitions: Array[TxnOffsetCommitResponsePartition] = ()


@response(TxnOffsetCommitRequest)
class TxnOffsetCommitResponse(Message):
    """The result for each offset."""

    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic] = ()

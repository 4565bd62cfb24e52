"""ReadShareGroupStateSummary v0–1 (KIP-932): a group coordinator reads from a share coordinator.

v1 has the count of KIP-1226.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String, Uuid


@struct
class PartitionData(Message):
    """A partition; `leader_epoch` -1: not checked."""

    partition: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class ReadStateSummaryData(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionData] = ()


@request(api_key=87, versions=range(0, 2), flexible_since=0)
class ReadShareGroupStateSummaryRequest(Message):
    """Partitions whose share state to read without batches."""

    group_id: String = ""
    topics: Array[ReadStateSummaryData] = ()


@struct
class PartitionResult(Message):
    """The result for one partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, since=1, ignorable=True)


@struct
class ReadStateSummaryResult(Message):
    """The results for the partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionResult] = ()


@response(ReadShareGroupStateSummaryRequest)
class ReadShareGroupStateSummaryResponse(Message):
    """The offsets and epochs of each partition."""

    results: Array[ReadStateSummaryResult] = ()

"""WriteShareGroupState v0–1 (KIP-932): a leader writes to a share coordinator.

v1 has the count of KIP-1226.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.messages.share_state import StateBatch
from quorate.codecs.wire import Array, Int16, Int32, Int64, String, Uuid


@struct
class PartitionData(Message):
    """Changes of a partition's state; `start_offset` -1: unchanged."""

    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, since=1, ignorable=True)
    state_batches: Array[StateBatch] = ()


@struct
class WriteStateData(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionData] = ()


@request(api_key=85, versions=range(0, 2), flexible_since=0)
class WriteShareGroupStateRequest(Message):
    """Changes of the share state of partitions."""

    group_id: String = ""
    topics: Array[WriteStateData] = ()


@struct
class PartitionResult(Message):
    """The result for one partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class WriteStateResult(Message):
    """The results for the partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionResult] = ()


@response(WriteShareGroupStateRequest)
class WriteShareGroupStateResponse(Message):
    """The result for each partition."""

    results: Array[WriteStateResult] = ()

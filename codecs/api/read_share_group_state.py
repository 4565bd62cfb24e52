"""ReadShareGroupState v0 (KIP-932): from a partition's leader to a share coordinator."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.messages.share_state import StateBatch
from quorate.codecs.wire import Array, Int16, Int32, Int64, String, Uuid


@struct
class PartitionData(Message):
    """A partition, and the leader epoch of its reader."""

    partition: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class ReadStateData(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionData] = ()


@request(api_key=84, versions=range(0, 1), flexible_since=0)
class ReadShareGroupStateRequest(Message):
    """Partitions whose share state to read."""

    group_id: String = ""
    topics: Array[ReadStateData] = ()


@struct
class PartitionResult(Message):
    """The result for one partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: Array[StateBatch] = ()


@struct
class ReadStateResult(Message):
    """The results for the partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionResult] = ()


@response(ReadShareGroupStateRequest)
class ReadShareGroupStateResponse(Message):
    """The state of each partition."""

    results: Array[ReadStateResult] = ()

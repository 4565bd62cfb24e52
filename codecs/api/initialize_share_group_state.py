"""InitializeShareGroupState v0 (KIP-932): from a group coordinator to a share coordinator."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String, Uuid


@struct
class PartitionData(Message):
    """The new state of a partition; `start_offset` -1: decided by the first reader."""

    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


@struct
class InitializeStateData(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionData] = ()


@request(api_key=83, versions=range(0, 1), flexible_since=0)
class InitializeShareGroupStateRequest(Message):
    """Partitions whose share state to create or reset."""

    group_id: String = ""
    topics: Array[InitializeStateData] = ()


@struct
class PartitionResult(Message):
    """The result for one partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class InitializeStateResult(Message):
    """The results for the partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionResult] = ()


@response(InitializeShareGroupStateRequest)
class InitializeShareGroupStateResponse(Message):
    """The result for each partition."""

    results: Array[InitializeStateResult] = ()

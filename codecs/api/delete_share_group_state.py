"""DeleteShareGroupState v0 (KIP-932): from a group coordinator to a share coordinator."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Int16, Int32, String, Uuid


@struct
class PartitionData(Message):
    """A partition."""

    partition: Int32 = 0


@struct
class DeleteStateData(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionData] = ()


@request(api_key=86, versions=range(0, 1), flexible_since=0)
class DeleteShareGroupStateRequest(Message):
    """Partitions whose share state to delete."""

    group_id: String = ""
    topics: Array[DeleteStateData] = ()


@struct
class PartitionResult(Message):
    """The result for one partition."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class DeleteStateResult(Message):
    """The results for the partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[PartitionResult] = ()


@response(DeleteShareGroupStateRequest)
class DeleteShareGroupStateResponse(Message):
    """The result for each partition."""

    results: Array[DeleteStateResult] = ()

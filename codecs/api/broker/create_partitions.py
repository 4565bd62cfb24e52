"""CreatePartitions v0–3. KIP-195. v2 flexible, v3 throttling (KIP-599)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, String


@struct
class CreatePartitionsAssignment(Message):
    """The brokers for the replicas of a new partition."""

    broker_ids: Array[Int32] = ()


@struct
class CreatePartitionsTopic(Message):
    """The new partition count of a topic."""

    name: String = field(default="", map_key=True)
    count: Int32 = 0
    assignments: Array[CreatePartitionsAssignment] | None = ()


@request(api_key=37, versions=range(0, 4), flexible_since=2)
class CreatePartitionsRequest(Message):
    """The topics to add partitions to."""

    topics: Array[CreatePartitionsTopic] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


@struct
class CreatePartitionsTopicResult(Message):
    """The result for one topic."""

    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


@response(CreatePartitionsRequest)
class CreatePartitionsResponse(Message):
    """The result for each topic."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult] = ()

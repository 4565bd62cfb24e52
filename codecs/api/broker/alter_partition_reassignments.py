"""AlterPartitionReassignments v0–1.

KIP-455. v1 whether the number of replicas may change (KIP-860).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, String


@struct
class ReassignablePartition(Message):
    """The target replicas of a partition; null cancels its reassignment."""

    partition_index: Int32 = 0
    replicas: Array[Int32] | None = None


@struct
class ReassignableTopic(Message):
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[ReassignablePartition] = ()


@request(api_key=45, versions=range(0, 2), flexible_since=0)
class AlterPartitionReassignmentsRequest(Message):
    """The partitions to reassign."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = field(since=1, default=True)
    topics: Array[ReassignableTopic] = ()


@struct
class ReassignablePartitionResponse(Message):
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class ReassignableTopicResponse(Message):
    """The results for the partitions of one topic."""

    name: String = ""
    partitions: Array[ReassignablePartitionResponse] = ()


@response(AlterPartitionReassignmentsRequest)
class AlterPartitionReassignmentsResponse(Message):
    """The result for each partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = field(since=1, default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: Array[ReassignableTopicResponse] = ()

"""DescribeTopicPartitions v0.

KIP-966: topics page by page, with the replicas that are eligible as leaders.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, String, Uuid


@struct
class TopicRequest(Message):
    """A topic in the request."""

    name: String = ""


@struct
class Cursor(Message):
    """The position of the next page."""

    topic_name: String = ""
    partition_index: Int32 = 0


@request(api_key=75, versions=range(0, 1), flexible_since=0)
class DescribeTopicPartitionsRequest(Message):
    """A request for topics from a position on."""

    topics: Array[TopicRequest] = ()
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition(Message):
    """A partition."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = field(default=-1, ignorable=True)
    replica_nodes: Array[Int32] = ()
    isr_nodes: Array[Int32] = ()
    eligible_leader_replicas: Array[Int32] | None = None
    last_known_elr: Array[Int32] | None = None
    offline_replicas: Array[Int32] = field(default=(), ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic(Message):
    """A topic."""

    error_code: Int16 = 0
    name: String | None = field(default="", map_key=True)
    topic_id: Uuid = field(default=Uuid.ZERO, ignorable=True)
    is_internal: Bool = field(default=False, ignorable=True)
    partitions: Array[DescribeTopicPartitionsResponsePartition] = ()
    topic_authorized_operations: Int32 = -2147483648


@response(DescribeTopicPartitionsRequest)
class DescribeTopicPartitionsResponse(Message):
    """The partitions, and the position of the next page."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    topics: Array[DescribeTopicPartitionsResponseTopic] = ()
    next_cursor: Cursor | None = None

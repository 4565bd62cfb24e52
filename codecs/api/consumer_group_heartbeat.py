"""ConsumerGroupHeartbeat v0–1 (KIP-848).

v1 adds subscriptions by regex, and members generate their own ids (KIP-1082).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, String, Uuid


@struct
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[Int32] = ()


@request(api_key=68, versions=range(0, 2), flexible_since=0)
class ConsumerGroupHeartbeatRequest(Message):
    """A member's heartbeat, with what changed since the last one.

    Null, and a timeout of -1, mean "unchanged". `member_epoch`: 0 joins, -1 leaves, -2 is a static
    member that leaves temporarily. `topic_partitions` are the partitions that the member owns.
    """

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Array[String] | None = None
    subscribed_topic_regex: String | None = field(since=1, default=None)
    server_assignor: String | None = None
    topic_partitions: Array[TopicPartitions] | None = None


@struct
class Assignment(Message):
    """The partitions that a member may use now."""

    topic_partitions: Array[TopicPartitions] = ()


@response(ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse(Message):
    """The member's epoch, and its assignment if it changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None

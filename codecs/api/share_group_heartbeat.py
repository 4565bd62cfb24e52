"""ShareGroupHeartbeat v1 (KIP-932). v0 was in Kafka 4.0 only, as early access."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Int16, Int32, String, Uuid


@request(api_key=76, versions=range(1, 2), flexible_since=0)
class ShareGroupHeartbeatRequest(Message):
    """A member's sign of life; a null means "as before". `member_epoch`: 0 joins, -1 leaves."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: Array[String] | None = None


@struct
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[Int32] = ()


@struct
class Assignment(Message):
    """The partitions that a member may fetch from."""

    topic_partitions: Array[TopicPartitions] = ()


@response(ShareGroupHeartbeatRequest)
class ShareGroupHeartbeatResponse(Message):
    """The member's epoch, and its assignment if that changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None

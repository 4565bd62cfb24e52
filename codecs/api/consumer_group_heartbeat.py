"""ConsumerGroupHeartbeat v0–1 (KIP-848). v1 adds subscriptions by pattern, and has members make their own ids (KIP-1082).

The fields with tag 20848 are not Kafka's: they are KIP-848's client-side assignors, which no release has, in a form that clients and brokers without them skip.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import OWN_TAG, Message, field, struct, tagged
from quorate.codecs.messages.consumer_group import ClientAssignor
from quorate.codecs.wire import Array, Bool, Bytes, Int8, Int16, Int32, String, Uuid


@struct
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[Int32] = ()


@request(api_key=68, versions=range(0, 2), flexible_since=0)
class ConsumerGroupHeartbeatRequest(Message):
    """A member's sign of life, and what changed with it since the last one: a null, and a timeout of -1, mean "as before".

    `member_epoch`: 0 joins, -1 leaves, -2 has a static member leave for a while. `topic_partitions`: what the member owns. `client_assignors`: those that the
    member can run, the one that it prefers first; empty for none any more.
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
    client_assignors: Array[ClientAssignor] | None = tagged(OWN_TAG, default=None, own=True)


@struct
class AssignedMetadata(Message):
    """What a client-side assignor tells a member beside its partitions. `error`: the assignor's own number of what it could not do; 0 for no error."""

    assignor: String = ""
    error: Int8 = 0
    metadata_version: Int16 = 0
    metadata: Bytes = b""


@struct
class Assignment(Message):
    """What a member may use at once. `metadata`: of the target assignment that the member has come to, if a client-side assignor made it."""

    topic_partitions: Array[TopicPartitions] = ()
    metadata: AssignedMetadata | None = tagged(OWN_TAG, default=None, own=True)


@response(ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse(Message):
    """The member's epoch, and its assignment if that changed. `should_compute_assignment`: it is this member's turn to run the group's client-side assignor."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
    should_compute_assignment: Bool = tagged(OWN_TAG, default=False, own=True)

"""ShareGroupDescribe v1 (KIP-932). v0 was in Kafka 4.0 only, as early access."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, String, Uuid


@request(api_key=77, versions=range(1, 2), flexible_since=0)
class ShareGroupDescribeRequest(Message):
    """The groups to describe."""

    group_ids: Array[String] = ()
    include_authorized_operations: Bool = False


@struct
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    topic_name: String = ""
    partitions: Array[Int32] = ()


@struct
class Assignment(Message):
    """Partitions that a member fetches from."""

    topic_partitions: Array[TopicPartitions] = ()


@struct
class Member(Message):
    """A member."""

    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = ()
    assignment: Assignment = field(default=Assignment)


@struct
class DescribedGroup(Message):
    """A group, or the error for it.

    `authorized_operations`: one bit per operation, or -2147483648 if not requested.
    """

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Array[Member] = ()
    authorized_operations: Int32 = -2147483648


@response(ShareGroupDescribeRequest)
class ShareGroupDescribeResponse(Message):
    """The groups in the order of the request."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = ()

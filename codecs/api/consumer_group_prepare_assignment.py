"""ConsumerGroupPrepareAssignment (KIP-848): a member requests its assignor's input.

No release of Kafka has this API. The KIP gives it no key, so the key is quorate's own; the fields
are the KIP's, with the racks of partitions (KIP-881).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bytes, Int8, Int16, Int32, String, Uuid


@request(api_key=20_848, versions=range(0, 1), flexible_since=0)
class ConsumerGroupPrepareAssignmentRequest(Message):
    """The member with `should_compute_assignment`, and its current epoch."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0


@struct
class PreparedAssignor(Message):
    """The selected assignor as the member announced it."""

    reason: Int8 = 0
    metadata_version: Int16 = 0
    metadata: Bytes = b""


@struct
class PreparedTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[Int32] = ()


@struct
class PreparedMember(Message):
    """A member.

    `topic_partitions` is its current target assignment, which may contain deleted topics.
    `subscribed_topic_ids` are those of existing topics.
    """

    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    subscribed_topic_ids: Array[Uuid] = ()
    assignor: PreparedAssignor = field(default=PreparedAssignor)
    topic_partitions: Array[PreparedTopicPartitions] = ()


@struct
class PreparedPartition(Message):
    """A partition and the racks of its replicas, the leader's first, without unknown ones."""

    partition: Int32 = 0
    racks: Array[String] = ()


@struct
class PreparedTopic(Message):
    """A topic to which a member subscribes."""

    topic_id: Uuid = Uuid.ZERO
    topic_name: String = ""
    partitions: Array[PreparedPartition] = ()


@response(ConsumerGroupPrepareAssignmentRequest)
class ConsumerGroupPrepareAssignmentResponse(Message):
    """The group at `group_epoch`, for which the assignment is computed.

    All members understand metadata of `minimum_version` to `maximum_version`.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    group_epoch: Int32 = 0
    assignor_name: String = ""
    minimum_version: Int16 = 0
    maximum_version: Int16 = 0
    members: Array[PreparedMember] = ()
    topics: Array[PreparedTopic] = ()

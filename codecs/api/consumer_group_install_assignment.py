"""ConsumerGroupInstallAssignment (KIP-848, client-side assignors): a member installs its result.

No release of Kafka has this API. The KIP gives it no key, so the key is quorate's own; the fields
are the KIP's.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Bytes, Int8, Int16, Int32, String, Uuid


@struct
class InstalledTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[Int32] = ()


@struct
class InstalledMember(Message):
    """The target assignment of a member, with metadata for it."""

    member_id: String = ""
    topic_partitions: Array[InstalledTopicPartitions] = ()
    metadata_version: Int16 = 0
    metadata: Bytes = b""


@request(api_key=20_849, versions=range(0, 1), flexible_since=0)
class ConsumerGroupInstallAssignmentRequest(Message):
    """The assignment for `group_epoch`, with every member of the group.

    `error` is an error code of the assignor; 0 if there is an assignment.
    """

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    group_epoch: Int32 = 0
    error: Int8 = 0
    members: Array[InstalledMember] = ()


@response(ConsumerGroupInstallAssignmentRequest)
class ConsumerGroupInstallAssignmentResponse(Message):
    """Whether the assignment was accepted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None

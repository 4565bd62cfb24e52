"""Share groups (KIP-932): record types 10 to 15 of `__consumer_offsets`, as of 4.1.

The early-access records of 4.0 have other layouts under the same version 0. The bytes do not show
which one was used.
"""

from quorate.codecs.message import Message, key, struct, tagged, value
from quorate.codecs.messages.consumer_group import TopicPartition
from quorate.codecs.wire import Array, Int8, Int32, Int64, String, Uuid


@key(10, since="4.1")
class ShareGroupMemberMetadataKey(Message):
    """A member of a group."""

    group_id: String
    member_id: String


@value(ShareGroupMemberMetadataKey, versions=range(0, 1), flexible_since=0)
class ShareGroupMemberMetadataValue(Message):
    """The metadata that a member sent."""

    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]


@key(11, since="4.1")
class ShareGroupMetadataKey(Message):
    """The group's id."""

    group_id: String


@value(ShareGroupMetadataKey, versions=range(0, 1), flexible_since=0)
class ShareGroupMetadataValue(Message):
    """Epoch of the group and hash of the topics it subscribes to.

    The hash is not tagged here: 4.1 brought both together.
    """

    epoch: Int32
    metadata_hash: Int64


@key(12, since="4.1")
class ShareGroupTargetAssignmentMetadataKey(Message):
    """The group's id."""

    group_id: String


@value(ShareGroupTargetAssignmentMetadataKey, versions=range(0, 1), flexible_since=0)
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target assignment was computed for."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, default=0, ignorable=True, release="4.3")  # KIP-1263


@key(13, since="4.1")
class ShareGroupTargetAssignmentMemberKey(Message):
    """A member of a group."""

    group_id: String
    member_id: String


@value(ShareGroupTargetAssignmentMemberKey, versions=range(0, 1), flexible_since=0)
class ShareGroupTargetAssignmentMemberValue(Message):
    """The target assignment of a member."""

    topic_partitions: Array[TopicPartition]


@key(14, since="4.1")
class ShareGroupCurrentMemberAssignmentKey(Message):
    """A member of a group."""

    group_id: String
    member_id: String


@value(ShareGroupCurrentMemberAssignmentKey, versions=range(0, 1), flexible_since=0)
class ShareGroupCurrentMemberAssignmentValue(Message):
    """The partitions assigned to a member. `state` is always 0."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[TopicPartition]


@key(15, since="4.1")
class ShareGroupStatePartitionMetadataKey(Message):
    """The group's id."""

    group_id: String


@struct
class TopicPartitionsInfo(Message):
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


@struct
class TopicInfo(Message):
    """A topic."""

    topic_id: Uuid
    topic_name: String


@value(ShareGroupStatePartitionMetadataKey, versions=range(0, 1), flexible_since=0)
class ShareGroupStatePartitionMetadataValue(Message):
    """The partitions with share state: initialized, initializing, or being deleted."""

    initializing_topics: Array[TopicPartitionsInfo]
    initialized_topics: Array[TopicPartitionsInfo]
    deleting_topics: Array[TopicInfo]

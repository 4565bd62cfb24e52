"""Consumer groups of KIP-848: record types 3 to 8 and 16 of `__consumer_offsets`."""

from quorate.codecs.message import Message, field, key, struct, tagged, value
from quorate.codecs.wire import Array, Bytes, Int8, Int32, Int64, String, Uuid


@key(3, since="4.0")
class ConsumerGroupMetadataKey(Message):
    """The group's id."""

    group_id: String


@value(ConsumerGroupMetadataKey, versions=range(0, 1), flexible_since=0)
class ConsumerGroupMetadataValue(Message):
    """Epoch of the group and hash of the topics it subscribes to."""

    epoch: Int32
    metadata_hash: Int64 = tagged(0, default=0, release="4.1")  # KIP-1101; 0 also means "never computed"


@key(4, since="4.0", note="since 4.1 only tombstones are written (KIP-1101)")
class ConsumerGroupPartitionMetadataKey(Message):
    """The group's id."""

    group_id: String


@struct
class PartitionMetadata(Message):
    """Racks of one partition's replicas. Only 3.7 to 3.9 wrote it; 4.0 leaves the list empty."""

    partition: Int32
    racks: Array[String]


@struct
class TopicMetadata(Message):
    """A subscribed topic as the group last saw it."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: Array[PartitionMetadata]


@value(ConsumerGroupPartitionMetadataKey, versions=range(0, 1), flexible_since=0, written=None)
class ConsumerGroupPartitionMetadataValue(Message):
    """The partition counts of the group's topics, until KIP-1101 replaced them by a hash."""

    topics: Array[TopicMetadata]


@key(5, since="4.0")
class ConsumerGroupMemberMetadataKey(Message):
    """A member of a group."""

    group_id: String
    member_id: String


@struct
class ClassicProtocol(Message):
    """An assignor of a member with the classic protocol, and its subscription bytes."""

    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata(Message):
    """Data of a member that uses the classic protocol in a consumer group (online migration)."""

    session_timeout_ms: Int32
    supported_protocols: Array[ClassicProtocol]


@value(ConsumerGroupMemberMetadataKey, versions=range(0, 1), flexible_since=0)
class ConsumerGroupMemberMetadataValue(Message):
    """The metadata that a member sent."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: String | None
    # The schema says `"default": null` without quotes, which Kafka's generator takes for "no
    # default": a record without this tag is that of a classic member, and every member of the new
    # protocol has the tag with an explicit null.
    classic_member_metadata: ClassicMemberMetadata | None = tagged(
        0, default=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())
    )


@key(6, since="4.0")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """The group's id."""

    group_id: String


@value(ConsumerGroupTargetAssignmentMetadataKey, versions=range(0, 1), flexible_since=0)
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target assignment was computed for."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, default=0, ignorable=True, release="4.3")  # KIP-1263


@key(7, since="4.0")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """A member of a group."""

    group_id: String
    member_id: String


@struct
class TopicPartition(Message):
    """Partitions of one topic, in the order of the coordinator's hash sets."""

    topic_id: Uuid
    partitions: Array[Int32]


@value(ConsumerGroupTargetAssignmentMemberKey, versions=range(0, 1), flexible_since=0)
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The target assignment of a member."""

    topic_partitions: Array[TopicPartition]


@key(8, since="4.0")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """A member of a group."""

    group_id: String
    member_id: String


@struct
class TopicPartitions(Message):
    """Partitions of one topic and, in parallel, the epochs at which they were assigned (KIP-1251).

    The default of `assignment_epochs` is no epochs, not null: the schema's `"default": null` lacks
    the quotes that would make it one.
    """

    topic_id: Uuid
    partitions: Array[Int32]
    assignment_epochs: Array[Int32] | None = tagged(0, default=(), release="4.3")


@value(ConsumerGroupCurrentMemberAssignmentKey, versions=range(0, 1), flexible_since=0)
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """The partitions that a member owns, and those that it must still revoke.

    `state`: 0 stable, 1 unrevoked, 2 unreleased partitions.
    """

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[TopicPartitions]
    partitions_pending_revocation: Array[TopicPartitions]


@key(16, since="4.0")
class ConsumerGroupRegularExpressionKey(Message):
    """A regular expression to which members of a group subscribe."""

    group_id: String
    regular_expression: String


@value(ConsumerGroupRegularExpressionKey, versions=range(0, 1), flexible_since=0)
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that matched the regex.

    `version`: metadata image it was resolved against; `timestamp` in ms.
    """

    topics: Array[String]
    version: Int64
    timestamp: Int64

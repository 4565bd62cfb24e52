"""Classic groups (JoinGroup/SyncGroup): record type 2 of `__consumer_offsets`."""

from quorate.codecs.message import Message, field, key, struct, value
from quorate.codecs.wire import Array, Bytes, Int32, Int64, String


@key(2, since="0.9")
class GroupMetadataKey(Message):
    """The group's id."""

    group: String


@struct
class MemberMetadata(Message):
    """A member of a classic group.

    `subscription` and `assignment` are the protocol's own bytes: see
    `quorate.codecs.consumer_protocol`.
    """

    member_id: String
    group_instance_id: String | None = field(since=3, default=None, ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field(since=1, default=-1, ignorable=True)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@value(GroupMetadataKey, versions=range(0, 5), flexible_since=4, written=3)
class GroupMetadataValue(Message):
    """A classic group at one generation.

    Kafka writes version 3; it has read version 4 since 3.5 (KIP-915).
    """

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field(since=2, default=-1, ignorable=True)
    members: Array[MemberMetadata]

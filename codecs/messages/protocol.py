"""The consumer embedded protocol: what classic members send through JoinGroup and SyncGroup.

Not records; see `quorate.codecs.consumer_protocol`.
"""

from quorate.codecs.message import Message, field, message, struct
from quorate.codecs.wire import Array, Bytes, Int32, String


@struct
class ProtocolTopicPartition(Message):
    """Partitions of one topic."""

    topic: String = field(map_key=True)
    partitions: Array[Int32]


@message(versions=range(0, 4))
class ConsumerProtocolSubscription(Message):
    """A member's topics, owned partitions (KIP-429), generation (KIP-792) and rack (KIP-881)."""

    topics: Array[String]
    user_data: Bytes | None = field(default=None)
    owned_partitions: Array[ProtocolTopicPartition] = field(since=1, default=(), ignorable=True)
    generation_id: Int32 = field(since=2, default=-1, ignorable=True)
    rack_id: String | None = field(since=3, default=None, ignorable=True)


@message(versions=range(0, 4))
class ConsumerProtocolAssignment(Message):
    """The assignment of a member. All four versions have the same layout."""

    assigned_partitions: Array[ProtocolTopicPartition]
    user_data: Bytes | None = field(default=None)


@message(versions=range(0, 2))
class StickyAssignorUserData(Message):
    """User data of the `sticky` assignor: the owned partitions, and since version 1 the generation.

    The bytes do not contain the version.
    """

    previous_assignment: Array[ProtocolTopicPartition]
    generation: Int32 = field(since=1, default=-1, ignorable=True)


@message(versions=range(0, 1))
class CooperativeStickyAssignorUserData(Message):
    """User data of the `cooperative-sticky` assignor: only the generation."""

    generation: Int32 = field(default=-1)

"""OffsetFetch v1–10.

v2 all topics (KIP-88), v5 leader epoch (KIP-320), v6 flexible, v7 stable offsets only (KIP-447), v8
several groups (KIP-709), v9 member epochs, v10 topic ids in place of names (both KIP-848).

Up to version 7 the one group is in the message itself, with `OffsetFetchRequestTopic` and its like;
since version 8 groups are structs of their own, with `OffsetFetchRequestTopics` and its like.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, Int64, String, Uuid


@struct
class OffsetFetchRequestTopic(Message):
    """Partitions of one topic, up to version 7."""

    name: String = ""
    partition_indexes: Array[Int32] = ()


@struct
class OffsetFetchRequestTopics(Message):
    """Partitions of one topic, since version 8."""

    name: String = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=Uuid.ZERO, ignorable=True)
    partition_indexes: Array[Int32] = ()


@struct
class OffsetFetchRequestGroup(Message):
    """A group, and whose offsets are wanted of it: null stands for all.

    `member_epoch`: -1 outside the KIP-848 protocol.
    """

    group_id: String = ""
    member_id: String | None = field(since=9, default=None, ignorable=True)
    member_epoch: Int32 = field(since=9, default=-1, ignorable=True)
    topics: Array[OffsetFetchRequestTopics] | None = ()


@request(api_key=9, versions=range(1, 11), flexible_since=6)
class OffsetFetchRequest(Message):
    """The offsets to fetch.

    `require_stable`: return an error for an offset with a pending transaction.
    """

    group_id: String = field(until=7, default="")
    topics: Array[OffsetFetchRequestTopic] | None = field(until=7, default=(), nullable_since=2)
    groups: Array[OffsetFetchRequestGroup] = field(since=8, default=())
    require_stable: Bool = field(since=7, default=False)


@struct
class OffsetFetchResponsePartition(Message):
    """An offset, up to version 7. -1: there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(since=5, default=-1, ignorable=True)
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic(Message):
    """Offsets of one topic, up to version 7."""

    name: String = ""
    partitions: Array[OffsetFetchResponsePartition] = ()


@struct
class OffsetFetchResponsePartitions(Message):
    """An offset, since version 8. -1: there is none."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(default=-1, ignorable=True)
    metadata: String | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics(Message):
    """Offsets of one topic, since version 8."""

    name: String = field(until=9, default="", ignorable=True)
    topic_id: Uuid = field(since=10, default=Uuid.ZERO, ignorable=True)
    partitions: Array[OffsetFetchResponsePartitions] = ()


@struct
class OffsetFetchResponseGroup(Message):
    """Offsets of one group."""

    group_id: String = ""
    topics: Array[OffsetFetchResponseTopics] = ()
    error_code: Int16 = 0


@response(OffsetFetchRequest)
class OffsetFetchResponse(Message):
    """The offsets."""

    throttle_time_ms: Int32 = field(since=3, default=0, ignorable=True)
    topics: Array[OffsetFetchResponseTopic] = field(until=7, default=())
    error_code: Int16 = field(since=2, until=7, default=0, ignorable=True)
    groups: Array[OffsetFetchResponseGroup] = field(since=8, default=())

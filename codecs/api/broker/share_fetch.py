"""ShareFetch v1–2 (KIP-932): a member of a share group acquires records, and acknowledges others.

v2 has acquire modes (KIP-1206) and renewed acquisition locks (KIP-1222). v0 was in Kafka 4.0 only,
as early access.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, Int64, Records, String, Uuid


@struct
class AcknowledgementBatch(Message):
    """Acknowledged offsets, with one type for all of them or one for each.

    Types: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
    """

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: Array[Int8] = ()


@struct
class FetchPartition(Message):
    """A partition of the session, and acknowledgements of its records."""

    partition_index: Int32 = field(default=0, map_key=True)
    partition_max_bytes: Int32 = field(until=0, default=0)
    acknowledgement_batches: Array[AcknowledgementBatch] = ()


@struct
class FetchTopic(Message):
    """Partitions of one topic."""

    topic_id: Uuid = field(default=Uuid.ZERO, map_key=True)
    partitions: Array[FetchPartition] = ()


@struct
class ForgottenTopic(Message):
    """Partitions that are no longer part of the session."""

    topic_id: Uuid = Uuid.ZERO
    partitions: Array[Int32] = ()


@request(api_key=78, versions=range(1, 3), flexible_since=0)
class ShareFetchRequest(Message):
    """A request for records of a share session.

    `share_session_epoch`: 0 opens a session, -1 closes it. `share_acquire_mode`: 0 batch-optimized,
    1 record-limit. `is_renew_ack`: there are acknowledgements of type renew.
    """

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Int8 = field(since=2, default=0, ignorable=True)
    is_renew_ack: Bool = field(since=2, default=False)
    topics: Array[FetchTopic] = ()
    forgotten_topics_data: Array[ForgottenTopic] = ()


@struct
class LeaderIdAndEpoch(Message):
    """The leader of a partition."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class AcquiredRecords(Message):
    """Offsets that the member acquired, and how often they were delivered."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


@struct
class PartitionData(Message):
    """The records of a partition, and the result of the acknowledgements."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(default=LeaderIdAndEpoch)
    records: Records | None = field(default=None, nullable_since=3)  # null is the default, but cannot be encoded
    acquired_records: Array[AcquiredRecords] = ()


@struct
class ShareFetchableTopicResponse(Message):
    """The partitions of a topic."""

    topic_id: Uuid = field(default=Uuid.ZERO, map_key=True)
    partitions: Array[PartitionData] = ()


@struct
class NodeEndpoint(Message):
    """The address of a broker."""

    node_id: Int32 = field(default=0, map_key=True)
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@response(ShareFetchRequest)
class ShareFetchResponse(Message):
    """Acquired records of each partition, and for how long they are locked."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: Array[ShareFetchableTopicResponse] = ()
    node_endpoints: Array[NodeEndpoint] = ()

"""Fetch v4–18.

v4 transactions (KIP-98), v5 log start offset, v7 sessions (KIP-227), v9 leader epochs (KIP-320),
v10 zstd, v11 racks (KIP-392), v12 flexible and divergence (KIP-595), v13 topic ids (KIP-516), v15
replica epochs (KIP-903), v16 current leaders (KIP-951), v17 directory ids (KIP-853), v18 high
watermarks of replicas (KIP-1166).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct, tagged
from quorate.codecs.wire import Array, Int8, Int16, Int32, Int64, Records, String, Uuid


@struct
class ReplicaState(Message):
    """The replica that sends the request; -1 for a consumer."""

    replica_id: Int32 = field(since=15, default=-1)
    replica_epoch: Int64 = field(since=15, default=-1)


@struct
class FetchPartition(Message):
    """A partition and its fetch offset."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = field(since=9, default=-1, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = field(since=12, default=-1)
    log_start_offset: Int64 = field(since=5, default=-1, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = tagged(0, default=Uuid.ZERO, since=17, ignorable=True)
    high_watermark: Int64 = tagged(1, default=9223372036854775807, since=18, ignorable=True)


@struct
class FetchTopic(Message):
    """Partitions of one topic."""

    topic: String = field(until=12, default="", ignorable=True)
    topic_id: Uuid = field(since=13, default=Uuid.ZERO, ignorable=True)
    partitions: Array[FetchPartition] = ()


@struct
class ForgottenTopic(Message):
    """Partitions that are no longer part of the session."""

    topic: String = field(since=7, until=12, default="", ignorable=True)
    topic_id: Uuid = field(since=13, default=Uuid.ZERO, ignorable=True)
    partitions: Array[Int32] = field(since=7, default=())


@request(api_key=1, versions=range(4, 19), flexible_since=12)
class FetchRequest(Message):
    """A request for records from given offsets. `replica_id` is -1 for a consumer."""

    cluster_id: String | None = tagged(0, default=None, since=12, ignorable=True)
    replica_id: Int32 = field(until=14, default=-1)
    replica_state: ReplicaState = tagged(1, default=ReplicaState, since=15)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = field(since=3, default=2147483647, ignorable=True)
    isolation_level: Int8 = field(since=4, default=0, ignorable=True)
    session_id: Int32 = field(since=7, default=0, ignorable=True)
    session_epoch: Int32 = field(since=7, default=-1, ignorable=True)
    topics: Array[FetchTopic] = ()
    forgotten_topics_data: Array[ForgottenTopic] = field(since=7, default=())
    rack_id: String = field(since=11, default="", ignorable=True)


@struct
class EpochEndOffset(Message):
    """The end offset of a leader epoch."""

    epoch: Int32 = field(since=12, default=-1)
    end_offset: Int64 = field(since=12, default=-1)


@struct
class LeaderIdAndEpoch(Message):
    """The leader of a partition; -1 if unknown."""

    leader_id: Int32 = field(since=12, default=-1)
    leader_epoch: Int32 = field(since=12, default=-1)


@struct
class SnapshotId(Message):
    """A snapshot of the controllers' log."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction(Message):
    """A transaction whose records a read-committed consumer leaves out."""

    producer_id: Int64 = field(since=4, default=0)
    first_offset: Int64 = field(since=4, default=0)


@struct
class PartitionData(Message):
    """The records of a partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = field(since=4, default=-1, ignorable=True)
    log_start_offset: Int64 = field(since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = tagged(0, default=EpochEndOffset, since=12)
    current_leader: LeaderIdAndEpoch = tagged(1, default=LeaderIdAndEpoch, since=12)
    snapshot_id: SnapshotId = tagged(2, default=SnapshotId, since=12)
    aborted_transactions: Array[AbortedTransaction] | None = field(since=4, default=(), ignorable=True)
    preferred_read_replica: Int32 = field(since=11, default=-1)
    records: Records | None = None


@struct
class FetchableTopicResponse(Message):
    """The records of a topic."""

    topic: String = field(until=12, default="", ignorable=True)
    topic_id: Uuid = field(since=13, default=Uuid.ZERO, ignorable=True)
    partitions: Array[PartitionData] = ()


@struct
class NodeEndpoint(Message):
    """The address of a broker."""

    node_id: Int32 = field(since=16, default=0, map_key=True)
    host: String = field(since=16, default="")
    port: Int32 = field(since=16, default=0)
    rack: String | None = field(since=16, default=None)


@response(FetchRequest)
class FetchResponse(Message):
    """The records of each partition."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16 = field(since=7, default=0, ignorable=True)
    session_id: Int32 = field(since=7, default=0)
    responses: Array[FetchableTopicResponse] = ()
    node_endpoints: Array[NodeEndpoint] = tagged(0, default=(), since=16)

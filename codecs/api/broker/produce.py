"""Produce v3–13.

v3 batches of format 2 and transactions (KIP-98), v5 log start offset, v7 zstd (KIP-110), v8 which
records are wrong (KIP-467), v9 flexible, v10 where the leader is now (KIP-951), v12 adds partitions
to transactions (KIP-890), v13 topic ids (KIP-516).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct, tagged
from quorate.codecs.wire import Array, Int16, Int32, Int64, Records, String, Uuid


@struct
class PartitionProduceData(Message):
    """Batches for one partition."""

    index: Int32 = 0
    records: Records | None = None


@struct
class TopicProduceData(Message):
    """Batches for one topic."""

    name: String = field(until=12, default="", ignorable=True, map_key=True)
    topic_id: Uuid = field(since=13, default=Uuid.ZERO, ignorable=True, map_key=True)
    partition_data: Array[PartitionProduceData] = ()


@request(api_key=0, versions=range(3, 14), flexible_since=9)
class ProduceRequest(Message):
    """Batches to append.

    `acks`: 0 none (without a response), 1 the leader, -1 all in-sync replicas.
    """

    transactional_id: String | None = field(since=3, default=None)
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: Array[TopicProduceData] = ()


@struct
class BatchIndexAndErrorMessage(Message):
    """A record that is wrong, by its place in the batch."""

    batch_index: Int32 = field(since=8, default=0)
    batch_index_error_message: String | None = field(since=8, default=None)


@struct
class LeaderIdAndEpoch(Message):
    """The leader of a partition; -1 if unknown."""

    leader_id: Int32 = field(since=10, default=-1)
    leader_epoch: Int32 = field(since=10, default=-1)


@struct
class PartitionProduceResponse(Message):
    """The result for a partition. `base_offset` is that of the first batch."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = field(since=2, default=-1, ignorable=True)
    log_start_offset: Int64 = field(since=5, default=-1, ignorable=True)
    record_errors: Array[BatchIndexAndErrorMessage] = field(since=8, default=(), ignorable=True)
    error_message: String | None = field(since=8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = tagged(0, default=LeaderIdAndEpoch, since=10)


@struct
class TopicProduceResponse(Message):
    """The results for the partitions of a topic."""

    name: String = field(until=12, default="", ignorable=True, map_key=True)
    topic_id: Uuid = field(since=13, default=Uuid.ZERO, ignorable=True, map_key=True)
    partition_responses: Array[PartitionProduceResponse] = ()


@struct
class NodeEndpoint(Message):
    """The address of a broker."""

    node_id: Int32 = field(since=10, default=0, map_key=True)
    host: String = field(since=10, default="")
    port: Int32 = field(since=10, default=0)
    rack: String | None = field(since=10, default=None)


@response(ProduceRequest)
class ProduceResponse(Message):
    """The result for each partition."""

    responses: Array[TopicProduceResponse] = ()
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    node_endpoints: Array[NodeEndpoint] = tagged(0, default=(), since=10)

"""DescribeQuorum v0–2.

KIP-642. v1 times of replicas (KIP-836); v2 messages, directories and nodes (KIP-853). All
versions are flexible.
"""

from quorate.codecs.api.broker import describe_quorum_request
from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String, UInt16, Uuid


@request(api_key=55, versions=range(0, 3), flexible_since=0)
class DescribeQuorumRequest(Message):
    """Partitions of the controllers' quorum; `__cluster_metadata-0` is the only one."""

    topics: Array[describe_quorum_request.TopicData] = ()


@struct
class ReplicaState(Message):
    """The state of a replica. Times are in ms, -1 if unknown."""

    replica_id: Int32 = 0
    replica_directory_id: Uuid = field(since=2, default=Uuid.ZERO)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = field(since=1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = field(since=1, default=-1, ignorable=True)


@struct
class PartitionData(Message):
    """The state of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(since=2, default="", ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: Array[ReplicaState] = ()
    observers: Array[ReplicaState] = ()


@struct
class TopicData(Message):
    """The state of one topic's partitions."""

    topic_name: String = ""
    partitions: Array[PartitionData] = ()


@struct
class Listener(Message):
    """A listener of a controller."""

    name: String = field(since=2, default="", map_key=True)
    host: String = field(since=2, default="")
    port: UInt16 = field(since=2, default=0)


@struct
class Node(Message):
    """A controller."""

    node_id: Int32 = field(since=2, default=0, map_key=True)
    listeners: Array[Listener] = field(since=2, default=())


@response(DescribeQuorumRequest)
class DescribeQuorumResponse(Message):
    """The state of each partition, and the controllers."""

    error_code: Int16 = 0
    error_message: String | None = field(since=2, default="", ignorable=True)
    topics: Array[TopicData] = ()
    nodes: Array[Node] = field(since=2, default=())

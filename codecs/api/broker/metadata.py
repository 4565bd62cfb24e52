"""Metadata v0–13.

v1 controller and racks, v2 cluster id, v4 no automatic topic creation, v7 leader epochs
(KIP-320), v8 authorized operations (KIP-430), v9 flexible, v10 topic ids (KIP-516), v11 without the
cluster's authorized operations (KIP-700), v12 request by topic id, v13 an error for all.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, String, Uuid


@struct
class MetadataRequestTopic(Message):
    """A topic, by name or id."""

    topic_id: Uuid = field(since=10, default=Uuid.ZERO, ignorable=True)
    name: String | None = field(default="", nullable_since=10)


@request(api_key=3, versions=range(0, 14), flexible_since=9)
class MetadataRequest(Message):
    """Brokers and topics. No list of topics stands for all of them; an empty one for none."""

    topics: Array[MetadataRequestTopic] | None = field(default=(), nullable_since=1)
    allow_auto_topic_creation: Bool = field(since=4, default=True)
    include_cluster_authorized_operations: Bool = field(since=8, until=10, default=False)
    include_topic_authorized_operations: Bool = field(since=8, default=False)


@struct
class MetadataResponseBroker(Message):
    """A broker."""

    node_id: Int32 = field(default=0, map_key=True)
    host: String = ""
    port: Int32 = 0
    rack: String | None = field(since=1, default=None, ignorable=True)


@struct
class MetadataResponsePartition(Message):
    """A partition."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = field(since=7, default=-1, ignorable=True)
    replica_nodes: Array[Int32] = ()
    isr_nodes: Array[Int32] = ()
    offline_replicas: Array[Int32] = field(since=5, default=(), ignorable=True)


@struct
class MetadataResponseTopic(Message):
    """A topic."""

    error_code: Int16 = 0
    name: String | None = field(default="", nullable_since=12, map_key=True)
    topic_id: Uuid = field(since=10, default=Uuid.ZERO, ignorable=True)
    is_internal: Bool = field(since=1, default=False, ignorable=True)
    partitions: Array[MetadataResponsePartition] = ()
    topic_authorized_operations: Int32 = field(since=8, default=-2147483648)


@response(MetadataRequest)
class MetadataResponse(Message):
    """The brokers, the controller, and the topics."""

    throttle_time_ms: Int32 = field(since=3, default=0, ignorable=True)
    brokers: Array[MetadataResponseBroker] = ()
    cluster_id: String | None = field(since=2, default=None, ignorable=True)
    controller_id: Int32 = field(since=1, default=-1, ignorable=True)
    topics: Array[MetadataResponseTopic] = ()
    cluster_authorized_operations: Int32 = field(since=8, until=10, default=-2147483648)
    error_code: Int16 = field(since=13, default=0, ignorable=True)

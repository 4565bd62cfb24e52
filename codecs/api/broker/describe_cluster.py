"""DescribeCluster v0–2. KIP-700. v1 controllers (KIP-919), v2 fenced brokers (KIP-1073)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, String


@request(api_key=60, versions=range(0, 3), flexible_since=0)
class DescribeClusterRequest(Message):
    """The brokers, without topics. `endpoint_type`: 1 brokers, 2 controllers."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = field(since=1, default=1)
    include_fenced_brokers: Bool = field(since=2, default=False)


@struct
class DescribeClusterBroker(Message):
    """A broker."""

    broker_id: Int32 = field(default=0, map_key=True)
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Bool = field(since=2, default=False)


@response(DescribeClusterRequest)
class DescribeClusterResponse(Message):
    """The cluster's id, controller and brokers."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = field(since=1, default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker] = ()
    cluster_authorized_operations: Int32 = -2147483648

"""DescribeProducers v0. KIP-664."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String


@struct
class TopicRequest(Message):
    """A topic in the request."""

    name: String = field(default="", map_key=True)
    partition_indexes: Array[Int32] = ()


@request(api_key=61, versions=range(0, 1), flexible_since=0)
class DescribeProducersRequest(Message):
    """The partitions whose producers to describe."""

    topics: Array[TopicRequest] = ()


@struct
class ProducerState(Message):
    """A producer that writes to a partition."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse(Message):
    """The producers of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: Array[ProducerState] = ()


@struct
class TopicResponse(Message):
    """The producers of one topic."""

    name: String = ""
    partitions: Array[PartitionResponse] = ()


@response(DescribeProducersRequest)
class DescribeProducersResponse(Message):
    """The producers of each partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse] = ()

"""DescribeTransactions v0. KIP-664."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String


@request(api_key=65, versions=range(0, 1), flexible_since=0)
class DescribeTransactionsRequest(Message):
    """Transactions by transactional id."""

    transactional_ids: Array[String] = ()


@struct
class TopicData(Message):
    """Partitions of one topic."""

    topic: String = field(default="", map_key=True)
    partitions: Array[Int32] = ()


@struct
class TransactionState(Message):
    """A transaction."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: Array[TopicData] = ()


@response(DescribeTransactionsRequest)
class DescribeTransactionsResponse(Message):
    """The state of each."""

    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState] = ()

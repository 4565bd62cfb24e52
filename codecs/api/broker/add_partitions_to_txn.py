"""AddPartitionsToTxn v0–5.

v3 flexible, v4 from brokers for many transactions at once (KIP-890), v5 as v4. Up to version 3 the
one transaction is in the message itself.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, Int64, String


@struct
class AddPartitionsToTxnTopic(Message):
    """Partitions of one topic."""

    name: String = field(default="", map_key=True)
    partitions: Array[Int32] = ()


@struct
class AddPartitionsToTxnTransaction(Message):
    """A transaction, since version 4."""

    transactional_id: String = field(since=4, default="", map_key=True)
    producer_id: Int64 = field(since=4, default=0)
    producer_epoch: Int16 = field(since=4, default=0)
    verify_only: Bool = field(since=4, default=False)
    topics: Array[AddPartitionsToTxnTopic] = field(since=4, default=())


@request(api_key=24, versions=range(0, 6), flexible_since=3)
class AddPartitionsToTxnRequest(Message):
    """Partitions that a transaction writes to."""

    transactions: Array[AddPartitionsToTxnTransaction] = field(since=4, default=())
    v3_and_below_transactional_id: String = field(until=3, default="")
    v3_and_below_producer_id: Int64 = field(until=3, default=0)
    v3_and_below_producer_epoch: Int16 = field(until=3, default=0)
    v3_and_below_topics: Array[AddPartitionsToTxnTopic] = field(until=3, default=())


@struct
class AddPartitionsToTxnPartitionResult(Message):
    """The result for one partition."""

    partition_index: Int32 = field(default=0, map_key=True)
    partition_error_code: Int16 = 0


@struct
class AddPartitionsToTxnTopicResult(Message):
    """The results for the partitions of one topic."""

    name: String = field(default="", map_key=True)
    results_by_partition: Array[AddPartitionsToTxnPartitionResult] = ()


@struct
class AddPartitionsToTxnResult(Message):
    """The results for the partitions of one transaction."""

    transactional_id: String = field(since=4, default="", map_key=True)
    topic_results: Array[AddPartitionsToTxnTopicResult] = field(since=4, default=())


@response(AddPartitionsToTxnRequest)
class AddPartitionsToTxnResponse(Message):
    """The result for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=4, default=0, ignorable=True)
    results_by_transaction: Array[AddPartitionsToTxnResult] = field(since=4, default=())
    results_by_topic_v3_and_below: Array[AddPartitionsToTxnTopicResult] = field(until=3, default=())

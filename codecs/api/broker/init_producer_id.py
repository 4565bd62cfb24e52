"""InitProducerId v0–6.

v2 flexible, v3 resumes a producer's epoch (KIP-360), v6 two-phase commit (KIP-939; brokers do not
advertise it).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field
from quorate.codecs.wire import Bool, Int16, Int32, Int64, String


@request(api_key=22, versions=range(0, 7), flexible_since=2)
class InitProducerIdRequest(Message):
    """A producer begins. Without a transactional id it is only idempotent."""

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field(since=3, default=-1)
    producer_epoch: Int16 = field(since=3, default=-1)
    enable2_pc: Bool = field(since=6, default=False)
    keep_prepared_txn: Bool = field(since=6, default=False)


@response(InitProducerIdRequest)
class InitProducerIdResponse(Message):
    """The producer's id and epoch."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = field(since=6, default=-1)
    ongoing_txn_producer_epoch: Int16 = field(since=6, default=-1)

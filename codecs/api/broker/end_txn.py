"""EndTxn v0–5.

v3 flexible, v4 TRANSACTION_ABORTABLE, v5 raises the producer's epoch with each transaction (both
KIP-890).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field
from quorate.codecs.wire import Bool, Int16, Int32, Int64, String


@request(api_key=26, versions=range(0, 6), flexible_since=3)
class EndTxnRequest(Message):
    """A transaction to commit or abort."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@response(EndTxnRequest)
class EndTxnResponse(Message):
    """The result, and the producer's new id and epoch (-1: unchanged)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field(since=5, default=-1, ignorable=True)
    producer_epoch: Int16 = field(since=5, default=-1, ignorable=True)

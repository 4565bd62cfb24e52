"""AddOffsetsToTxn v0–4.

v1 sends a throttled response at once, v3 flexible, v4 TRANSACTION_ABORTABLE (KIP-890).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message
from quorate.codecs.wire import Int16, Int32, Int64, String


@request(api_key=25, versions=range(0, 5), flexible_since=3)
class AddOffsetsToTxnRequest(Message):
    """A group whose offsets a transaction commits."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@response(AddOffsetsToTxnRequest)
class AddOffsetsToTxnResponse(Message):
    """Whether the group was added."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0

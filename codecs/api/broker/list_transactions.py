"""ListTransactions v0–2. KIP-664. v1 by duration (KIP-994), v2 by pattern (KIP-1152)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, Int64, String


@request(api_key=66, versions=range(0, 3), flexible_since=0)
class ListTransactionsRequest(Message):
    """Transactions that a broker coordinates. Empty filters let everything through."""

    state_filters: Array[String] = ()
    producer_id_filters: Array[Int64] = ()
    duration_filter: Int64 = field(since=1, default=-1)
    transactional_id_pattern: String | None = field(since=2, default=None)


@struct
class TransactionState(Message):
    """A transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


@response(ListTransactionsRequest)
class ListTransactionsResponse(Message):
    """Transactions that a broker coordinates."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Array[String] = ()
    transaction_states: Array[TransactionState] = ()

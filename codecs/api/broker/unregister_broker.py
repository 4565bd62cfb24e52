"""UnregisterBroker v0. KIP-500. Flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message
from quorate.codecs.wire import Int16, Int32, String


@request(api_key=64, versions=range(0, 1), flexible_since=0)
class UnregisterBrokerRequest(Message):
    """The broker whose registration is removed."""

    broker_id: Int32 = 0


@response(UnregisterBrokerRequest)
class UnregisterBrokerResponse(Message):
    """Whether it was removed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""

"""UnregisterController v0. KIP-1312. Flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message
from quorate.codecs.wire import Int16, Int32, String


@request(api_key=94, versions=range(0, 1), flexible_since=0)
class UnregisterControllerRequest(Message):
    """The controller whose registration is removed."""

    controller_id: Int32 = 0


@response(UnregisterControllerRequest)
class UnregisterControllerResponse(Message):
    """Whether it was removed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""

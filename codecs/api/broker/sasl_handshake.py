"""SaslHandshake v0–1. KIP-43. After v1 follows SaslAuthenticate (KIP-152)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message
from quorate.codecs.wire import Array, Int16, String


@request(api_key=17, versions=range(0, 2))
class SaslHandshakeRequest(Message):
    """The mechanism that the client selects."""

    mechanism: String = ""


@response(SaslHandshakeRequest)
class SaslHandshakeResponse(Message):
    """The mechanisms that the broker has."""

    error_code: Int16 = 0
    mechanisms: Array[String] = ()

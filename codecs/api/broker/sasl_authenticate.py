"""SaslAuthenticate v0–2. KIP-152. v1 how long the session lasts (KIP-368), v2 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field
from quorate.codecs.wire import Bytes, Int16, Int64, String


@request(api_key=36, versions=range(0, 3), flexible_since=2)
class SaslAuthenticateRequest(Message):
    """The bytes from the client of a SASL mechanism."""

    auth_bytes: Bytes = b""


@response(SaslAuthenticateRequest)
class SaslAuthenticateResponse(Message):
    """The bytes from the server of a SASL mechanism."""

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = field(since=1, default=0, ignorable=True)

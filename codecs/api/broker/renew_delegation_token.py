"""RenewDelegationToken v1–2. KIP-48. v2 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message
from quorate.codecs.wire import Bytes, Int16, Int32, Int64


@request(api_key=39, versions=range(1, 3), flexible_since=2)
class RenewDelegationTokenRequest(Message):
    """The token to be renewed, by its HMAC."""

    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


@response(RenewDelegationTokenRequest)
class RenewDelegationTokenResponse(Message):
    """The expiry time of the token."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0

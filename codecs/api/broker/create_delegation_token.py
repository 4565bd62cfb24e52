"""CreateDelegationToken v1–3. KIP-48. v2 flexible, v3 owner and requester (KIP-373)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bytes, Int16, Int32, Int64, String


@struct
class CreatableRenewers(Message):
    """A principal that may renew the token."""

    principal_type: String = ""
    principal_name: String = ""


@request(api_key=38, versions=range(1, 4), flexible_since=2)
class CreateDelegationTokenRequest(Message):
    """A token for an owner; `None` is the principal that requests it.

    `max_lifetime_ms`: -1 for the broker's own limit.
    """

    owner_principal_type: String | None = field(since=3, default="")
    owner_principal_name: String | None = field(since=3, default="")
    renewers: Array[CreatableRenewers] = ()
    max_lifetime_ms: Int64 = 0


@response(CreateDelegationTokenRequest)
class CreateDelegationTokenResponse(Message):
    """The token, and its owner."""

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0

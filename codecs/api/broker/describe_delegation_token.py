"""DescribeDelegationToken v1–3. KIP-48. v2 flexible, v3 requester (KIP-373)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bytes, Int16, Int32, Int64, String


@struct
class DescribeDelegationTokenOwner(Message):
    """An owner of tokens."""

    principal_type: String = ""
    principal_name: String = ""


@request(api_key=41, versions=range(1, 4), flexible_since=2)
class DescribeDelegationTokenRequest(Message):
    """The owners whose tokens to describe. `None`: all."""

    owners: Array[DescribeDelegationTokenOwner] | None = ()


@struct
class DescribedDelegationTokenRenewer(Message):
    """A principal that may renew the token."""

    principal_type: String = ""
    principal_name: String = ""


@struct
class DescribedDelegationToken(Message):
    """A token. Timestamps are in ms."""

    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: Array[DescribedDelegationTokenRenewer] = ()


@response(DescribeDelegationTokenRequest)
class DescribeDelegationTokenResponse(Message):
    """The tokens."""

    error_code: Int16 = 0
    tokens: Array[DescribedDelegationToken] = ()
    throttle_time_ms: Int32 = 0

"""DescribeUserScramCredentials v0. KIP-554. Flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Int8, Int16, Int32, String


@struct
class UserName(Message):
    """A user."""

    name: String = ""


@request(api_key=50, versions=range(0, 1), flexible_since=0)
class DescribeUserScramCredentialsRequest(Message):
    """The users to describe. `None` or an empty list: all."""

    users: Array[UserName] | None = ()


@struct
class CredentialInfo(Message):
    """`mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


@struct
class DescribeUserScramCredentialsResult(Message):
    """The credentials of a user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: Array[CredentialInfo] = ()


@response(DescribeUserScramCredentialsRequest)
class DescribeUserScramCredentialsResponse(Message):
    """The users."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Array[DescribeUserScramCredentialsResult] = ()

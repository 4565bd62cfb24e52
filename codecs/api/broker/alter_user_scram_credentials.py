"""AlterUserScramCredentials v0. KIP-554. Flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Bytes, Int8, Int16, Int32, String


@struct
class ScramCredentialDeletion(Message):
    """A credential to delete. `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    name: String = ""
    mechanism: Int8 = 0


@struct
class ScramCredentialUpsertion(Message):
    """A user's credential for a mechanism, new or in the place of another.

    The password itself stays with the client.
    """

    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@request(api_key=51, versions=range(0, 1), flexible_since=0)
class AlterUserScramCredentialsRequest(Message):
    """The credentials to delete, and to create or replace."""

    deletions: Array[ScramCredentialDeletion] = ()
    upsertions: Array[ScramCredentialUpsertion] = ()


@struct
class AlterUserScramCredentialsResult(Message):
    """The result for a user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@response(AlterUserScramCredentialsRequest)
class AlterUserScramCredentialsResponse(Message):
    """One result for each user."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult] = ()

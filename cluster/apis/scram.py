"""DescribeUserScramCredentials v0, AlterUserScramCredentials v0 (KIP-554): SCRAM credentials.

A change does not affect connections that are authenticated already.
"""

from collections import Counter
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, changes_metadata
from quorate.cluster.controller.records import credential_record
from quorate.cluster.scram import ITERATIONS, MECHANISMS, Credential
from quorate.cluster.turns import Work
from quorate.codecs.api.broker import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from quorate.codecs.api.broker.alter_user_scram_credentials import (
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from quorate.codecs.api.broker.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResult,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.codecs.metadata_records import RemoveUserScramCredentialRecord
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_TWICE = "A user credential cannot be altered twice in the same request"


def describe_user_scram_credentials(
    broker: "Broker", request: DescribeUserScramCredentialsRequest, context: Context
) -> Work[DescribeUserScramCredentialsResponse]:
    """Return mechanisms and iterations, but no salts and keys."""
    known = broker.cluster.credentials.iterations()
    requested = Counter(user.name for user in request.users or ())
    results = []
    for user in requested or known:
        yield None
        if requested[user] > 1:
            twice = "Cannot describe SCRAM credentials for the same user twice in a single request"
            code, message = ErrorCode.DUPLICATE_RESOURCE, f"{twice}: {user}"
        elif user not in known:
            code, message = (
                ErrorCode.RESOURCE_NOT_FOUND,
                f"Attempt to describe a user credential that does not exist: {user}",
            )
        else:
            infos = tuple(CredentialInfo(mechanism=one, iterations=rounds) for one, rounds in known[user].items())
            results.append(DescribeUserScramCredentialsResult(user=user, error_message="", credential_infos=infos))
            continue
        results.append(DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message))
    return DescribeUserScramCredentialsResponse(error_message="", results=tuple(results))


@changes_metadata
def alter_user_scram_credentials(
    broker: "Broker", request: AlterUserScramCredentialsRequest, context: Context
) -> Work[AlterUserScramCredentialsResponse]:
    """Change the credentials of each user that is named once and has a valid change."""
    cluster = broker.cluster
    results: dict[str, AlterUserScramCredentialsResult] = {}
    wanted: dict[str, ScramCredentialDeletion | ScramCredentialUpsertion] = {}
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    for one in changes:
        user = one.name
        yield None
        if user in results:
            continue  # the first error is returned
        try:
            if wanted.pop(user, None) is not None:
                raise ApiError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            _check(one)
            if isinstance(one, ScramCredentialDeletion) and (user, one.mechanism) not in cluster.credentials:
                raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
            wanted[user] = one
        except ApiError as refusal:
            results[user] = AlterUserScramCredentialsResult(
                user=user, error_code=refusal.code, error_message=refusal.message
            )
    records: list[Message] = []
    withdrawn: list[tuple[str, int]] = []
    for user, change in wanted.items():
        yield None
        results[user] = AlterUserScramCredentialsResult(user=user, error_message=None)
        if isinstance(change, ScramCredentialDeletion):
            withdrawn.append((user, change.mechanism))
            if (user, change.mechanism) in cluster.state.credentials:
                records.append(RemoveUserScramCredentialRecord(name=user, mechanism=change.mechanism))
        elif not change.salted_password:  # Java's SecretKeySpec rejects an empty key
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
            results[user] = AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
        else:
            made = Credential.of(change.mechanism, change.salt, change.salted_password, change.iterations)
            records.append(credential_record(user, change.mechanism, made))
    yield from cluster.controller.appending(records)
    for user, mechanism in withdrawn:
        cluster.credentials.withdraw(user, mechanism)
    return AlterUserScramCredentialsResponse(results=tuple(results.values()))


def _check(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> None:
    """Raise `ApiError` for an invalid user name, mechanism or number of iterations."""
    if not change.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in MECHANISMS:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialUpsertion) and change.iterations not in ITERATIONS:
        message = "Too few iterations" if change.iterations < ITERATIONS.start else "Too many iterations"
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)

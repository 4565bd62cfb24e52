"""CreateDelegationToken v1–3, RenewDelegationToken v1–2, ExpireDelegationToken v1–2, DescribeDelegationToken v1–3 (KIP-48): refused.

As a broker without `delegation.token.secret.key` refuses them: on listeners without SASL the
request is not allowed, on others tokens are disabled.
"""

from typing import TYPE_CHECKING, TypeVar

from quorate.cluster.apis import Context
from quorate.cluster.authorizer import Operation, ResourceType
from quorate.codecs.api.broker import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_USER = "User"
_Changed = TypeVar("_Changed", ExpireDelegationTokenResponse, RenewDelegationTokenResponse)


def _may_ask(context: Context) -> bool:
    """Whether the listener knows its clients: Kafka does not let anonymous clients have tokens."""
    return context.connection.user is not None


def _may_create(context: Context, owner: str) -> bool:
    """Whether the client may have tokens for another owner (KIP-373)."""
    return context.access is None or context.access.may(Operation.CREATE_TOKENS, ResourceType.USER, owner)


def create_delegation_token(
    broker: "Broker", request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse:
    """Refuse. The response names owner and requester all the same."""
    requester = context.connection.user or "ANONYMOUS"
    owner = (_USER, requester)
    if request.owner_principal_name:
        owner = (request.owner_principal_type or "", request.owner_principal_name)
    error, time_ms = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0  # the controller's, whose times are not set
    if not _may_ask(context):
        error, time_ms = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1
    elif owner != (_USER, requester) and not _may_create(context, ":".join(owner)):
        error, time_ms = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, -1
    elif any(one.principal_type != _USER for one in request.renewers):
        error, time_ms = ErrorCode.INVALID_PRINCIPAL_TYPE, -1
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=_USER if context.api_version >= 3 else "",
        token_requester_principal_name=requester if context.api_version >= 3 else "",
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )


def renew_delegation_token(
    broker: "Broker", request: RenewDelegationTokenRequest, context: Context
) -> RenewDelegationTokenResponse:
    """Refuse."""
    return _refused(RenewDelegationTokenResponse, context)


def expire_delegation_token(
    broker: "Broker", request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    """Refuse."""
    return _refused(ExpireDelegationTokenResponse, context)


def describe_delegation_token(
    broker: "Broker", request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    """Refuse."""
    if _may_ask(context):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _refused(response: type[_Changed], context: Context) -> _Changed:
    if _may_ask(context):
        return response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1)

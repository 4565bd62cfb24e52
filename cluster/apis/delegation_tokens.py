"""Delegation tokens (KIP-48), all rejected as by a broker without `delegation.token.secret.key`.

CreateDelegationToken v1–3, RenewDelegationToken v1–2, ExpireDelegationToken v1–2,
DescribeDelegationToken v1–3. The error is DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on listeners without
SASL, and DELEGATION_TOKEN_AUTH_DISABLED on others.
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


def _is_authenticated(context: Context) -> bool:
    """Return whether the client has logged in. Kafka gives no tokens to anonymous clients."""
    return context.connection.user is not None


def _may_create(context: Context, owner: str) -> bool:
    """Return whether the client may create tokens for another owner (KIP-373)."""
    return context.access is None or context.access.may(Operation.CREATE_TOKENS, ResourceType.USER, owner)


def create_delegation_token(
    broker: "Broker", request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse:
    """Reject the request. The response still names the owner and the requester."""
    requester = context.connection.user or "ANONYMOUS"
    owner = (_USER, requester)
    if request.owner_principal_name:
        owner = (request.owner_principal_type or "", request.owner_principal_name)
    error, time_ms = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0  # from the controller: times are 0
    if not _is_authenticated(context):
        error, time_ms = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1
    elif owner != (_USER, requester) and not _may_create(context, ":".join(owner)):
        error, time_ms = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, -1
    elif any(renewer.principal_type != _USER for renewer in request.renewers):
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
    """Reject the request."""
    return _refused(RenewDelegationTokenResponse, context)


def expire_delegation_token(
    broker: "Broker", request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    """Reject the request."""
    return _refused(ExpireDelegationTokenResponse, context)


def describe_delegation_token(
    broker: "Broker", request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    """Reject the request."""
    if _is_authenticated(context):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _refused(response: type[_Changed], context: Context) -> _Changed:
    if _is_authenticated(context):
        return response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1)

"""SaslHandshake v0–1, SaslAuthenticate v0–2: authentication (KIP-43, KIP-152).

After a failed authentication the client receives the error, and the connection is closed.

After version 0 of the handshake (kafka-python up to 2.0), SASL tokens are sent in frames without
Kafka's request headers (`Connection`).
"""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.security import Login, LoginFailed
from quorate.codecs.api.broker import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []


def sasl_handshake(broker: "Broker", request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    """Start an authentication with the requested mechanism."""
    security = broker.cluster.security
    if not security.users or context.connection.user is not None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    if request.mechanism not in security.mechanisms:
        context.connection.close_later()
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=security.mechanisms)
    context.connection.login = Login(
        security, broker.cluster.credentials, request.mechanism, bare=context.api_version == 0
    )
    return SaslHandshakeResponse(mechanisms=security.mechanisms)


def sasl_authenticate(broker: "Broker", request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse:
    """Process one step of an authentication."""
    connection = context.connection
    if connection.login is None:
        connection.close_later()
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received before SaslHandshake",
        )
    try:
        token = connection.login.step(request.auth_bytes)
    except LoginFailed as failed:
        broker.note(f"rejected a login from {connection.host[1:]}: {failed}")
        connection.close_later()
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(failed))
    if connection.login.user is not None:
        connection.logged_in(connection.login.user)
    return SaslAuthenticateResponse(error_message=None, auth_bytes=token)

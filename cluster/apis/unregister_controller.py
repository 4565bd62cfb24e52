"""UnregisterController v0 (KIP-1312). An embedded cluster has no registrations of controllers."""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.codecs.api.broker import UnregisterControllerRequest, UnregisterControllerResponse
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_SINCE = 33
"""The first `metadata.version` that supports it, 4.4-IV2."""


def unregister_controller(
    broker: "Broker", request: UnregisterControllerRequest, context: Context
) -> UnregisterControllerResponse:
    """Reject the request: the controller is not registered."""
    if broker.cluster.features.get("metadata.version", 0) < _SINCE:
        return UnregisterControllerResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message=f"metadata.version {_SINCE} or later is required to unregister controllers",
        )
    return UnregisterControllerResponse(
        error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
        error_message=f"Controller ID {request.controller_id} is not currently registered.",
    )

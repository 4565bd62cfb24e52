"""UnregisterBroker v0 (KIP-500), UnregisterController v0 (KIP-1312).

A broker registers again when it restarts. An embedded cluster has no registrations of controllers.
"""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, changes_metadata
from quorate.cluster.turns import Work
from quorate.codecs.api.broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_SINCE = 33
"""The first `metadata.version` that supports it, 4.4-IV2."""


@changes_metadata
def unregister_broker(
    broker: "Broker", request: UnregisterBrokerRequest, context: Context
) -> Work[UnregisterBrokerResponse]:
    """Remove the registration of a broker.

    Its replicas stay assigned to it, and other brokers lead its partitions. A broker that runs
    keeps running, and is not in the metadata of clients.
    """
    cluster = broker.cluster
    if request.broker_id not in cluster.state.brokers:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {request.broker_id} is not currently registered",
        )
    yield from cluster.broker_control.unregistering(request.broker_id)
    return UnregisterBrokerResponse(error_message="")


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

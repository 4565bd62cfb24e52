"""UnregisterBroker v0 (KIP-500). The broker registers again when it restarts."""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, changes_metadata
from quorate.cluster.turns import Work
from quorate.codecs.api.broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []


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

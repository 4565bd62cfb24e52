"""ListConfigResources v0–1: list the resources that have configs, by type (KIP-1142).

Version 0 lists client metrics only (KIP-714).
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.codecs.api.broker import ListConfigResourcesRequest, ListConfigResourcesResponse
from quorate.codecs.api.broker.list_config_resources import ConfigResource
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.configs import ConfigResourceType

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

__all__: list[str] = []


def _brokers(cluster: "SharedCluster") -> Iterable[str]:
    return [str(broker.id) for broker in cluster.state.brokers.values() if broker.alive]


_METRICS = ConfigResourceType.CLIENT_METRICS
_TYPES: dict[int, Callable[["SharedCluster"], Iterable[str]]] = {
    ConfigResourceType.GROUP: lambda cluster: cluster.group_configs.groups(),
    _METRICS: lambda cluster: cluster.state.client_metrics,
    ConfigResourceType.BROKER_LOGGER: _brokers,
    ConfigResourceType.BROKER: _brokers,
    ConfigResourceType.TOPIC: lambda cluster: cluster.topics,
}
"""Resource types, in the order of Kafka's response → a function that lists their resources."""


def list_config_resources(
    broker: "Broker", request: ListConfigResourcesRequest, context: Context
) -> ListConfigResourcesResponse:
    """Return the names of the resources of the requested types, or of all types."""
    known = _TYPES if context.api_version >= 1 else {_METRICS: _TYPES[_METRICS]}
    wanted = request.resource_types or tuple(known)
    if any(one not in known for one in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, names in known.items()
            if kind in wanted
            for name in names(broker.cluster)
        )
    )

"""ListConfigResources v0–1: what has settings, by type (KIP-1142). Version 0 lists client metrics only (KIP-714)."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, answers
from quorate.codecs.api.broker import ListConfigResourcesRequest, ListConfigResourcesResponse
from quorate.codecs.api.broker.list_config_resources import ConfigResource
from quorate.codecs.api.error_codes import ErrorCode

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.core import ClusterCore

__all__: list[str] = []


def _brokers(cluster: "ClusterCore") -> Iterable[str]:
    return [str(one.id) for one in cluster.state.brokers.values() if one.alive]


_TYPES: dict[int, Callable[["ClusterCore"], Iterable[str]]] = {
    32: lambda cluster: [name for name, settings in cluster.state.group_configs.items() if settings],
    16: lambda cluster: cluster.state.client_metrics,
    8: _brokers,
    4: _brokers,
    2: lambda cluster: cluster.topics,
}
"""Types of resources, in the order of Kafka's answer: groups, client metrics, loggers of brokers, brokers, topics."""
_CLIENT_METRICS = 16


@answers(ListConfigResourcesRequest)
def list_config_resources(
    broker: "Broker", request: ListConfigResourcesRequest, context: Context
) -> ListConfigResourcesResponse:
    """Tell the names of the resources of some types, or of all."""
    known = _TYPES if context.api_version >= 1 else {_CLIENT_METRICS: _TYPES[_CLIENT_METRICS]}
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

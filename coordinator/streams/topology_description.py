"""StreamsGroupTopologyDescriptionUpdate v0 (KIP-1331).

A broker stores descriptions of topologies in a plug-in. Without one, as here, it
requests none from members, and rejects this request.
"""

from quorate.codecs.api import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard

NO_PLUG_IN = "The broker has no streams group topology description plugin configured."


def update_topology_description(
    shard: CoordinatorShard, request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext
) -> Result[StreamsGroupTopologyDescriptionUpdateResponse]:
    """Reject the request with UNSUPPORTED_VERSION."""
    raise ApiError(ErrorCode.UNSUPPORTED_VERSION, NO_PLUG_IN)

"""FindCoordinator v0–6: find the coordinator of a group or a transactional id.

It is the leader of the id's partition of the internal topic, which the first request creates. v4
looks up many keys at once (KIP-699). The embedded cluster has no share coordinator (KIP-932).
"""

from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.turns import Work, map_in_turns
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api.broker import FindCoordinatorRequest, FindCoordinatorResponse
from quorate.codecs.api.broker.find_coordinator import Coordinator
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_GROUP, _TRANSACTION = 0, 1


def find_coordinator(
    broker: "Broker", request: FindCoordinatorRequest, context: Context
) -> Work[FindCoordinatorResponse]:
    """Find the coordinator of each key."""
    if context.api_version >= 4:
        found = yield from map_in_turns(request.coordinator_keys, lambda key: _one(broker, key, request.key_type))
        return FindCoordinatorResponse(coordinators=found)
    one = _one(broker, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message if one.error_code else "NONE",
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _one(broker: "Broker", key: str, key_type: int) -> Coordinator:
    cluster = broker.cluster
    if key_type not in (_GROUP, _TRANSACTION):
        return _failed(key, ErrorCode.INVALID_REQUEST)
    try:
        cluster.topic_control.internal_topic(CONSUMER_OFFSETS if key_type == _GROUP else TRANSACTION_STATE)
    except ApiError:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    coordinators = cluster.groups if key_type == _GROUP else cluster.transactions
    partition = coordinators.partition_for(key)
    leader = None if partition is None else cluster.state.brokers.get(partition.leader)
    if leader is None or not leader.alive:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=leader.id, host=leader.host, port=leader.port, error_message="")


def _failed(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.name)

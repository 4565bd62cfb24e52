"""FindCoordinator v0–6: find the coordinator of a group, transactional id or share-partition.

It is the leader of the id's partition of the internal topic, which the first request creates. v4
looks up many keys at once (KIP-699), v6 share coordinators (KIP-932).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context
from quorate.cluster.groups import GroupCoordinators
from quorate.cluster.share_state import ShareCoordinators
from quorate.cluster.transactions import TransactionCoordinators
from quorate.cluster.turns import Work, map_in_turns
from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.codecs.api.broker import FindCoordinatorRequest, FindCoordinatorResponse
from quorate.codecs.api.broker.find_coordinator import Coordinator
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.errors import ApiError
from quorate.coordinator.share_state.key import SharePartitionKey

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE, 2: SHARE_GROUP_STATE}
"""Key type → the topic of its coordinators."""
_SHARE_KEYS = 6
"""The first version with share-partitions."""


def find_coordinator(
    broker: "Broker", request: FindCoordinatorRequest, context: Context
) -> Work[FindCoordinatorResponse]:
    """Find the coordinator of each key."""
    if context.api_version >= 4:
        found = yield from map_in_turns(
            request.coordinator_keys, lambda key: _one(broker, request.key_type, context, key)
        )
        return FindCoordinatorResponse(coordinators=found)
    one = _one(broker, request.key_type, context, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=ErrorCode(one.error_code).text,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _one(broker: "Broker", key_type: int, context: Context, key: str) -> Coordinator:
    cluster = broker.cluster
    topic = _TOPICS.get(key_type)
    hashed = _share_key(broker, key, context) if topic == SHARE_GROUP_STATE else key
    if topic is None:  # fails the whole request, and so has a text
        return replace(_failed(key, ErrorCode.INVALID_REQUEST), error_message=ErrorCode.INVALID_REQUEST.text)
    if hashed is None:
        return _failed(key, ErrorCode.INVALID_REQUEST)
    try:
        cluster.topic_control.internal_topic(topic)
    except ApiError:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    coordinators: dict[str, GroupCoordinators | TransactionCoordinators | ShareCoordinators] = {
        CONSUMER_OFFSETS: cluster.groups,
        TRANSACTION_STATE: cluster.transactions,
        SHARE_GROUP_STATE: cluster.share_state,
    }
    partition = coordinators[topic].partition_for(hashed)
    leader = None if partition is None else cluster.state.brokers.get(partition.leader)
    if leader is None or not leader.alive:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=leader.id, host=leader.host, port=leader.port, error_message="")


def _share_key(broker: "Broker", key: str, context: Context) -> str | None:
    """Return the key of a share-partition in Kafka's form.

    `None` if it is none, or the release or the version does not know them.
    """
    if context.api_version < _SHARE_KEYS or not broker.cluster.share_state.is_supported:
        return None
    try:
        return SharePartitionKey.parse(key).coordinator_key
    except ValueError:
        return None


def _failed(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message="")

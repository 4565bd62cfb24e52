"""Rules for APIs of the cluster, of coordinators and of transactions."""

from dataclasses import replace
from typing import Any

from quorate.cluster.authorization.call import Call, HandlerResult
from quorate.cluster.authorization.rules import cluster_permission
from quorate.cluster.authorizer import UNKNOWN_OPERATIONS, Operation, ResourceType
from quorate.cluster.turns import Work, map_in_turns, split
from quorate.codecs.api.broker.describe_transactions import TransactionState
from quorate.codecs.api.broker.find_coordinator import Coordinator
from quorate.codecs.api.error_codes import ErrorCode


def describe_cluster(call: Call) -> HandlerResult:
    """Allow all clients. Authorized operations are those of the client."""

    def narrow(response: Any) -> Any:
        operations = response.cluster_authorized_operations
        if operations == UNKNOWN_OPERATIONS:
            return response
        return replace(response, cluster_authorized_operations=call.access.cluster_operations(operations))

    return call.after(call.handle(), narrow)


# ---- transactions


_GROUP, _TRANSACTION, _SHARE = range(3)
_KEYS = {
    _GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION: (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
_MANY_KEYS, _SHARE_KEYS = 4, 6


def find_coordinator(call: Call) -> HandlerResult:
    """Require DESCRIBE on each group or transactional id; CLUSTER_ACTION for share coordinators."""
    request, version = call.request, call.context.api_version
    if request.key_type == _SHARE and version >= _SHARE_KEYS:
        return cluster_permission(Operation.CLUSTER_ACTION)(call)
    if request.key_type not in _KEYS:
        return call.handle()
    kind, code = _KEYS[request.key_type]
    if version < _MANY_KEYS:
        if call.access.may(Operation.DESCRIBE, kind, request.key):
            return call.handle()
        return call.failed(code)
    return _keys(call, kind, code)


def _keys(call: Call, kind: ResourceType, code: ErrorCode) -> Work[Any]:
    keys = call.request.coordinator_keys
    allowed = yield from call.access.allowed(Operation.DESCRIBE, kind, keys)
    left, _ = yield from split(keys, allowed.__contains__)

    def merge(response: Any) -> Work[Any]:
        found = iter(response.coordinators)

        def one(key: str) -> Coordinator:
            if key in allowed:
                return next(found)  # type: ignore[no-any-return]
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message="")

        return replace(response, coordinators=(yield from map_in_turns(keys, one)))

    return call.after(call.handle(coordinator_keys=left), merge)


def init_producer_id(call: Call) -> HandlerResult:
    """Require WRITE on the transactional id.

    Without an id: IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679).
    """
    access, transactional_id = call.access, call.request.transactional_id
    if transactional_id is not None:
        return _of_transactional_id(call, transactional_id)
    if access.may_with_cluster(Operation.IDEMPOTENT_WRITE) or access.may_with_any(Operation.WRITE, ResourceType.TOPIC):
        return call.handle()
    return call.failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _of_transactional_id(call: Call, transactional_id: str) -> HandlerResult:
    if call.access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return call.handle()
    return call.failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def add_partitions_to_txn(call: Call) -> HandlerResult:
    """Require WRITE on the transactional id, and on each topic, which the handler checks.

    Since version 4 the API is for brokers and requires CLUSTER_ACTION.
    """
    if call.context.api_version >= 4:
        return cluster_permission(Operation.CLUSTER_ACTION)(call)
    return _of_transactional_id(call, call.request.v3_and_below_transactional_id)


def add_offsets_to_txn(call: Call) -> HandlerResult:
    """Require WRITE on the transactional id and READ on the group."""
    request, access = call.request, call.access
    if access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id) and not access.may(
        Operation.READ, ResourceType.GROUP, request.group_id
    ):
        return call.failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return _of_transactional_id(call, request.transactional_id)


def end_txn(call: Call) -> HandlerResult:
    """Require WRITE on the transactional id."""
    return _of_transactional_id(call, call.request.transactional_id)


def describe_transactions(call: Call) -> Work[Any]:
    """Require DESCRIBE on each transactional id. Topics without DESCRIBE are left out."""
    access, ids = call.access, call.request.transactional_ids
    allowed = yield from access.allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
    left, _ = yield from split(ids, allowed.__contains__)
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    def merge(response: Any) -> Work[Any]:
        found = iter(response.transaction_states)

        def one(transactional_id: str) -> TransactionState:
            if transactional_id in allowed:
                return with_topics(next(found))
            return TransactionState(error_code=code, transactional_id=transactional_id)

        return replace(response, transaction_states=(yield from map_in_turns(ids, one)))

    def with_topics(state: TransactionState) -> TransactionState:
        seen = access.topics(Operation.DESCRIBE, [topic.topic for topic in state.topics])
        return replace(state, topics=tuple(topic for topic in state.topics if topic.topic in seen))

    return call.after(call.handle(transactional_ids=left), merge)


def list_transactions(call: Call) -> HandlerResult:
    """Leave out transactional ids without DESCRIBE."""

    def visible(response: Any) -> Work[Any]:
        seen, _ = yield from split(
            response.transaction_states,
            lambda one: call.access.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, one.transactional_id),
        )
        return replace(response, transaction_states=seen)

    return call.after(call.handle(), visible)

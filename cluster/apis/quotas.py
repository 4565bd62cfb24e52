"""DescribeClientQuotas v0–1, AlterClientQuotas v0–1 (KIP-546): quotas are stored, not enforced."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from quorate.assignors.java_order import JavaHashMap
from quorate.cluster.apis import Context, changes_metadata
from quorate.cluster.controller.records import quota_records
from quorate.cluster.quotas import CLIENT_ID, IP, USER, Entity, check_entity, check_quota
from quorate.cluster.turns import Work
from quorate.codecs.api.broker import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from quorate.codecs.api.broker.alter_client_quotas import EntityData as AlteredEntity
from quorate.codecs.api.broker.alter_client_quotas import EntryData as AlteredEntry
from quorate.codecs.api.broker.alter_client_quotas_request import EntityData as RequestedEntity
from quorate.codecs.api.broker.alter_client_quotas_request import OpData
from quorate.codecs.api.broker.describe_client_quotas import ComponentData, EntityData, EntryData, ValueData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_EXACT, _DEFAULT, _ANY = range(3)
_MATCH_TYPES = {_EXACT: "EXACT", _DEFAULT: "DEFAULT", _ANY: "SPECIFIED"}


def describe_client_quotas(
    broker: "Broker", request: DescribeClientQuotasRequest, context: Context
) -> DescribeClientQuotasResponse:
    """Return the quotas of the entities that match all components."""
    try:
        _check_filter(request.components)
    except ApiError as refusal:
        return DescribeClientQuotasResponse(error_code=refusal.code, error_message=refusal.message, entries=None)
    candidates = [] if request.strict and not request.components else broker.cluster.state.quotas.items()
    return DescribeClientQuotasResponse(
        error_message="",
        entries=tuple(
            EntryData(
                entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
                values=tuple(ValueData(key=key, value=value) for key, value in quotas.items()),
            )
            for entity, quotas in candidates
            if (not request.strict or len(entity) == len(request.components))
            and all(_matches(entity, component) for component in request.components)
        ),
    )


def _check_filter(components: tuple[ComponentData, ...]) -> None:
    """Raise `ApiError` for components that are invalid or contradict each other."""
    seen: set[str] = set()
    for component in components:
        if not component.entity_type:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if component.entity_type in seen:
            problem = f"Entity type {component.entity_type} cannot appear more than once in the filter."
            raise ApiError(ErrorCode.INVALID_REQUEST, problem)
        if component.entity_type not in (USER, CLIENT_ID, IP):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}")
        if component.match_type not in _MATCH_TYPES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
        if (component.match is None) is (component.match_type == _EXACT):
            wrong = "set match string to null" if component.match is None else "also specified a match string"
            problem = f"Request specified MATCH_TYPE_{_MATCH_TYPES[component.match_type]}, but {wrong}."
            raise ApiError(ErrorCode.INVALID_REQUEST, problem)
        seen.add(component.entity_type)
    if IP in seen and len(seen) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component.",
        )


def _matches(entity: Entity, component: ComponentData) -> bool:
    if component.match_type == _ANY:
        return any(kind == component.entity_type for kind, _ in entity)
    return (component.entity_type, component.match) in entity


@changes_metadata
def alter_client_quotas(
    broker: "Broker", request: AlterClientQuotasRequest, context: Context
) -> Work[AlterClientQuotasResponse]:
    """Set or remove quotas: for each entity all requested changes, or none."""
    cluster = broker.cluster
    results: dict[Entity, tuple[ErrorCode, str | None]] = {}
    records: list[Message] = []
    for entry in request.entries:
        named = _in_order(entry.entity)
        entity = frozenset(named.items())
        try:
            if entity in results or any(count > 1 for count in Counter(one.key for one in entry.ops).values()):
                parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in named.items())
                problem = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{parts}}})"
                raise ApiError(ErrorCode.INVALID_REQUEST, problem)
            known = cluster.state.quotas.get(entity, {})
            records += quota_records(entity, known, _changed(known, named, entry.ops))
            results[entity] = (ErrorCode.NONE, None)
        except ApiError as refusal:
            results[entity] = (refusal.code, refusal.message)
        yield None
    if not request.validate_only:
        yield from cluster.controller.appending(records)
    return AlterClientQuotasResponse(
        entries=tuple(
            AlteredEntry(
                error_code=code,
                error_message=message,
                entity=tuple(AlteredEntity(entity_type=kind, entity_name=name) for kind, name in entity),
            )
            for entity, (code, message) in results.items()
        )
    )


def _in_order(entity: tuple[RequestedEntity, ...]) -> dict[str, str | None]:
    """Return an entity in the order of the HashMap that Kafka checks and prints."""
    java: JavaHashMap[str, str | None] = JavaHashMap(len(entity))
    for one in entity:
        java.put(one.entity_type, one.entity_name)
    return dict(java.items())


def _changed(known: Mapping[str, float], entity: Mapping[str, str | None], ops: tuple[OpData, ...]) -> dict[str, float]:
    """Return an entity's quotas after a change. Raises `ApiError`."""
    check_entity(entity)
    result = dict(known)
    changes: JavaHashMap[str, float | None] = JavaHashMap(len(ops))  # they are checked in its order
    for one in ops:
        changes.put(one.key, None if one.remove else one.value)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            check_quota(entity, key, value)
            result[key] = value
    return result

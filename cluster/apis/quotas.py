"""DescribeClientQuotas v0–1, AlterClientQuotas v0–1 (KIP-546): quotas are stored, not enforced."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

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
from quorate.codecs.api.broker.alter_client_quotas_request import OpData
from quorate.codecs.api.broker.describe_client_quotas import ComponentData, EntityData, EntryData, ValueData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_EXACT, _DEFAULT, _ANY = range(3)


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
        error_message=None,
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
        if not component.entity_type or component.entity_type in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, "each component needs a different entity type")
        if component.entity_type not in (USER, CLIENT_ID, IP):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, f"unknown entity type; the types are {USER}, {CLIENT_ID} and {IP}"
            )
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"unknown match type {component.match_type}; the types are 0 to 2"
            )
        if (component.match is None) is (component.match_type == _EXACT):
            raise ApiError(ErrorCode.INVALID_REQUEST, "match type 0 needs a name, and others allow none")
        seen.add(component.entity_type)
    if IP in seen and len(seen) > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{IP} cannot be combined with {USER} or {CLIENT_ID}")


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
        named = {one.entity_type: one.entity_name for one in entry.entity}
        entity = frozenset(named.items())
        try:
            if entity in results:
                raise ApiError(ErrorCode.INVALID_REQUEST, "the entity is in the request twice")
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


def _changed(known: Mapping[str, float], entity: Mapping[str, str | None], ops: tuple[OpData, ...]) -> dict[str, float]:
    """Return an entity's quotas after a change. Raises `ApiError`."""
    if any(count > 1 for count in Counter(one.key for one in ops).values()):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a quota is in the request twice")
    check_entity(entity)
    result = dict(known)
    for one in ops:
        if one.remove:
            result.pop(one.key, None)
        else:
            check_quota(entity, one.key, one.value)
            result[one.key] = one.value
    return result

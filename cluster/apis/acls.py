"""DescribeAcls v1–3, CreateAcls v1–3, DeleteAcls v1–3: access control lists (KIP-140, KIP-290).

Without an authorizer the requests are rejected with SECURITY_DISABLED.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quorate.cluster.apis import Context, changes_metadata
from quorate.cluster.authorizer import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from quorate.cluster.controller.records import acl_record
from quorate.cluster.error_responses import missing_permission
from quorate.cluster.turns import Work
from quorate.codecs import Uuid
from quorate.codecs.api.broker import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from quorate.codecs.api.broker.create_acls import AclCreation, AclCreationResult
from quorate.codecs.api.broker.delete_acls import DeleteAclsFilterResult, DeleteAclsMatchingAcl
from quorate.codecs.api.broker.describe_acls import AclDescription, DescribeAclsResource
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.metadata_records import RemoveAccessControlEntryRecord
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__: list[str] = []

_UNKNOWN = 0
"""Code of UNKNOWN in each enum of ACLs. Kafka fails to parse a request with it."""
_MAX_ACLS = 10_000
"""ACLs that one request may create or delete (AclControlManager.MAX_RECORDS_PER_USER_OP)."""


def describe_acls(broker: "Broker", request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse | None:
    """Return the ACLs that match a filter, grouped by resource."""
    if _is_malformed(broker, context, [request]):
        return None
    if context.access is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    if not context.access.may_with_cluster(Operation.DESCRIBE):
        return DescribeAclsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            error_message=missing_permission(broker.cluster, Operation.DESCRIBE),
        )
    found: dict[tuple[ResourceType, str, PatternType], list[AclDescription]] = {}
    for _, acl in broker.cluster.state.acls.matching(_filter(request)):
        found.setdefault((acl.resource_type, acl.name, acl.pattern_type), []).append(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
        )
    return DescribeAclsResponse(
        resources=tuple(
            DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=tuple(acls))
            for (kind, name, pattern), acls in found.items()
        ),
    )


@changes_metadata
def create_acls(broker: "Broker", request: CreateAclsRequest, context: Context) -> Work[CreateAclsResponse | None]:
    """Create each ACL that does not exist yet."""
    if _is_malformed(broker, context, request.creations):
        return None
    cluster = broker.cluster
    if (refused := _refusal(broker, context)) is not None:
        return _all(request, refused.code, refused.message)
    results = []
    new: dict[Acl, None] = {}
    for creation in request.creations:
        one = _acl(creation)
        if _has_filter_values(one):
            return _all(request, ErrorCode.UNKNOWN_SERVER_ERROR, None)
        code, message = ErrorCode.NONE, ""
        try:
            _check(one)
            if not one.host and cluster.broker_configs.behaviour.acls_have_hosts:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Host pattern cannot be null or empty")
            if one not in cluster.state.acls:
                new[one] = None
        except ApiError as refusal:
            code, message = refusal.code, str(refusal)
        results.append(AclCreationResult(error_code=code, error_message=message))
        yield None
    if len(new) > _MAX_ACLS:
        message = f"{len(new):,} ACLs in one request; at most {_MAX_ACLS:,} are allowed"
        return _all(request, ErrorCode.POLICY_VIOLATION, message)
    records = []
    for one in new:
        acl_id = cluster.new_uuid()
        while acl_id in cluster.state.acls.by_id:  # a seeded generator repeats ids after a restart
            acl_id = cluster.new_uuid()
        records.append(acl_record(acl_id, one))
        yield None
    yield from cluster.controller.appending(records)
    return CreateAclsResponse(results=tuple(results))


def _acl(one: AclCreation) -> Acl:
    return Acl(
        resource_type=ResourceType(one.resource_type),
        name=one.resource_name,
        pattern_type=PatternType(one.resource_pattern_type),
        principal=one.principal,
        host=one.host,
        operation=Operation(one.operation),
        permission=Permission(one.permission_type),
    )


def _refusal(broker: "Broker", context: Context) -> ApiError | None:
    """Return the error for a client that may not change ACLs."""
    if context.access is None:
        return ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    if not context.access.may_with_cluster(Operation.ALTER):
        return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, missing_permission(broker.cluster, Operation.ALTER))
    return None


def _all(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    one = AclCreationResult(error_code=code, error_message=message)
    return CreateAclsResponse(results=(one,) * len(request.creations))


def _has_filter_values(acl: Acl) -> bool:
    """Return whether an ACL has a value for filters only. Kafka fails the whole request then."""
    return (
        acl.resource_type is ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation is Operation.ANY
        or acl.permission is Permission.ANY
    )


def _check(acl: Acl) -> None:
    """Raise `ApiError` for an invalid ACL (AclApis, AclControlManager.validateNewAcl)."""
    problem = None
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        problem = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not acl.name:
        problem = "Invalid empty resource name"
    elif acl.resource_type is ResourceType.UNKNOWN:
        problem = "Invalid resourceType UNKNOWN"
    elif acl.pattern_type is PatternType.UNKNOWN:
        problem = "Invalid patternType UNKNOWN"
    elif acl.operation is Operation.UNKNOWN:
        problem = "Invalid operation UNKNOWN"
    elif acl.permission is Permission.UNKNOWN:
        problem = "Invalid permissionType UNKNOWN"
    elif ":" not in acl.principal:
        problem = (
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


@changes_metadata
def delete_acls(broker: "Broker", request: DeleteAclsRequest, context: Context) -> Work[DeleteAclsResponse | None]:
    """Delete the ACLs that match any of the filters, and return them."""
    if _is_malformed(broker, context, request.filters):
        return None
    cluster = broker.cluster
    if (refused := _refusal(broker, context)) is not None:
        return _each(request, refused.code, refused.message)
    deleted: dict[Uuid, None] = {}
    results = []
    for one in request.filters:
        yield None
        wanted = _filter(one)
        if part := wanted.unknown_part:
            message = f"Unknown {part}."
            results.append(DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=message))
            continue
        found = cluster.state.acls.matching(wanted)
        deleted |= dict.fromkeys(acl_id for acl_id, _ in found)
        results.append(
            DeleteAclsFilterResult(error_message=None, matching_acls=tuple(_deleted(acl) for _, acl in found))
        )
    if len(deleted) > _MAX_ACLS:
        message = f"Cannot remove more than {_MAX_ACLS} acls in a single delete operation."
        return _each(request, ErrorCode.INVALID_REQUEST, message)
    yield from cluster.controller.appending(RemoveAccessControlEntryRecord(id=acl_id) for acl_id in deleted)
    return DeleteAclsResponse(filter_results=tuple(results))


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _each(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    one = DeleteAclsFilterResult(error_code=code, error_message=message)
    return DeleteAclsResponse(filter_results=(one,) * len(request.filters))


def _filter(one: Any) -> AclFilter:
    return AclFilter(
        resource_type=ResourceType(one.resource_type_filter),
        name=one.resource_name_filter,
        pattern_type=PatternType(one.pattern_type_filter),
        principal=one.principal_filter,
        host=one.host_filter,
        operation=Operation(one.operation),
        permission=Permission(one.permission_type),
    )


def _is_malformed(broker: "Broker", context: Context, parts: Sequence[Any]) -> bool:
    """Return whether an ACL or a filter has an UNKNOWN value, and close the connection if so.

    Kafka fails to parse such a request.
    """
    unknown = any(
        _UNKNOWN
        in (
            getattr(part, "resource_type", None),
            getattr(part, "resource_type_filter", None),
            getattr(part, "resource_pattern_type", None),
            getattr(part, "pattern_type_filter", None),
            part.operation,
            part.permission_type,
        )
        for part in parts
    )
    if unknown:
        broker.note(f"closed a connection of {context.connection.host[1:]}: an ACL or a filter has a value UNKNOWN")
        context.connection.close()
    return unknown

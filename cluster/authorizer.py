"""Kafka's StandardAuthorizer (KIP-801) without I/O: access control lists (ACLs) and decisions.

KIP-11, KIP-290, KIP-679. A matching DENY takes precedence over every ALLOW. If no ACL applies to a
resource, `allow.everyone.if.no.acl.found` decides. The permissions that each API requires are in
`quorate.cluster.authorization`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import IntEnum
from typing import Self

from quorate.codecs import Uuid
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.config import ConfigError

ANONYMOUS = "User:ANONYMOUS"
"""The principal of an unauthenticated client, also over TLS: listeners here do not request client
certificates.
"""
CLUSTER_NAME = "kafka-cluster"
"""The only resource name of type CLUSTER."""
CLASS_NAME = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
WILDCARD = "*"
_ANY_USER = "User:*"


class _Code(IntEnum):
    """Codes of protocol and records; unknown ones become `UNKNOWN`, as in Kafka's `fromCode`."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


class ResourceType(_Code):
    """Types of resources (ResourceType)."""

    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


class PatternType(_Code):
    """How an ACL matches resource names (PatternType). `MATCH` and `ANY` are for filters only."""

    UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = range(5)


class Operation(_Code):
    """Operations on resources (AclOperation)."""

    UNKNOWN, ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(10)
    DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT = range(10, 16)


class Permission(_Code):
    """Whether an ACL allows or denies (AclPermissionType)."""

    UNKNOWN, ANY, DENY, ALLOW = range(4)


_ALLOWED_BY: Mapping[Operation, frozenset[Operation]] = {
    **{one: frozenset({one, Operation.ALL}) for one in Operation},
    Operation.DESCRIBE: frozenset(
        {
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.ALL,
        }
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}),
}
"""Operation → operations whose ALLOW implies it. A DENY implies no other operation, except a DENY
of ALL.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """An access control entry with its resource pattern.

    `principal`: TYPE:NAME, such as "User:alice". `host`: an IP address, or "*".
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def is_about(self, principal: str, host: str) -> bool:
        """Return whether the entry applies to a client."""
        return self.principal in (principal, _ANY_USER) and self.host in (host, WILDCARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """A filter of ACLs (AclBindingFilter).

    `None` matches any name, principal or host; `ANY` matches any type, operation or permission.
    """

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    @property
    def unknown_part(self) -> str | None:
        """Kafka's name for the first part that has a code which Kafka does not know."""
        if 0 in (self.resource_type, self.pattern_type):
            return "patternFilter"
        return "entryFilter" if 0 in (self.operation, self.permission) else None

    def matches(self, acl: Acl) -> bool:
        """Return whether an ACL matches.

        A filter with `MATCH` selects the ACLs that apply to the named resource (KIP-290).
        """
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern_type is PatternType.LITERAL:
            return acl.name in (self.name, WILDCARD)
        return self.name.startswith(acl.name)


class Acls:
    """The ACLs of a cluster, indexed by id and by resource pattern."""

    def __init__(self) -> None:
        self.by_id: dict[Uuid, Acl] = {}
        self._by_pattern: dict[tuple[ResourceType, PatternType, str], dict[Acl, None]] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._by_pattern.get(_pattern_of(acl), ())

    def add(self, acl_id: Uuid, acl: Acl) -> None:
        """Add an ACL that does not exist yet."""
        self.by_id[acl_id] = acl
        self._by_pattern.setdefault(_pattern_of(acl), {})[acl] = None
        if acl.pattern_type is PatternType.PREFIXED:
            self._prefix_lengths.setdefault(acl.resource_type, Counter())[len(acl.name)] += 1

    def remove(self, acl_id: Uuid) -> None:
        """Remove an ACL. Raises `KeyError` if the id does not exist."""
        acl = self.by_id.pop(acl_id)
        same = self._by_pattern[_pattern_of(acl)]
        del same[acl]
        if not same:
            del self._by_pattern[_pattern_of(acl)]
        if acl.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[acl_length := len(acl.name)] -= 1
            if not lengths[acl_length]:
                del lengths[acl_length]

    def matching(self, wanted: AclFilter) -> list[tuple[Uuid, Acl]]:
        """Return the ACLs that match a filter, with their ids."""
        return [(acl_id, acl) for acl_id, acl in self.by_id.items() if wanted.matches(acl)]

    def applying_to(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """Yield the ACLs that apply to a resource."""
        found = self._by_pattern
        yield from found.get((resource_type, PatternType.LITERAL, name), ())
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                yield from found.get((resource_type, PatternType.PREFIXED, name[:length]), ())
        # As in Kafka, the literal "*" does not apply to names that begin with "*".
        if not name.startswith(WILDCARD):
            yield from found.get((resource_type, PatternType.LITERAL, WILDCARD), ())


def _pattern_of(acl: Acl) -> tuple[ResourceType, PatternType, str]:
    return acl.resource_type, acl.pattern_type, acl.name


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Decides which operations clients may perform.

    `super_users`: principals that may do everything. `allow_by_default`: whether to allow
    operations on resources to which no ACL applies.
    """

    acls: Acls
    super_users: frozenset[str] = field(default_factory=frozenset)
    allow_by_default: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str], acls: Acls) -> Self | None:
        """Create the authorizer that brokers' configs name, or return `None` without one.

        Raises `ConfigError` for a class other than Kafka's own, and for malformed super users.
        """
        name = properties.get("authorizer.class.name", "").strip()
        if not name:
            return None
        if name != CLASS_NAME:
            raise ConfigError(f"authorizer.class.name: class {name!r} not found; use {CLASS_NAME}, or leave it empty")
        return cls(
            acls,
            frozenset(_principals(properties.get("super.users", ""))),
            properties.get("allow.everyone.if.no.acl.found", "").strip().lower() == "true",
        )

    def allows(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether a principal may perform an operation, from a host such as "127.0.0.1"."""
        if principal in self.super_users:
            return True
        allowed = found = False
        for acl in self.acls.applying_to(resource_type, name):
            found = True
            if not acl.is_about(principal, host):
                continue
            if acl.permission is Permission.ALLOW:
                allowed = allowed or acl.operation in _ALLOWED_BY[operation]
            elif acl.operation in (operation, Operation.ALL):
                return False
        return allowed or (self.allow_by_default and not found)

    def allows_with_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether a principal may perform an operation on any possible resource of a type.

        KIP-679, `Authorizer.authorizeByResourceType`.
        """
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        patterns: dict[tuple[Permission, PatternType], set[str]] = {
            (permission, pattern): set()
            for permission in (Permission.ALLOW, Permission.DENY)
            for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
        }
        for acl in self.acls.by_id.values():
            if (
                acl.resource_type is resource_type
                and acl.is_about(principal, host)
                and acl.operation in (operation, Operation.ALL)
            ):
                patterns[acl.permission, acl.pattern_type].add(acl.name)
        denied = patterns[Permission.DENY, PatternType.LITERAL]
        denied_prefixes = patterns[Permission.DENY, PatternType.PREFIXED]
        allowed = patterns[Permission.ALLOW, PatternType.LITERAL]
        if WILDCARD in denied:
            return False
        return WILDCARD in allowed or any(
            not any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))
            for name in (allowed - denied) | patterns[Permission.ALLOW, PatternType.PREFIXED]
        )


def _principals(text: str) -> Iterable[str]:
    """Yield principals that are separated by semicolons. Raises `ConfigError`."""
    for one in map(str.strip, text.split(";")):
        if one and ":" not in one:
            raise ConfigError(
                f"super.users cannot have {one!r}: expected principalType:principalName, for example User:{one}; "
                "several are separated by semicolons"
            )
        if one:
            yield one


UNKNOWN_OPERATIONS = -(1 << 31)
"""In responses to requests that did not ask for authorized operations (KIP-430). The following sets
have one bit for each operation.
"""


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


GROUP_OPERATIONS_BEFORE_4_0 = _bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE)
_CONFIGS = _bits(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
GROUP_OPERATIONS = GROUP_OPERATIONS_BEFORE_4_0 | _CONFIGS
TOPIC_OPERATIONS = GROUP_OPERATIONS | _bits(Operation.WRITE, Operation.CREATE, Operation.ALTER)
CLUSTER_OPERATIONS = _CONFIGS | _bits(
    Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE
)

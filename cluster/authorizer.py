"""Kafka's StandardAuthorizer (KIP-801) without I/O: access control lists (ACLs), and what they allow to whom (KIP-11, KIP-290, KIP-679).

A DENY that matches counts before every ALLOW. Where no ACL is about a resource,
`allow.everyone.if.no.acl.found` decides. Which API needs which permission is not known here
(`quorate.cluster.authorization`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

from quorate.codecs import Uuid
from quorate.coordinator.config import ConfigError

__all__ = [
    "ANONYMOUS",
    "CLUSTER_NAME",
    "CLUSTER_OPERATIONS",
    "GROUP_OPERATIONS",
    "GROUP_OPERATIONS_BEFORE_4_0",
    "TOPIC_OPERATIONS",
    "UNKNOWN_OPERATIONS",
    "Acl",
    "AclFilter",
    "Acls",
    "Authorizer",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
]

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not logged in, over TLS, too: servers here ask for no
certificate.
"""
CLUSTER_NAME = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""
CLASS_NAME = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
WILDCARD = "*"
_EVERYBODY = "User:*"


class _Code(IntEnum):
    """Numbers that the protocol and the records have; one that Kafka does not know is `UNKNOWN`, as in its `fromCode`."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


class ResourceType(_Code):
    """Kinds of resources (ResourceType)."""

    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


class PatternType(_Code):
    """How an ACL names resources (PatternType). `MATCH` and `ANY` are for filters only."""

    UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = range(5)


class Operation(_Code):
    """What may be done with a resource (AclOperation)."""

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
"""The operations that an ALLOW of implies another one. A DENY implies no other operation, unless it
is of ALL.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """An access control entry: who may, or may not, do what with which resources, from where.

    `principal`: TYPE:NAME, such as "User:alice"; `host`: an address, or "*".
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def is_about(self, principal: str, host: str) -> bool:
        """Whether it says something about a client."""
        return self.principal in (principal, _EVERYBODY) and self.host in (host, WILDCARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which ACLs are meant (AclBindingFilter).

    `None` stands for any name, principal or host, `ANY` for any of the others.
    """

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    @property
    def is_unknown(self) -> bool:
        """Whether a part of it has a number that Kafka does not know."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches(self, acl: Acl) -> bool:
        """Whether an ACL is meant.

        With `MATCH`, those are that apply to the resource of the name (KIP-290).
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
    """The ACLs of a cluster, by their ids, and found by the resource that they apply to without a look at all."""

    def __init__(self) -> None:
        self.by_id: dict[Uuid, Acl] = {}
        self._by_pattern: dict[tuple[ResourceType, PatternType, str], dict[Acl, None]] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._by_pattern.get(_pattern_of(acl), ())

    def add(self, acl_id: Uuid, acl: Acl) -> None:
        """Enter an ACL that there is not yet."""
        self.by_id[acl_id] = acl
        self._by_pattern.setdefault(_pattern_of(acl), {})[acl] = None
        if acl.pattern_type is PatternType.PREFIXED:
            self._prefix_lengths.setdefault(acl.resource_type, Counter())[len(acl.name)] += 1

    def remove(self, acl_id: Uuid) -> None:
        """Remove an ACL. Raises `KeyError` if there is none with the id."""
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
        """The ACLs that a filter means, with their ids."""
        return [(acl_id, acl) for acl_id, acl in self.by_id.items() if wanted.matches(acl)]

    def applying_to(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """The ACLs that apply to a resource."""
        found = self._by_pattern
        yield from found.get((resource_type, PatternType.LITERAL, name), ())
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                yield from found.get((resource_type, PatternType.PREFIXED, name[:length]), ())
        # As in Kafka, "*" does not apply to a longer name that begins with it.
        if not name.startswith(WILDCARD):
            yield from found.get((resource_type, PatternType.LITERAL, WILDCARD), ())


def _pattern_of(acl: Acl) -> tuple[ResourceType, PatternType, str]:
    return acl.resource_type, acl.pattern_type, acl.name


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Decides what clients may do.

    `super_users`: principals that may do everything; `allow_by_default`: what is allowed where no
    ACL applies to a resource.
    """

    acls: Acls
    super_users: frozenset[str] = field(default_factory=frozenset)
    allow_by_default: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str], acls: Acls) -> Self | None:
        """The authorizer that brokers' configs ask for, `None` without one.

        Raises `ConfigError` for another class than Kafka's own, and for super users that are no
        principals.
        """
        name = properties.get("authorizer.class.name", "").strip()
        if not name:
            return None
        if name != CLASS_NAME:
            raise ConfigError(
                f"authorizer.class.name cannot be {name!r}: class not found; use {CLASS_NAME}, or nothing"
            )
        return cls(
            acls,
            frozenset(_principals(properties.get("super.users", ""))),
            properties.get("allow.everyone.if.no.acl.found", "").strip().lower() == "true",
        )

    def allows(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether a principal may do something with a resource, from an address such as "127.0.0.1"."""
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
        """Whether a principal may do something with at least one resource of a type that there could be (KIP-679, Authorizer.authorizeByResourceType)."""
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
    """Principals that are separated by semicolons. Raises `ConfigError`."""
    for one in map(str.strip, text.split(";")):
        if one and ":" not in one:
            raise ConfigError(
                f"super.users cannot have {one!r}: expected principalType:principalName, for example User:{one}; "
                "several are separated by semicolons"
            )
        if one:
            yield one


UNKNOWN_OPERATIONS = -(1 << 31)
"""In a response to a request that did not ask which operations are allowed (KIP-430). The sets
below are bits of operations.
"""


def _bits(*operations: Operation) -> int:
    return sum(1 << one for one in operations)


GROUP_OPERATIONS_BEFORE_4_0 = _bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE)
_CONFIGS = _bits(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
GROUP_OPERATIONS = GROUP_OPERATIONS_BEFORE_4_0 | _CONFIGS
TOPIC_OPERATIONS = GROUP_OPERATIONS | _bits(Operation.WRITE, Operation.CREATE, Operation.ALTER)
CLUSTER_OPERATIONS = _CONFIGS | _bits(
    Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE
)

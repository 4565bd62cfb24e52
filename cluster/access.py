"""`Access`: what the client of one request may do."""

from collections.abc import Iterable
from dataclasses import dataclass

from quorate.cluster.authorizer import ANONYMOUS, CLUSTER_NAME, Authorizer, Operation, ResourceType
from quorate.cluster.turns import Work
from quorate.coordinator.results import RequestContext

__all__ = ["Access", "AccessContext"]


class Access:
    """What one client may do.

    `user`: the name that it logged in by, if it did; `address`: where it is, as Java writes it,
    such as "/127.0.0.1".
    """

    __slots__ = ("_authorizer", "host", "principal")

    def __init__(self, authorizer: Authorizer, user: str | None, address: str) -> None:
        self._authorizer = authorizer
        self.principal = ANONYMOUS if user is None else f"User:{user}"
        self.host = address.removeprefix("/")

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether it may do something with a resource."""
        return self._authorizer.allows(self.principal, self.host, operation, resource_type, name)

    def may_with_cluster(self, operation: Operation) -> bool:
        """Whether it may do something with the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_with_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether it may do something with at least one resource of a type."""
        return self._authorizer.allows_with_any(self.principal, self.host, operation, resource_type)

    def topics(self, operation: Operation, names: Iterable[str]) -> frozenset[str]:
        """The topics with which it may do something."""
        return frozenset(name for name in set(names) if self.may(operation, ResourceType.TOPIC, name))

    def allowed(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> Work[set[str]]:
        """The resources with which it may do something, of so many that others have turns in between."""
        found: set[str] = set()
        for name in names:
            if name not in found and self.may(operation, resource_type, name):
                found.add(name)
            yield None
        return found

    def may_with_all(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> Work[bool]:
        """Whether it may do something with each of so many resources that others have turns in between."""
        for name in names:
            if not self.may(operation, resource_type, name):
                return False
            yield None
        return True

    def operations(self, resource_type: ResourceType, name: str, among: int) -> int:
        """The operations that it may do with a resource, of those `among` (KIP-430): a bit for each."""
        return sum(1 << one for one in Operation if among & (1 << one) and self.may(one, resource_type, name))

    def cluster_operations(self, among: int) -> int:
        """The same of the cluster: none without the permission to describe it."""
        if not self.may_with_cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME, among)


@dataclass(slots=True, kw_only=True)
class AccessContext(RequestContext):
    """What a request comes with. `access`: what its client may do, where there is an authorizer."""

    access: Access | None = None

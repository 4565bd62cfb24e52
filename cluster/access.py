"""`Access`: the permissions of the client that sent a request."""

from collections.abc import Iterable

from quorate.cluster.authorizer import ANONYMOUS, CLUSTER_NAME, Authorizer, Operation, ResourceType
from quorate.cluster.turns import Work
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.results import RequestContext


class Access:
    """The permissions of one client.

    `user`: the SASL user name, or `None` if the client has not authenticated. `address`: the
    client's IP address in Java's form, such as "/127.0.0.1".
    """

    __slots__ = ("_authorizer", "host", "principal")

    def __init__(self, authorizer: Authorizer, user: str | None, address: str) -> None:
        self._authorizer = authorizer
        self.principal = ANONYMOUS if user is None else f"User:{user}"
        self.host = address.removeprefix("/")

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may perform an operation on a resource."""
        return self._authorizer.allows(self.principal, self.host, operation, resource_type, name)

    def may_with_cluster(self, operation: Operation) -> bool:
        """Return whether the client may perform an operation on the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_with_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may perform an operation on at least one resource of a type."""
        return self._authorizer.allows_with_any(self.principal, self.host, operation, resource_type)

    def topics(self, operation: Operation, names: Iterable[str]) -> frozenset[str]:
        """Return the topics on which the client may perform an operation."""
        return frozenset(name for name in set(names) if self.may(operation, ResourceType.TOPIC, name))

    def allowed(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> Work[set[str]]:
        """Return the resources on which the client may perform an operation, checked in turns."""
        found: set[str] = set()
        for name in names:
            if name not in found and self.may(operation, resource_type, name):
                found.add(name)
            yield None
        return found

    def may_with_all(self, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> Work[bool]:
        """Return whether the client may perform an operation on all resources, in turns."""
        for name in names:
            if not self.may(operation, resource_type, name):
                return False
            yield None
        return True

    def operations(self, resource_type: ResourceType, name: str, among: int) -> int:
        """Return the operations in `among` that the client may perform on a resource (KIP-430).

        `among` and the result have one bit for each operation.
        """
        return sum(1 << one for one in Operation if among & (1 << one) and self.may(one, resource_type, name))

    def cluster_operations(self, among: int) -> int:
        """Return the operations in `among` that the client may perform on the cluster.

        0 without the permission to describe the cluster.
        """
        if not self.may_with_cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME, among)


@dataclass(slots=True, kw_only=True)
class AccessContext(RequestContext):
    """A `RequestContext` with permissions; `access` is `None` without an authorizer."""

    access: Access | None = None

"""Assignors by the names under which Kafka's configuration knows them. Modules are imported only when one of their assignors is asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from quorate.assignors.assignor import Assignor
from quorate.assignors.model import AssignorError

__all__ = ["CLIENT_ASSIGNORS", "SERVER_ASSIGNORS", "client_assignor", "server_assignor"]

CLIENT_ASSIGNORS: Mapping[str, str] = {
    "range": "quorate.assignors.range:RangeAssignor",
    "roundrobin": "quorate.assignors.roundrobin:RoundRobinAssignor",
    "sticky": "quorate.assignors.sticky:StickyAssignor",
    "cooperative-sticky": "quorate.assignors.sticky:CooperativeStickyAssignor",
    "lag-aware": "quorate.assignors.lag_aware:LagAwareAssignor",
}
"""Names for `partition.assignment.strategy`, and the classes that they stand for. `lag-aware` (KIP-169) is not in Kafka."""

SERVER_ASSIGNORS: Mapping[str, str] = {
    "uniform": "quorate.assignors.server:UniformAssignor",
    "range": "quorate.assignors.server:ServerRangeAssignor",
    "simple": "quorate.assignors.server:SimpleAssignor",
    "rack-aware-uniform": "quorate.assignors.rack_aware_uniform:RackAwareUniformAssignor",
}
"""Names for `group.consumer.assignors` (KIP-848) and, `simple`, `group.share.assignors` (KIP-932). `rack-aware-uniform` is not in Kafka."""


def client_assignor(name: str, **options: Any) -> Assignor:
    """A new client-side assignor of that name. `options` are those of its class. Raises `AssignorError` for names that are not known."""
    return _made(name, CLIENT_ASSIGNORS, "client-side", options)


def server_assignor(name: str, **options: Any) -> Assignor:
    """A new server-side assignor of that name. `options` are those of its class. Raises `AssignorError` for names that are not known."""
    return _made(name, SERVER_ASSIGNORS, "server-side", options)


def _made(name: str, known: Mapping[str, str], side: str, options: Mapping[str, Any]) -> Assignor:
    if name not in known:
        raise AssignorError(f"no {side} assignor is called {name!r}: known are {', '.join(known)}")
    module, _, cls = known[name].partition(":")
    assignor: Assignor = getattr(import_module(module), cls)(**options)
    return assignor

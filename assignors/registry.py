"""Registry of assignors by the names that Kafka's configs use.

A module is imported only when one of its assignors is requested.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

from quorate.assignors.assignor import Assignor
from quorate.assignors.model import AssignorError

__all__ = ["CLIENT_ASSIGNORS", "SERVER_ASSIGNORS", "assignor_class", "client_assignor", "server_assignor"]

CLIENT_ASSIGNORS: Mapping[str, str] = {
    "range": "quorate.assignors.range:RangeAssignor",
    "roundrobin": "quorate.assignors.roundrobin:RoundRobinAssignor",
    "sticky": "quorate.assignors.sticky:StickyAssignor",
    "cooperative-sticky": "quorate.assignors.sticky:CooperativeStickyAssignor",
    "lag-aware": "quorate.assignors.lag_aware:LagAwareAssignor",
}
"""Name in `partition.assignment.strategy` → class. `lag-aware` (KIP-169) is not in Kafka."""

SERVER_ASSIGNORS: Mapping[str, str] = {
    "uniform": "quorate.assignors.server:UniformAssignor",
    "range": "quorate.assignors.server:ServerRangeAssignor",
    "simple": "quorate.assignors.server:SimpleAssignor",
    "rack-aware-uniform": "quorate.assignors.rack_aware_uniform:RackAwareUniformAssignor",
}
"""Name in `group.consumer.assignors` (KIP-848) → class.

`simple` is for `group.share.assignors` (KIP-932).

`rack-aware-uniform` is not in Kafka.
"""


def assignor_class(name: str, side: Literal["client", "server"]) -> type[Assignor]:
    """Return the class of the assignor with that name. Raises `AssignorError` for unknown names."""
    known = CLIENT_ASSIGNORS if side == "client" else SERVER_ASSIGNORS
    if name not in known:
        raise AssignorError(f"unknown {side}-side assignor {name!r}; use one of {', '.join(known)}")
    module, _, cls = known[name].partition(":")
    found: type[Assignor] = getattr(import_module(module), cls)
    return found


def client_assignor(name: str, **options: Any) -> Assignor:
    """Create the client-side assignor with that name.

    `options` are passed to its class. Raises `AssignorError` for unknown names.
    """
    return assignor_class(name, "client")(**options)


def server_assignor(name: str, **options: Any) -> Assignor:
    """Create the server-side assignor with that name.

    `options` are passed to its class. Raises `AssignorError` for unknown names.
    """
    return assignor_class(name, "server")(**options)

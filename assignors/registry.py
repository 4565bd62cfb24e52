"""Assignors by the names under which Kafka's configuration knows them.

Modules are imported only when one of their assignors is asked for.
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
"""Names for `partition.assignment.strategy`, and the classes that they stand for. `lag-aware`
(KIP-169) is not in Kafka.
"""

SERVER_ASSIGNORS: Mapping[str, str] = {
    "uniform": "quorate.assignors.server:UniformAssignor",
    "range": "quorate.assignors.server:ServerRangeAssignor",
    "simple": "quorate.assignors.server:SimpleAssignor",
    "rack-aware-uniform": "quorate.assignors.rack_aware_uniform:RackAwareUniformAssignor",
}
"""Names for `group.consumer.assignors` (KIP-848) and, `simple`, `group.share.assignors` (KIP-932).
`rack-aware-uniform` is not in Kafka.
"""


def assignor_class(name: str, side: Literal["client", "server"]) -> type[Assignor]:
    """The class of the assignor of that name.

    Raises `AssignorError` for names that are not known.
    """
    known = CLIENT_ASSIGNORS if side == "client" else SERVER_ASSIGNORS
    if name not in known:
        raise AssignorError(f"no {side}-side assignor is called {name!r}: known are {', '.join(known)}")
    module, _, cls = known[name].partition(":")
    found: type[Assignor] = getattr(import_module(module), cls)
    return found


def client_assignor(name: str, **options: Any) -> Assignor:
    """A new client-side assignor of that name.

    `options` are those of its class. Raises `AssignorError` for names that are not known.
    """
    return assignor_class(name, "client")(**options)


def server_assignor(name: str, **options: Any) -> Assignor:
    """A new server-side assignor of that name.

    `options` are those of its class. Raises `AssignorError` for names that are not known.
    """
    return assignor_class(name, "server")(**options)

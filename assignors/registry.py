"""Registry of assignors by the names that Kafka's configs use, and of plug-ins.

A module is imported only when one of its assignors is requested.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

from quorate.assignors import plug_ins
from quorate.assignors.assignor import Assignor
from quorate.assignors.model import AssignorError

__all__ = [
    "CLIENT_ASSIGNORS",
    "SERVER_ASSIGNORS",
    "assignor_class",
    "client_assignor",
    "is_known",
    "server_assignor",
    "server_assignor_names",
]

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
    "lag-aware": "quorate.assignors.lag_aware:LagAwareAssignor",
}
"""Name in `group.consumer.assignors` (KIP-848) → class.

`simple` is for `group.share.assignors` (KIP-932).

`rack-aware-uniform` and `lag-aware` are not in Kafka.
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

    `name`: that of a built-in assignor or of an installed plug-in (entry point group
    `quorate.server_assignors`), or MODULE:CLASS. `options` are passed to its class. Raises
    `AssignorError` for unknown names, and for plug-ins that do not load.
    """
    if name in SERVER_ASSIGNORS:
        return assignor_class(name, "server")(**options)
    if not is_known(name):
        raise AssignorError(f"unknown server-side assignor {name!r}; use one of {server_assignor_names()}")
    return plug_ins.load(name, **options)


def is_known(name: str) -> bool:
    """Return whether a text names a server-side assignor: built in, installed, or MODULE:CLASS.

    Whether it can be loaded is unknown.
    """
    return name in SERVER_ASSIGNORS or plug_ins.is_path(name) or name in plug_ins.installed()


def server_assignor_names() -> str:
    """Return a text that lists server-side assignors, for errors."""
    installed = sorted(plug_ins.installed().keys() - SERVER_ASSIGNORS.keys())
    names = [name for name in SERVER_ASSIGNORS if name != "simple"]
    more = f"the installed {', '.join(installed)}, " if installed else ""
    return f"{', '.join(names)}, {more}or MODULE:CLASS"

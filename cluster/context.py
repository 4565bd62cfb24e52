"""`Context`: the request context with the client's connection."""

from dataclasses import dataclass

from quorate.cluster.access import AccessContext
from quorate.cluster.connection import Connection

__all__ = ["Context"]


@dataclass(slots=True, kw_only=True)
class Context(AccessContext):
    """What a handler receives with a request: the coordinators' context, and the connection.

    `large`: the request is large, so that work on it belongs in the thread.
    """

    connection: Connection
    large: bool = False

"""`Context`: what a request comes with, in addition to its body."""

from dataclasses import dataclass

from quorate.cluster.access import AccessContext
from quorate.cluster.connection import Connection

__all__ = ["Context"]


@dataclass(slots=True, kw_only=True)
class Context(AccessContext):
    """What a request comes with, beside its body: for the coordinators, and the connection that it came by.

    `large`: the request is, so that what is computed from it belongs in the thread.
    """

    connection: Connection
    large: bool = False

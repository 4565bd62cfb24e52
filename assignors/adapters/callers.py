"""Finds the client's object that is calling. Knows no client.

Neither kafka-python nor aiokafka tells an assignor which consumer it works for: an assignor gets
topics, or metadata. It needs more than that (`client_rack`, what the consumer owns, a way to ask
for a rebalance), and the object that has it is the one whose method calls.
"""

import sys
from typing import TypeVar

__all__ = ["calling"]

T = TypeVar("T")

DEPTH = 12
"""Frames to look through; the clients' calls are 1 to 4 deep."""


def calling(kind: type[T]) -> T | None:
    """The nearest `self` of type `kind` on the stack; `None` if no method of such an object is running, as in a test of an assignor alone."""
    frame = sys._getframe(1)
    for _ in range(DEPTH):
        found = frame.f_locals.get("self")
        if isinstance(found, kind):
            return found
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None

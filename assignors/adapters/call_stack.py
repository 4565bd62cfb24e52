"""Finds the client object that calls an assignor. Knows no client.

kafka-python and aiokafka pass topics or metadata to an assignor, but not the consumer. The adapters
need more (`client_rack`, owned partitions, a way to request a rebalance). The object that has it is
the one whose method is calling.
"""

import sys
from typing import TypeVar

T = TypeVar("T")

DEPTH = 12
"""Number of stack frames to search; clients call from 1 to 4 frames away."""


def find_caller(kind: type[T]) -> T | None:
    """Return the nearest `self` of type `kind` on the call stack.

    `None` if no method of such an object is running, as in a test of an assignor alone.
    """
    frame = sys._getframe(1)
    for _ in range(DEPTH):
        found = frame.f_locals.get("self")
        if isinstance(found, kind):
            return found
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None

"""Waiting for a condition, with a time limit and a message that says what was waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

from quorate.cluster.errors import ClusterError

__all__ = ["wait_for"]

T = TypeVar("T")


def wait_for(
    what: str,
    ready: Callable[[], T | None],
    timeout_ms: int,
    *,
    every_ms: int = 100,
    also: tuple[type[Exception], ...] = (),
) -> T:
    """The first result of `ready` that is not None (or False).

    `also`: exceptions that mean "not yet".

    Raises `ClusterError` naming `what`, and why it was not so at last, after `timeout_ms`.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    last: Exception | None = None
    while True:
        try:
            result = ready()
        except also as error:
            last = error
        else:
            last = None
            if result is not None and result is not False:
                return result
        if time.monotonic() >= deadline:
            because = f" (last: {type(last).__name__}: {last})" if last is not None else ""
            raise ClusterError(f"{what}: not within {timeout_ms / 1000:g} s{because}")
        time.sleep(every_ms / 1000)

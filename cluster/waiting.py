"""Waiting for a condition, with a timeout and an error that names the condition."""

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
    """Return the first result of `ready` that is neither `None` nor `False`.

    `also`: exceptions that mean that the condition is not met yet.

    Raises `ClusterError` with `what` and the last exception after `timeout_ms`.
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

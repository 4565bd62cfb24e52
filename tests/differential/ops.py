"""The table of the driver's ops, and common functions."""

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Op = Callable[[Json], Json]

OPS: dict[str, Op] = {}


class BadInput(Exception):
    """An invalid line."""


def op(name: str) -> Callable[[Op], Op]:
    """Register a function as an op.

    It takes the line and returns the response without `id` and `op`. `BadInput`, `KeyError`,
    `TypeError` and `ValueError` become errors of the driver.
    """

    def register(function: Op) -> Op:
        assert name not in OPS
        OPS[name] = function
        return function

    return register


def need(request: Json, field: str) -> Any:
    """Return a required field. Raises `BadInput` if it is missing."""
    if field not in request:
        raise BadInput(f"missing field {field!r}")
    return request[field]


def unhex(text: str | None) -> bytes | None:
    """Convert hex to bytes; `None` stays `None`."""
    return None if text is None else bytes.fromhex(text)

"""The table of the driver's ops, and common functions."""

from collections.abc import Callable
from typing import Any

__all__ = ["OPS", "Answer", "BadInput", "Op", "need", "op", "unhex"]

Answer = dict[str, Any]
Op = Callable[[Answer], Answer]

OPS: dict[str, Op] = {}


class BadInput(Exception):
    """An invalid line."""


def op(name: str) -> Callable[[Op], Op]:
    """Enter a function into the table.

    It takes the line and returns the response without `id` and `op`; `BadInput`, `KeyError`,
    `TypeError` and `ValueError` become errors of the driver.
    """

    def enter(function: Op) -> Op:
        assert name not in OPS
        OPS[name] = function
        return function

    return enter


def need(request: Answer, field: str) -> Any:
    """A field that has to be there."""
    if field not in request:
        raise BadInput(f"missing field {field!r}")
    return request[field]


def unhex(text: str | None) -> bytes | None:
    """Bytes from hex; `None` stays."""
    return None if text is None else bytes.fromhex(text)

"""How much of it the tests try where they could go on for ever: examples of properties, seeds of random histories.

`make test` tries three tenths; `make bench-diff` all of it (`--hypothesis-profile full`), before
its sweeps of other seeds.
"""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

from tests.conftest import FULL

__all__ = ["portion", "sampled"]

T = TypeVar("T")


def portion(full: int) -> int:
    """How many of `full` examples, or seeds, this run tries: at least three."""
    return min(full, max(3, full * settings().max_examples // FULL))


def sampled(items: Sequence[T]) -> list[T]:
    """That portion of a list, evenly spread over it."""
    count = min(portion(len(items)), len(items))
    return [items[number * len(items) // count] for number in range(count)]

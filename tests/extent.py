"""How many examples of properties and seeds of random histories a test run tries.

`make test` tries a quarter, or fewer where a test says so. `make test-full` and `make
bench-diff` try all (`--hypothesis-profile full`); the latter also tries other seeds.
"""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

from tests.conftest import FULL

T = TypeVar("T")


def is_full() -> bool:
    """Return whether this run tries everything, as `make test-full` does."""
    return settings().max_examples >= FULL


def portion(full: int, *, usual: int | None = None) -> int:
    """Return how many of `full` examples, or seeds, this run tries: at least three.

    `usual`: how many `make test` tries, instead of a quarter.
    """
    if usual is not None and not is_full():
        return usual
    return min(full, max(3, full * settings().max_examples // FULL))


def sampled(items: Sequence[T]) -> list[T]:
    """Return that portion of a list, evenly spread."""
    count = min(portion(len(items)), len(items))
    return [items[number * len(items) // count] for number in range(count)]

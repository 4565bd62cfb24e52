"""What the tests of a group share: started for the first of them, and closed after the last.

A group is run by one worker (tests/sharing_out.py). Without `__init__.py`, pytest keeps a fixture
of a package until the session ends, and an idle broker takes 2 % of a core.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

import pytest

from tests.sharing_out import group_of

T = TypeVar("T")

OPEN = pytest.StashKey[tuple[dict[object, Any], ExitStack]]()
"""What is open, by the function that started it."""


def of_group(config: pytest.Config, start: Callable[[], AbstractContextManager[T]]) -> T:
    """Return what `start` returned for the group of the running test.

    For fixtures of a module: those of a session would keep it.
    """
    if OPEN not in config.stash:
        config.stash[OPEN] = {}, ExitStack()
        config.add_cleanup(config.stash[OPEN][1].close)  # of a run that ends early
    found, ends = config.stash[OPEN]
    if start not in found:
        found[start] = ends.enter_context(start())
    value: T = found[start]
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    try:
        return (yield)
    finally:
        if OPEN in item.config.stash and (nextitem is None or group_of(nextitem.nodeid) != group_of(item.nodeid)):
            found, ends = item.config.stash[OPEN]
            found.clear()
            ends.close()

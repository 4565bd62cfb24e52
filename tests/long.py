"""Leaves out tests marked `long`, unless everything is to run (`make test-full`).

`make test` has a shorter test of the same behaviour for each of them.
"""

import pytest

from tests.extent import is_full


@pytest.hookimpl(trylast=True)  # after the folders have marked their tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `long`, unless all are to run, or one is chosen by its name."""
    if is_full():
        return
    named = [argument.partition("::")[2] for argument in config.args if "::" in argument]
    left_out = {
        item
        for item in items
        if item.get_closest_marker("long") and not any(item.nodeid.partition("::")[2].startswith(one) for one in named)
    }
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]

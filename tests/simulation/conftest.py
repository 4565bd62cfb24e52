"""What earlier tests left in a worker is no part of a simulation's garbage."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="session")
def frozen() -> None:
    """Freeze all objects once: a simulation collects garbage when it starts.

    After other tests of a worker, that took half a second each time.
    """
    gc.collect()
    gc.freeze()

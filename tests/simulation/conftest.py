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


@pytest.fixture(autouse=True)
def known_as_frozen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not count the frozen objects at each start: of millions, that takes 0.1 s."""
    if "thawed" not in request.fixturenames:
        monkeypatch.setattr("quorate.simulation.interpreter._is_frozen", lambda: True)

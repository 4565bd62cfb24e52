"""The pytest fixture `broker`, which modules of tests import."""

from collections.abc import Iterator

import pytest

from tests.broker.broker import VERSION, Broker, missing


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Start a broker that the tests of a module share; each uses its own topics and groups.

    It stops after the last one: a broker without clients takes 4 % of a core.
    """
    need_broker()
    with Broker() as running:
        yield running


def need_broker(version: str = VERSION) -> None:
    """Skip if Java or the jars are missing; CI turns skips into failures (tests/conftest.py)."""
    reason = missing(version)
    if reason is not None:
        pytest.skip(reason)

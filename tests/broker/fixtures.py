"""The pytest fixture `broker`, which the conftest.py of each folder that uses it imports."""

from collections.abc import Iterator

import pytest

from tests.broker.broker import VERSION, Broker, missing


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Start a broker that all tests share; each uses its own topics and groups."""
    need_broker()
    with Broker() as running:
        yield running


def need_broker(version: str = VERSION) -> None:
    """Skip if Java or the jars are missing; CI turns skips into failures (tests/conftest.py)."""
    reason = missing(version)
    if reason is not None:
        pytest.skip(reason)

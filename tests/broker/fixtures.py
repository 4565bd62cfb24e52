"""The pytest fixture `broker`; the conftest.py of each folder that wants it imports it from here."""

from collections.abc import Iterator

import pytest

from tests.broker.broker import Broker, missing


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker that all tests share, so they use topics and groups of their own."""
    need_broker()
    with Broker() as running:
        yield running


def need_broker() -> None:
    """Skip unless Java and the jars are there; CI turns skips into failures (tests/conftest.py)."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)

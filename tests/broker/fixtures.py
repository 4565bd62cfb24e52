"""The pytest fixture `broker`, which modules of tests import, or the conftest.py of a folder."""

from collections.abc import Iterator

import pytest

from tests.broker.broker import VERSION, Broker, missing


def running_broker() -> Iterator[Broker]:
    """Start a broker that tests share; each uses its own topics and groups.

    It stops after the last one: a broker without clients takes 4 % of a core.
    """
    need_broker()
    with Broker() as running:
        yield running


broker = pytest.fixture(running_broker, scope="module", name="broker")
broker_of_folder = pytest.fixture(running_broker, scope="package", name="broker")
"""For the conftest.py of a folder."""


def need_broker(version: str = VERSION) -> None:
    """Skip if Java or the jars are missing; CI turns skips into failures (tests/conftest.py)."""
    reason = missing(version)
    if reason is not None:
        pytest.skip(reason)

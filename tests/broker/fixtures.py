"""The pytest fixture `broker` for the conftest.py of a folder, and a check that brokers can run."""

from collections.abc import Iterator

import pytest

from tests.broker.broker import VERSION, Broker, missing


def running_broker() -> Iterator[Broker]:
    """Start a broker that tests share; each uses its own topics and groups.

    It stops after the last one: a broker without clients takes 1 % of a core.
    """
    need_broker()
    with Broker() as running:
        yield running


broker_of_folder = pytest.fixture(running_broker, scope="package", name="broker")


def need_broker(version: str = VERSION) -> None:
    """Skip if Java or the jars are missing; CI turns skips into failures (tests/conftest.py)."""
    reason = missing(version)
    if reason is not None:
        pytest.skip(reason)

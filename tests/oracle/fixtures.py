"""The pytest fixture `oracle`; the conftest.py of each folder that wants it imports it from here."""

from collections.abc import Iterator

import pytest

from tests.oracle.client import Oracle, missing


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Kafka's own classes. Where they are not built the test is skipped, with the remedy; CI turns skips into failures (tests/conftest.py)."""
    need_oracle()
    with Oracle() as running:
        yield running


def need_oracle() -> None:
    """Skip unless the oracle and its jars are there."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)

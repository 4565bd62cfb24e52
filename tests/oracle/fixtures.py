"""The pytest fixtures `oracle` and `oracle_4_0`; the conftest.py of each folder that wants them imports them from here."""

from collections.abc import Iterator

import pytest

from tests.oracle.client import Oracle, missing


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Kafka's own classes.

    Where they are not built the test is skipped, with the remedy; CI turns skips into failures
    (tests/conftest.py).
    """
    need_oracle()
    with Oracle() as running:
        yield running


@pytest.fixture(scope="session")
def oracle_4_0() -> Iterator[Oracle]:
    """The coordinator of Kafka 4.0 (tests/oracle_4_0/README.md)."""
    need_oracle("4.0")
    with Oracle(release="4.0") as running:
        yield running


def need_oracle(release: str | None = None) -> None:
    """Skip unless the oracle and its jars are there."""
    reason = missing(release)
    if reason is not None:
        pytest.skip(reason)

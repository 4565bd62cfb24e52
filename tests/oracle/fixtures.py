"""The pytest fixtures `oracle`, `oracle_4_3` and `oracle_4_0`, for the conftest.py of a folder."""

from collections.abc import Iterator

import pytest

from tests.oracle.client import Oracle, missing_reason


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Yield a program with Kafka's own classes.

    If it is not built, the test is skipped with the remedy. In CI a skip is a failure
    (tests/conftest.py).
    """
    need_oracle()
    with Oracle() as running:
        yield running


@pytest.fixture(scope="session")
def oracle_4_3() -> Iterator[Oracle]:
    """Yield a program with the classes of Kafka 4.3 (tests/oracle_4_3/README.md)."""
    need_oracle("4.3")
    with Oracle(release="4.3") as running:
        yield running


@pytest.fixture(scope="session")
def oracle_4_0() -> Iterator[Oracle]:
    """Yield a program with the coordinator of Kafka 4.0 (tests/oracle_4_0/README.md)."""
    need_oracle("4.0")
    with Oracle(release="4.0") as running:
        yield running


def need_oracle(release: str | None = None) -> None:
    """Skip the test if the oracle or its jars are missing."""
    reason = missing_reason(release)
    if reason is not None:
        pytest.skip(reason)

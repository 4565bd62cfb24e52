"""The pytest fixture `broker` for the conftest.py of a folder, and a check that brokers can run."""

import pytest

from tests.broker.broker import VERSION, Broker, missing
from tests.of_group import of_group


@pytest.fixture(scope="module", name="broker")
def broker_of_group(request: pytest.FixtureRequest) -> Broker:
    """Return a broker that the tests of a group share; each uses its own topics and groups."""
    need_broker()
    return of_group(request.config, Broker)


def need_broker(version: str = VERSION) -> None:
    """Skip if Java or the jars are missing; CI turns skips into failures (tests/conftest.py)."""
    reason = missing(version)
    if reason is not None:
        pytest.skip(reason)

"""Tests on real brokers: all need a container engine, which `make test` brings up, and print at the end which scenario ran on what."""

from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RAN = pytest.StashKey[list[tuple[str, str, str, str]]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "without_containers" not in item.keywords:
            item.add_marker("containers")


@pytest.fixture(autouse=True)
def one_after_the_other(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test did to the shared cluster's brokers is undone for the next one."""
    yield
    if "kafka_cluster" in request.fixturenames:
        cluster = request.getfixturevalue("kafka_cluster")
        cluster.heal()
        for broker in cluster.brokers:
            if broker.state == "paused":
                cluster.resume_broker(broker.id)
            elif broker.state == "stopped":
                cluster.start_broker(broker.id)

"""An embedded cluster with a manual clock, and a connection to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, ManualClock
from quorate.codecs import CONSUMER_OFFSETS
from tests.cluster.helpers.wire import Wire

ONE_EACH = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def cluster(clock: ManualClock) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties=ONE_EACH, seed=3, clock=clock) as made:
        made.call(lambda: made.core.internal_topic(CONSUMER_OFFSETS))
        yield made


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Any:
    """A topic with two partitions for each test."""
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    return cluster.call(lambda: cluster.core.create_topic(name, partitions=2, replicas=1))


@pytest.fixture
def wire(cluster: EmbeddedCluster) -> Iterator[Wire]:
    with Wire(cluster.core.brokers[1].port) as made:
        yield made

"""Embedded clusters for the tests of this folder."""

from collections.abc import Iterator

import pytest

from quorate.cluster import EmbeddedCluster, turns
from tests.oracle.fixtures import oracle as oracle

QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 2,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, racks=["a", "b", "c"], properties=QUICK, seed=1) as made:
        yield made


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each step of a large request as a turn of its own, however fast the machine is."""
    monkeypatch.setattr(turns, "_TURN_S", -1)
    monkeypatch.setattr(turns, "_SHORT_TURN_S", -1)
    monkeypatch.setattr(turns, "_TIMERS_S", -1)

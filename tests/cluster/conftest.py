"""Embedded clusters for the tests of this folder."""

from collections.abc import Iterator

import pytest

from quorate.cluster import EmbeddedCluster

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

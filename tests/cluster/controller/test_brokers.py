"""Brokers are added and removed while a cluster runs."""

import asyncio
from pathlib import Path

import pytest

from quorate.cluster import ClusterError, EmbeddedCluster
from quorate.codecs.api.broker import MetadataRequest, MetadataResponse
from tests.cluster.helpers.wire import Wire


def known(cluster: EmbeddedCluster) -> dict[int, str | None]:
    """Return the brokers in the metadata, with their racks."""
    with Wire(cluster.core.brokers[1].port) as wire:
        reported = wire.request(MetadataRequest(topics=()), 12)
    assert isinstance(reported, MetadataResponse)
    return {broker.node_id: broker.rack for broker in reported.brokers}


def test_an_added_broker_can_have_replicas_and_is_removed_without_them(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=2, racks=["a", "b"], data=tmp_path) as cluster:
        assert cluster.add_broker(rack="c") == 3
        assert known(cluster) == {1: "a", 2: "b", 3: "c"}
        topic = cluster.call(lambda: cluster.core.create_topic("orders", partitions=1, replicas=3))
        (partition,) = topic.partitions
        assert sorted(partition.replicas) == [1, 2, 3]
        assert (tmp_path / "broker-3" / "orders-0").is_dir()
        with pytest.raises(
            ClusterError, match="broker 3 has replicas of 1 partitions; move them to other brokers first"
        ):
            cluster.remove_broker(3)
        assert known(cluster) == {1: "a", 2: "b", 3: "c"}
        cluster.call(lambda: cluster.core.reassign(partition, (1, 2)))
        cluster.remove_broker(3)
        assert known(cluster) == {1: "a", 2: "b"}
        with pytest.raises(ClusterError, match="broker 3 does not exist"):
            cluster.start_broker(3)
    with EmbeddedCluster(brokers=2, data=tmp_path) as cluster:  # the third is forgotten
        assert known(cluster) == {1: "a", 2: "b"}


def test_a_restart_needs_as_many_brokers_as_before(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=1, data=tmp_path) as cluster:
        cluster.add_broker(rack="b")
    with pytest.raises(ClusterError, match="use 2 brokers"):
        EmbeddedCluster(brokers=1, data=tmp_path)
    with EmbeddedCluster(brokers=2, data=tmp_path) as cluster:
        assert known(cluster) == {1: None, 2: "b"}


def test_a_broker_with_a_port_in_use_is_not_added_and_the_last_one_is_not_removed() -> None:
    async def run() -> None:
        async with EmbeddedCluster() as cluster:
            with pytest.raises(ClusterError, match=r"await add_broker_async\(\)"):
                cluster.add_broker()
            with pytest.raises(ClusterError, match="the port is already in use"):
                await cluster.add_broker_async(port=cluster.core.brokers[1].port)
            assert list(cluster.core.brokers) == [1]
            with pytest.raises(ClusterError, match="broker 1 is the last broker"):
                cluster.remove_broker(1)
            assert cluster.core.brokers[1].alive
            assert await cluster.add_broker_async() == 2

    asyncio.run(run())

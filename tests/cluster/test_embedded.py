"""An embedded cluster for its owner: in a thread, in a loop, with racks."""

import asyncio
from collections.abc import Callable

import pytest

from quorate.cluster import ClusterError, EmbeddedCluster
from quorate.codecs import CONSUMER_OFFSETS


@pytest.mark.parametrize(
    ("options", "racks"),
    [
        ({}, [None]),
        ({"brokers": 2}, [None, None]),
        ({"racks": ["a", "b"]}, ["a", "b"]),
        ({"brokers": 3, "racks": ["a", "b"]}, ["a", "b", "a"]),
        ({"brokers": 1, "racks": ["a", "b"]}, ["a"]),
        ({"racks": ["a", ""]}, ["a", None]),
    ],
)
def test_racks_are_assigned_round_robin(options: dict[str, object], racks: list[str | None]) -> None:
    made: Callable[..., EmbeddedCluster] = EmbeddedCluster
    assert [broker.rack for broker in made(**options).brokers] == racks


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"brokers": 0}, "a cluster needs at least one broker"),
        ({"racks": "a,b"}, r"racks='a,b' is a text; give a list of racks: \['a', 'b'\]"),
        ({"brokers": 2, "ports": [9092]}, "1 ports for 2 brokers; give one port for each broker"),
    ],
)
def test_contradicting_parameters_are_rejected(options: dict[str, object], complaint: str) -> None:
    made: Callable[..., EmbeddedCluster] = EmbeddedCluster
    with pytest.raises(ClusterError, match=complaint):
        made(**options)


def test_addresses_are_not_known_before_the_start() -> None:
    cluster = EmbeddedCluster(brokers=2)
    with pytest.raises(ClusterError, match="the cluster has not started: use it in a `with` block"):
        cluster.bootstrap_servers  # noqa: B018  # a property
    with cluster:
        addresses = cluster.bootstrap_servers
        assert not any(one.endswith(":0") for one in addresses.split(","))
    assert cluster.bootstrap_servers == addresses, "a later start uses the same ports"


def test_a_running_cluster_can_be_entered_again_and_is_closed_once() -> None:
    with EmbeddedCluster() as cluster:
        with cluster as same:
            assert same is cluster
            assert cluster.brokers[0].state == "running"
        assert cluster.brokers[0].state == "stopped"


def test_an_unknown_group_has_a_coordinator() -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        assert CONSUMER_OFFSETS not in cluster.admin.list_topics()
        assert cluster.coordinator_of("g") in (1, 2)


def test_calls_in_the_clusters_loop_do_not_block_and_other_threads_wait() -> None:
    async def run() -> None:
        async with EmbeddedCluster(brokers=2) as cluster:
            with pytest.raises(ClusterError, match=r"await asyncio\.to_thread"):
                cluster.create_topic("orders")
            with pytest.raises(ClusterError, match=r"await start_broker_async\(2\)"):
                cluster.start_broker(2)
            await asyncio.to_thread(cluster.create_topic, "orders", partitions=3)
            assert len(cluster.core.topics["orders"].partitions) == 3
            cluster.stop_broker(1)
            await asyncio.to_thread(cluster.start_broker, 1, rack="b")
            assert [(broker.rack, broker.state) for broker in cluster.brokers] == [("b", "running"), (None, "running")]

    asyncio.run(run())


def test_the_certificate_is_removed_with_the_cluster() -> None:
    with EmbeddedCluster(security="SSL") as cluster:
        assert cluster.certificate is not None
        assert cluster.certificate.startswith("-----BEGIN CERTIFICATE-----")
    with pytest.raises(FileNotFoundError):
        _ = cluster.certificate

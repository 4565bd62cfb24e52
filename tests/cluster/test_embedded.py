"""An embedded cluster for its owner: in a thread, in a loop, with racks."""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import pytest

from quorate.cluster import ClusterError, EmbeddedCluster, ManualClock, Security
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
        ({"brokers": 10**20}, "brokers=100000000000000000000: a cluster has at most 1,000"),
        ({"racks": "a,b"}, r"racks='a,b' is a text; give a list of racks: \['a', 'b'\]"),
        ({"racks": [1, 2]}, "rack 1 is no text; racks are strings: '1'"),
        ({"racks": {"a"}}, "give a list of racks"),
        ({"brokers": "3"}, "brokers='3': give a whole number"),
        ({"brokers": 2, "ports": [9092]}, "1 ports for 2 brokers; give one port for each broker"),
        ({"ports": 9092}, "ports=9092: give a list with a port for each broker"),
        ({"ports": [1.5]}, r"ports=\[1.5\]: give a list"),
        ({"advertised_ports": ["x"]}, r"advertised_ports=\['x'\]: give a list"),
        ({"properties": [("a", 1)]}, "give a mapping"),
        ({"properties": {5: 5}}, "properties={5: 5}: give a mapping of Kafka's names to values"),
        ({"host": 5}, "host=5: give the address to listen on"),
        ({"advertised_host": 5}, "advertised_host=5: give the address that clients connect to"),
        ({"data": 5}, "data=5: give the path of a directory"),
        ({"clock": 5}, "clock=5: give a clock of quorate.cluster, such as ManualClock"),
        ({"clock": ManualClock}, "clock=<class .*ManualClock'>: give a clock"),
        ({"seed": "s"}, "seed='s': give a whole number"),
        ({"timeout_ms": "x"}, "timeout_ms='x': give milliseconds, above 0"),
        ({"timeout_ms": -5}, "timeout_ms=-5: give milliseconds, above 0"),
        ({"on_note": 5}, "on_note=5: give a function of one text"),
        ({"security": "ssl"}, "security 'ssl' is unknown; use PLAINTEXT, SASL_PLAINTEXT, SSL, SASL_SSL"),
        ({"security": None}, "security None is unknown"),
        ({"password": "p"}, "a password has no effect with security PLAINTEXT"),
        ({"password": "p", "security": Security()}, "a password has no effect with a Security"),
        ({"data": ""}, "data is empty: give a directory"),
        ({"host": ""}, "host is empty: give an address to listen on"),
    ],
)
def test_contradicting_parameters_are_rejected(options: dict[str, object], complaint: str) -> None:
    made: Callable[..., EmbeddedCluster] = EmbeddedCluster
    with pytest.raises(ClusterError, match=complaint):
        made(**options)


def test_a_limit_of_open_files_is_an_error_with_the_way_to_raise_it() -> None:
    code = (
        "import resource; from quorate.cluster import EmbeddedCluster; cluster = EmbeddedCluster(brokers=200); "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)); cluster.__enter__()"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60)
    assert re.search(
        r"ClusterError: broker \d+ cannot listen: this process has too many open files; raise the limit, .*`ulimit -n",
        done.stderr,
    )


def test_addresses_are_not_known_before_the_start() -> None:
    cluster = EmbeddedCluster(brokers=2)
    with pytest.raises(ClusterError, match="the cluster is not running: use it in a `with` block"):
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


def test_a_cluster_that_does_not_run_fails_at_once() -> None:
    cluster = EmbeddedCluster()
    with cluster:
        pass
    for call in (lambda: cluster.create_topic("t"), lambda: cluster.start_broker(1), cluster.add_broker):
        with pytest.raises(ClusterError, match="the cluster is not running"):
            call()


def test_a_second_start_does_not_stop_the_brokers() -> None:
    async def run() -> None:
        async with EmbeddedCluster() as cluster:
            with pytest.raises(ClusterError, match="the cluster is running already"):
                await cluster.start()
            assert cluster.brokers[0].state == "running"

    asyncio.run(run())


def test_a_cluster_is_stopped_where_it_runs() -> None:
    async def in_the_loop() -> None:
        async with EmbeddedCluster(security="SSL") as cluster:
            with pytest.raises(ClusterError, match=r"await stop\(\)"):
                cluster.close()
            assert cluster.certificate

    async def in_a_thread() -> None:
        with EmbeddedCluster() as cluster:
            with pytest.raises(ClusterError, match=r"call close\(\)"):
                await cluster.stop()
            assert cluster.brokers[0].state == "running"

    asyncio.run(in_the_loop())
    asyncio.run(in_a_thread())


FORKED = """
import os
from quorate.cluster import ClusterError, EmbeddedCluster

with EmbeddedCluster() as cluster:
    cluster.create_topic("t")
    if not os.fork():
        for call in (lambda: cluster.stop_broker(1), cluster.add_broker, lambda: cluster.admin):
            try:
                call()
            except ClusterError as error:
                print(error, flush=True)
        cluster.close()
        os._exit(0)
    os.wait()
    print(sorted(cluster.admin.list_topics()))
"""


def test_a_forked_process_does_not_wait_for_the_cluster() -> None:
    program = [sys.executable, "-P", "-W", "ignore", "-c", FORKED]
    lines = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert sum(line.startswith("the cluster runs in process") for line in lines) == 3
    assert lines[-1] == "['t']"


def test_racks_and_ports_of_added_brokers_are_checked() -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.stop_broker(2)
        for call in (lambda: cluster.add_broker(rack=5), lambda: cluster.start_broker(2, rack=5)):  # type: ignore[arg-type]
            with pytest.raises(ClusterError, match="rack 5 is no text"):
                call()
        with pytest.raises(ClusterError, match=r"cannot listen on 127\.0\.0\.1:99999: ports are numbers up to 65535"):
            cluster.add_broker(port=99_999)
        assert len(cluster.brokers) == 2


def test_topics_with_the_brokers_defaults_and_missing_topics() -> None:
    with EmbeddedCluster(properties={"num.partitions": 3}, timeout_ms=5000) as cluster:
        cluster.create_topic("t", partitions=-1, replicas=-1)
        assert len(cluster.describe_topic("t")["partitions"]) == 3
        for name in ("partitions", "replicas"):
            with pytest.raises(ClusterError, match=f"{name} is '3', which is no whole number"):
                cluster.create_topic("u", **{name: "3"})  # type: ignore[arg-type]
        calls: Sequence[tuple[Callable[..., None], dict[str, object], str]] = (
            (cluster.create_topic, {"name": 5}, "topic 5 is no text"),
            (cluster.create_topic, {"name": "u", "assignment": 5}, "assignment=5: give the broker ids"),
            (
                cluster.create_topic,
                {"name": "u", "assignment": [["1"]]},
                r"assignment=\[\['1'\]\]: give the broker ids",
            ),
            (cluster.add_partitions, {"topic": "t", "count": 4, "assignment": [None]}, r"assignment=\[None\]: give"),
            (cluster.restart_broker, {"broker": "1"}, "broker '1' does not exist; brokers: 1"),
        )
        for call, given, complaint in calls:
            with pytest.raises(ClusterError, match=complaint):
                call(**given)
        with pytest.raises(ClusterError, match="topic nonesuch does not exist"):
            cluster.topology("t", "nonesuch")


def test_an_unknown_group_has_a_coordinator() -> None:
    with EmbeddedCluster(brokers=2, properties={"broker.session.timeout.ms": 100}) as cluster:
        assert CONSUMER_OFFSETS not in cluster.admin.list_topics()
        cluster.cut(2, 1)
        cluster.wait_fenced(2)
        assert cluster.coordinator_of("g") == 1  # does not wait for the broker that is cut off


def test_calls_in_the_clusters_loop_do_not_block_and_other_threads_wait() -> None:
    async def run() -> None:
        async with EmbeddedCluster(brokers=2) as cluster:
            with pytest.raises(ClusterError, match=r"await asyncio\.to_thread"):
                cluster.create_topic("orders")
            with pytest.raises(ClusterError, match=r"await start_broker_async\(2\)"):
                cluster.start_broker(2)
            await asyncio.to_thread(cluster.create_topic, "orders", partitions=3)
            assert len(cluster.core.topics["orders"].partitions) == 3
            with pytest.raises(ClusterError, match=r"await asyncio\.to_thread"):
                cluster.create_topic("more")  # the admin client exists now
            cluster.stop_broker(1)
            await asyncio.to_thread(cluster.start_broker, 1, rack="b")
            assert [(broker.rack, broker.state) for broker in cluster.brokers] == [("b", "running"), (None, "running")]

    asyncio.run(run())


def test_the_admin_client_is_closed_with_a_cluster_of_the_callers_loop() -> None:
    async def run() -> None:
        async with EmbeddedCluster() as cluster:
            await asyncio.to_thread(cluster.create_topic, "orders")

    before = threading.active_count()
    asyncio.run(run())
    assert threading.active_count() == before


def test_the_certificate_is_removed_with_the_cluster() -> None:
    with EmbeddedCluster(security="SSL") as cluster:
        assert cluster.certificate is not None
        assert cluster.certificate.startswith("-----BEGIN CERTIFICATE-----")
    with pytest.raises(FileNotFoundError):
        _ = cluster.certificate


def test_replicas_that_are_not_in_sync_are_named() -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=1, replicas=2)
        cluster.stop_broker(2)
        cluster.wait_fenced(2)
        cluster.timeout_ms = 100
        with pytest.raises(ClusterError, match=r"not within 0\.1 s; in sync are orders-0: \[1\] of \[[12], [12]\]"):
            cluster.wait_in_sync()

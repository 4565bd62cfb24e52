"""HTTP endpoints of `quorate serve`: health, readiness and metrics."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.cluster.waiting import wait_for
from quorate.integration import metrics
from tests.integration.over_http import got

pytestmark = pytest.mark.without_containers


def test_not_ready_while_a_broker_is_down_and_unhealthy_while_the_cluster_does_not_respond(monkeypatch):
    monkeypatch.setattr(metrics, "TIMEOUT_MS", 100)
    with EmbeddedCluster(racks=["a", "b"]) as kafka, metrics.serving_http(kafka, "127.0.0.1", 0) as port:
        url = f"http://127.0.0.1:{port}"
        kafka.stop_broker(2)
        assert got(f"{url}/ready") == (503, '{"status": "brokers 2 are down"}\n')
        assert got(f"{url}/health")[0] == 200
        go_on = threading.Event()
        waiting = threading.Thread(target=kafka.call, args=[lambda: go_on.wait(10)])
        waiting.start()
        for path in ("health", "ready", "metrics"):
            assert got(f"{url}/{path}") == (503, '{"status": "the cluster did not respond within 100 ms"}\n')
        go_on.set()
        waiting.join()


@pytest.fixture
def http() -> Iterator[int]:
    """Start a cluster with HTTP endpoints, and return the port."""
    with EmbeddedCluster(racks=["a"]) as kafka, metrics.serving_http(kafka, "127.0.0.1", 0) as port:
        yield port


def test_a_connection_that_does_not_complete_its_request_is_closed_and_others_are_served(http, monkeypatch, capfd):
    timers = []

    class ByHand(threading.Timer):
        def start(self) -> None:
            timers.append(self)

    monkeypatch.setattr("quorate.integration.metrics.Timer", ByHand)
    with socket.create_connection(("127.0.0.1", http), timeout=30) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nAccept: ")
        wait_for("it is listened to", lambda: bool(timers), 10_000)
        assert got(f"http://127.0.0.1:{http}/health")[0] == 200
        assert timers[0].interval == 10
        timers[0].function()
        assert slow.recv(1) == b""
    assert got(f"http://127.0.0.1:{http}/health")[0] == 200
    assert capfd.readouterr().err == ""


def test_requests_above_the_limit_of_concurrent_ones_get_503_with_retry_after(http):
    with ExitStack() as stack:
        for _ in range(32):  # who says nothing yet
            stack.enter_context(socket.create_connection(("127.0.0.1", http)))
        third = stack.enter_context(socket.create_connection(("127.0.0.1", http), timeout=30))
        assert third.makefile("rb").readline() == b"HTTP/1.0 503 Service Unavailable\r\n"
    wait_for("they are gone", lambda: got(f"http://127.0.0.1:{http}/health")[0] == 200, 10_000)


def test_histograms_count_every_request_once():
    with EmbeddedCluster(metered=True) as kafka:
        kafka.create_topic("t")
        meter = kafka.core.meter
        families = {family.name: family for family in metrics.ClusterCollector(kafka).collect()}
        total = sum(meter.requests.values())
        samples = families["quorate_request_seconds"].samples
        assert sum(s.value for s in samples if s.labels.get("le") == "+Inf") == total > 0
        assert sum(s.value for s in samples if s.name.endswith("_count")) == total

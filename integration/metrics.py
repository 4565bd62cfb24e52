"""HTTP endpoints of `quorate serve`: /metrics for Prometheus, and the probes /health and /ready.

All values of a response are read in one step in the cluster's thread, so that they are consistent.
"""

import json
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from threading import BoundedSemaphore, Thread, Timer
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from quorate.cluster.meter import BUCKETS_S, Meter

if TYPE_CHECKING:
    from quorate.cluster.embedded import EmbeddedCluster

TIMEOUT_MS = 2_000
"""A cluster that does not respond for so long is not healthy."""

REQUEST_MS = 10_000
"""Connections are closed after this time, if the request is not sent or the response not read."""

MAX_CONCURRENT = 32
"""Requests that are served concurrently; further ones get 503 with Retry-After. `http.server`
limits the size of each: lines of 64 KiB, 100 headers.
"""


class ClusterCollector(Collector):
    """Metrics of a cluster, computed on each scrape."""

    def __init__(self, kafka: "EmbeddedCluster") -> None:
        self._kafka = kafka

    def describe(self) -> list[Metric]:
        """Return nothing: metrics depend on the cluster, which need not run yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. Raises `TimeoutError` if the cluster does not respond."""
        yield from self._kafka.call(lambda: list(self._metrics()), timeout_ms=TIMEOUT_MS)

    def _metrics(self) -> Iterator[Metric]:
        core = self._kafka.core
        up = GaugeMetricFamily("quorate_broker_up", "Whether a broker is up.", labels=["broker", "rack"])
        connections = GaugeMetricFamily("quorate_connections", "Open client connections.", labels=["broker"])
        for broker in core.brokers.values():
            up.add_metric([str(broker.id), broker.rack or ""], int(broker.alive))
            connections.add_metric([str(broker.id)], len(broker.connections))
        yield up
        yield connections
        yield from _counted(core.meter) if core.meter is not None else ()
        groups = GaugeMetricFamily("quorate_groups", "Groups, by kind and state.", labels=["kind", "state"])
        kinds = Counter(
            (str(group.kind), group.state)
            for runtime in core.groups.runtimes().values()
            for group in runtime.shard.state.groups.values()
        )
        for (kind, state), number in sorted(kinds.items()):
            groups.add_metric([kind, state], number)
        yield groups
        ends = GaugeMetricFamily("quorate_log_end_offset", "Log end offset.", labels=["topic", "partition"])
        starts = GaugeMetricFamily("quorate_log_start_offset", "Log start offset.", labels=["topic", "partition"])
        for topic in core.topics.values():
            for partition in topic.partitions:
                where = [topic.name, str(partition.index)]
                ends.add_metric(where, partition.log.next_offset)
                starts.add_metric(where, partition.log.start_offset)
        yield ends
        yield starts
        yield CounterMetricFamily(
            "quorate_failures", "Requests that failed because of a defect of quorate.", value=core.failure_count
        )


def _counted(meter: Meter) -> Iterator[Metric]:
    requests = CounterMetricFamily("quorate_requests", "Requests handled.", labels=["broker", "api", "version"])
    for (broker, api, version), number in sorted(meter.requests.items()):
        requests.add_metric([str(broker), api, str(version)], number)
    yield requests
    errors = CounterMetricFamily(
        "quorate_errors", "Error codes in responses, at any level.", labels=["broker", "api", "error"]
    )
    for (broker, api, error), number in sorted(meter.errors.items()):
        errors.add_metric([str(broker), api, error], number)
    yield errors
    seconds = HistogramMetricFamily(
        "quorate_request_seconds", "Duration of requests, including waiting.", labels=["broker", "api"]
    )
    for (broker, api), timing in sorted(meter.timings.items()):
        buckets = list(zip([*map(str, BUCKETS_S), "+Inf"], accumulate(timing.buckets), strict=True))
        seconds.add_metric([str(broker), api], buckets, timing.sum_s)
    yield seconds
    for name, help_, counts in (
        ("quorate_received_bytes", "Bytes of requests.", meter.received_bytes),
        ("quorate_sent_bytes", "Bytes of responses.", meter.sent_bytes),
        ("quorate_connections_accepted", "Accepted connections.", meter.accepted),
        ("quorate_connections_refused", "Connections refused because of the connection limit.", meter.refused),
    ):
        family = CounterMetricFamily(name, help_, labels=["broker"])
        for number_of, count in sorted(counts.items()):
            family.add_metric([str(number_of)], count)
        yield family


def _ready(kafka: "EmbeddedCluster") -> str:
    """Return why the cluster is not ready; "" if it is."""
    down = [str(broker.id) for broker in kafka.core.brokers.values() if not broker.alive]
    return f"brokers {', '.join(down)} are down" if down else ""


@contextmanager
def serving_http(kafka: "EmbeddedCluster", host: str, port: int) -> Iterator[int]:
    """Serve HTTP while the block runs; yields the port. Raises `OSError` if it is in use."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ClusterCollector(kafka))

    class Handler(BaseHTTPRequestHandler):
        """Handles GET requests of three paths."""

        def handle(self) -> None:
            """Serve one connection, for at most `REQUEST_MS`."""
            timeout = Timer(REQUEST_MS / 1000, self._disconnect)
            timeout.daemon = True
            timeout.start()
            try:
                super().handle()
            finally:
                timeout.cancel()

        def _disconnect(self) -> None:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def do_GET(self) -> None:
            """Handle a request."""
            path = self.path.partition("?")[0]
            try:
                if path == "/metrics":
                    encode, kind = choose_encoder(self.headers.get("Accept", ""))
                    self._respond(200, kind, encode(registry))
                elif path in ("/health", "/ready"):
                    missing = kafka.call(lambda: _ready(kafka), timeout_ms=TIMEOUT_MS)
                    if path == "/health":
                        missing = ""
                    self._status(503 if missing else 200, missing or "ok")
                else:
                    self._status(404, "the paths are /metrics, /health and /ready")
            except TimeoutError:
                self._status(503, f"the cluster did not respond within {TIMEOUT_MS} ms")

        def _status(self, code: int, text: str) -> None:
            self._respond(code, "application/json", (json.dumps({"status": text}) + "\n").encode())

        def _respond(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
            """Log nothing: stderr is for the cluster's notes."""

    class Server(ThreadingHTTPServer):
        """A server with a limited number of threads, which do not delay its end."""

        daemon_threads = True
        request_queue_size = 2 * MAX_CONCURRENT
        free = BoundedSemaphore(MAX_CONCURRENT)

        def process_request(self, request: Any, client_address: Any) -> None:
            """Serve a connection in a thread, unless there are too many."""
            if self.free.acquire(blocking=False):
                try:
                    super().process_request(request, client_address)
                except BaseException:  # no thread could be started
                    self.free.release()
                    raise
                return
            with suppress(OSError):
                request.setblocking(False)
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\n\r\n")
            self.shutdown_request(request)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            """Serve a connection, then release its place."""
            try:
                super().process_request_thread(request, client_address)
            finally:
                self.free.release()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore errors of clients that disconnected."""
            if not isinstance(sys.exception(), OSError):
                super().handle_error(request, client_address)

        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = Server((host, port), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="quorate-http", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

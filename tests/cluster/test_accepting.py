"""Brokers that listen, accept connections, and stop and start while they accept."""

import asyncio
import errno
import gc
import logging
import os
import socket
import warnings
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from quorate.cluster import ClusterError, EmbeddedCluster, listener
from tests import loops
from tests.cluster.helpers.wire import Wire

Run = Callable[..., bytes | None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine in an event loop."""

    new_loop = asyncio.new_event_loop
    if request.param == "uvloop":
        if loops.uvloop is None:
            pytest.skip("uvloop is not installed")
        new_loop = loops.uvloop.new_event_loop

    def run_in_loop(main: Callable[[], object]) -> object:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(main())

    return run_in_loop


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_accepted_while_a_broker_stops_is_closed(run: Run, turns: int) -> None:
    """It is accepted in steps, and the broker may stop between two of them."""

    async def main() -> bytes:
        async with EmbeddedCluster() as cluster:
            broker = cluster.core.brokers[1]
            with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as client:
                for _ in range(turns):
                    await asyncio.sleep(0)
                broker.stop()
                for _ in range(5):
                    await asyncio.sleep(0)
                try:
                    return client.recv(1)
                except ConnectionResetError:
                    return b""

    gc.collect()  # sockets that kafka-python left open in earlier tests
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert run(main) == b""
        gc.collect()
    assert [str(one.message) for one in warned if "unclosed" in str(one.message)] == []


def test_a_broker_restarts_on_its_port_at_once(run: Run) -> None:
    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            broker = cluster.core.brokers[1]
            port = broker.port
            broker.stop()
            await broker.start()
            assert (broker.port, broker.serving) == (port, True)
            with socket.create_connection(("127.0.0.1", port), timeout=10):
                while not broker.connections:
                    await asyncio.sleep(0)

    run(main)


def test_all_pending_connections_are_accepted_together(run: Run) -> None:
    """In a storm of joining members, one connection per turn let most members wait for long."""

    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            broker = cluster.core.brokers[1]
            with ExitStack() as clients:
                for _ in range(100):
                    clients.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=10))
                for _ in range(6):
                    await asyncio.sleep(0)
                assert len(broker.connections) == 100

    run(main)


def test_connections_wait_while_the_process_has_too_many_open_files(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio's own server (Python 3.11) logs a thousand errors a second."""
    accept, failed = socket.socket.accept, []

    def accept_third_time(listening: socket.socket) -> tuple[socket.socket, object]:
        if len(failed) < 2:
            failed.append(listening)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", accept_third_time)
    monkeypatch.setattr(listener, "_RETRY_S", 0.01)

    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            broker = cluster.core.brokers[1]
            with socket.create_connection(("127.0.0.1", broker.port), timeout=10):
                while not broker.connections:
                    await asyncio.sleep(0.001)

    with caplog.at_level(logging.ERROR):
        run(main)
    assert [record.message.splitlines()[0] for record in caplog.records] == ["accepting connections failed"] * 2


def test_a_broker_that_stopped_while_it_could_not_accept_stays_stopped(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: socket.socket) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket.socket, "accept", fail)
    monkeypatch.setattr(listener, "_RETRY_S", 0.01)

    async def main() -> None:
        problems: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        async with EmbeddedCluster() as cluster:
            broker = cluster.core.brokers[1]
            with socket.create_connection(("127.0.0.1", broker.port), timeout=10):
                while not problems:
                    await asyncio.sleep(0.001)
                broker.stop()
                await asyncio.sleep(0.05)
        assert len(problems) == 1

    run(main)


def test_a_broker_listens_on_all_addresses_of_a_name_on_one_port(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def addresses(*_: object) -> list[object]:
        return [
            (socket.AF_INET, ("192.0.2.1", 0)),  # not of this machine, as ::1 without IPv6
            (socket.AF_INET6, ("::1", 0, 0, 0)),
            (socket.AF_INET, ("127.0.0.1", 0)),
        ]

    async def main() -> None:
        async with EmbeddedCluster(host="here.example") as cluster:
            for host in ("::1", "127.0.0.1"):
                socket.create_connection((host, cluster.core.brokers[1].port), timeout=10).close()

    monkeypatch.setattr(listener, "_addresses", addresses)
    run(main)


def test_a_broker_listens_on_a_name(run: Run) -> None:
    async def main() -> None:
        async with EmbeddedCluster(host="localhost") as cluster:
            socket.create_connection(("localhost", cluster.core.brokers[1].port), timeout=10).close()

    run(main)


def test_a_host_of_another_machine_is_an_error_and_no_socket_stays_open(run: Run) -> None:
    async def main() -> None:
        await EmbeddedCluster(host="192.0.2.1").start()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(ClusterError, match=r"cannot listen on 192\.0\.2\.1:0: not an address of this machine"):
            run(main)
        gc.collect()
    assert warned == []


def test_a_failed_tls_handshake_closes_one_connection_and_logs_nothing(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with EmbeddedCluster(security="SSL") as cluster:
            port = cluster.core.brokers[1].port

            def connect() -> None:
                with Wire(port) as wire:
                    wire.socket.sendall(b"this is not TLS")
                    while wire.socket.recv(100):  # an alert
                        pass

            await asyncio.to_thread(connect)

    with caplog.at_level(logging.ERROR):
        run(main)
    assert caplog.records == []

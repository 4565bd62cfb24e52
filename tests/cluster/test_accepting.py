"""Brokers that stop and start while connections are being accepted."""

import asyncio
import gc
import socket
import warnings

import pytest

from quorate.cluster import EmbeddedCluster


@pytest.mark.parametrize("turns", range(5))
def test_a_connection_accepted_while_a_broker_stops_is_closed(turns: int) -> None:
    """asyncio accepts in steps; a server closed between two steps never closes the connection."""

    async def run() -> bytes:
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

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert asyncio.run(run()) == b""
        gc.collect()
    assert [str(one.message) for one in warned if "unclosed transport" in str(one.message)] == []


def test_a_broker_restarts_on_its_port_at_once() -> None:
    async def run() -> None:
        async with EmbeddedCluster() as cluster:
            broker = cluster.core.brokers[1]
            port = broker.port
            broker.stop()
            await broker.start()
            assert (broker.port, broker.serving) == (port, True)

    asyncio.run(run())

"""Simulated TCP: order, splits, back pressure, and connections that break."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.simulation import Chaos, Simulation, simulate

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

OPEN: list[asyncio.StreamWriter] = []
"""Writers to close after a scenario."""


def run(scenario: Callable[[Simulation], Awaitable[object]], **rates: Any) -> None:
    async def closing(sim: Simulation) -> None:
        await scenario(sim)
        while OPEN:
            OPEN.pop().close()

    simulate(closing, seeds=10, chaos=Chaos.none(**rates), shrink=False)


async def pair(sim: Simulation) -> tuple[Streams, Streams]:
    """Return the streams of a client and of its server."""
    accepted: asyncio.Future[Streams] = sim.loop.create_future()
    server = await asyncio.start_server(lambda *streams: accepted.set_result(streams), "127.0.0.1", 5000)
    client = await asyncio.open_connection("kafka.example", 5000)
    found = client, await accepted
    server.close()
    OPEN.extend(writer for _, writer in found)
    return found


def test_bytes_arrive_in_order_and_in_pieces() -> None:
    sizes = set()

    async def scenario(sim: Simulation) -> None:
        (_, writer), (reader, _) = await pair(sim)
        sent = bytes(range(256)) * 4
        for start in range(0, 1024, 64):
            writer.write(sent[start : start + 64])
        writer.close()
        received = b""
        while part := await reader.read(10_000):
            sizes.add(len(part))
            received += part
        assert received == sent

    run(scenario, split=0.5)
    assert len(sizes) > 20


def test_a_connection_without_a_server_is_refused() -> None:
    async def scenario(sim: Simulation) -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", 1)
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 7)
        with pytest.raises(OSError, match="in use"):
            await asyncio.start_server(lambda *_: None, "127.0.0.1", 7)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", 7)

    run(scenario)


def test_a_writer_waits_for_a_reader_that_does_not_read() -> None:
    async def scenario(sim: Simulation) -> None:
        (_, writer), (reader, _) = await pair(sim)
        for _ in range(100):
            writer.write(bytes(10_000))
        draining = asyncio.create_task(writer.drain())
        await asyncio.sleep(10)
        assert not draining.done()
        received = 0
        while received < 1_000_000:
            received += len(await reader.read(100_000))
        await asyncio.sleep(1)
        assert draining.done()

    run(scenario)


def test_a_cut_resets_both_ends() -> None:
    async def scenario(sim: Simulation) -> None:
        (client, _), (server, writer) = await pair(sim)
        writer.write(b"lost")
        (link,) = sim.loop.network.open_links()
        link.cut()
        for reader in (client, server):
            with pytest.raises(ConnectionResetError):
                await reader.read(10)
        assert not sim.loop.network.links

    run(scenario)


def test_a_half_open_end_notices_when_it_writes() -> None:
    async def scenario(sim: Simulation) -> None:
        (client, writer), (server, _) = await pair(sim)
        (link,) = sim.loop.network.open_links()
        link.half_open(link.client)
        with pytest.raises(ConnectionResetError):
            await server.read(10)
        reading = asyncio.create_task(client.read(10))
        await asyncio.sleep(1_000)
        assert not reading.done()
        writer.write(b"hello")
        with pytest.raises(ConnectionResetError):
            await reading

    run(scenario)


def test_a_stalled_connection_delivers_later() -> None:
    async def scenario(sim: Simulation) -> None:
        (_, writer), (server, _) = await pair(sim)
        (link,) = sim.loop.network.open_links()
        link.stall(5_000_000_000)
        before = sim.now_ms
        writer.write(b"a")
        writer.write(b"b")
        assert await server.readexactly(2) == b"ab"
        assert 4_990 < sim.now_ms - before < 5_100

    run(scenario, split=0.5)


def test_an_abort_loses_what_was_sent() -> None:
    async def scenario(sim: Simulation) -> None:
        (client, writer), (server, _) = await pair(sim)
        writer.write(b"x" * 100)
        writer.transport.abort()
        with pytest.raises(ConnectionResetError):
            await server.readexactly(101)
        assert await client.read() == b""

    run(scenario)

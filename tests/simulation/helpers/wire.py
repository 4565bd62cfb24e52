"""A client of a few lines, for scenarios of groups that have no asyncio client."""

import asyncio
from typing import Any

from quorate.codecs.api import api_of, decode_api
from quorate.codecs.api.broker import FindCoordinatorRequest, MetadataRequest
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.codecs.message import Message
from quorate.integration.verify.wire import framed
from quorate.simulation import Simulation


class Connection:
    """One connection to a broker; one request at a time."""

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._name = name
        self._reader, self._writer = reader, writer
        self._number = 0

    async def request(self, request: Message, version: int) -> Any:
        """Return the response. Raises `OSError`, and `EOFError` if the connection closes."""
        self._number += 1
        api = api_of(type(request))
        self._writer.write(framed(request, version, self._number, self._name))
        async with asyncio.timeout(10):
            frame = await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4), "big"))
        return decode_api(api.response.cls, frame, version, position=4 + api.response_header_version(version))

    def close(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()


class Client:
    """Connections to the brokers of a cluster: one to the coordinator, one to each leader.

    Methods raise `OSError`, `EOFError` and `TimeoutError`.
    """

    def __init__(self, sim: Simulation, name: str, group: str, servers: str) -> None:
        self.sim = sim
        self.name = name
        self.group = group
        self.addresses = [(host, int(port)) for host, port in (one.split(":") for one in servers.split(","))]
        self.connections: dict[Any, Connection] = {}
        self.topic_id: Any = None
        self.leaders: dict[int, int] = {}
        """Partition → id of its leader."""

    async def connection(self, key: Any, host: str, port: int) -> Connection:
        """Return the connection of this key, and make it if there is none."""
        found = self.connections.get(key)
        if found is None:
            reader, writer = await asyncio.open_connection(host, port)
            found = self.connections[key] = Connection(self.name, reader, writer)
        return found

    def drop(self, key: Any) -> None:
        """Close a connection."""
        if (found := self.connections.pop(key, None)) is not None:
            found.close()

    def close(self) -> None:
        """Close all connections."""
        for key in list(self.connections):
            self.drop(key)

    async def ask_any(self, request: Message, version: int) -> Any:
        """Return the response of one of the brokers."""
        reader, writer = await asyncio.open_connection(*self.sim.random.choice(self.addresses))
        wire = Connection(self.name, reader, writer)
        try:
            return await wire.request(request, version)
        finally:
            wire.close()

    async def find_coordinator(self) -> tuple[str, int]:
        """Return the address of the group's coordinator."""
        response = await self.ask_any(FindCoordinatorRequest(coordinator_keys=(self.group,)), 4)
        found = response.coordinators[0]
        if found.error_code:
            raise OSError(f"no coordinator: {found.error_code}")
        return found.host, found.port

    async def find_leaders(self, topic: str) -> dict[int, tuple[str, int]]:
        """Return the address of each broker; note the topic's id and leaders."""
        response = await self.ask_any(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12)
        self.topic_id = response.topics[0].topic_id
        self.leaders = {one.partition_index: one.leader_id for one in response.topics[0].partitions}
        return {one.node_id: (one.host, one.port) for one in response.brokers}

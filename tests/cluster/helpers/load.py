"""Many consumers on an embedded cluster while brokers, connections and members fail; invariants.

Members implement the consumer protocol (KIP-848) in asyncio in a few lines, so that hundreds fit
into one process. They record ownership of partitions, processed records and committed offsets.
`Ledger` raises as soon as a partition has two owners, or a committed offset decreases.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from quorate.cluster import Disconnect, EmbeddedCluster, Error
from quorate.codecs import Uuid
from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    api_of,
    decode_api,
)
from quorate.codecs.api.broker import FetchRequest, FindCoordinatorRequest
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from quorate.codecs.batches import BatchProblem, read_batches
from quorate.codecs.message import Message
from quorate.integration.verify.wire import framed

TOPIC = "load"
PROPERTIES = {
    "offsets.topic.num.partitions": 8,
    "group.consumer.session.timeout.ms": 20_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}
_TROUBLES = ("kill", "kill", "leave", "rack", "cut", "broker")
_BEAT_S = 0.5
_WAIT_MS = 300
_REJOIN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class Broken(AssertionError):
    """An invariant is violated."""


@dataclass
class Ledger:
    """The history of all groups.

    `owners`: (group, partition) → member. `processed`: offsets. `committed`: the last committed
    offset.
    """

    owners: dict[tuple[str, int], str] = field(default_factory=dict)
    processed: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    rejoined: int = 0

    def takes(self, group: str, partition: int, member: str) -> None:
        other = self.owners.get((group, partition))
        if other not in (None, member):
            raise Broken(f"{group}: partition {partition} is {member}'s while it is still {other}'s")
        self.owners[group, partition] = member

    def gives(self, group: str, partition: int, member: str) -> None:
        if self.owners.get((group, partition)) == member:
            del self.owners[group, partition]

    def commits(self, group: str, partition: int, offset: int) -> None:
        self.finds(group, partition, offset)
        self.committed[group, partition] = offset

    def finds(self, group: str, partition: int, offset: int) -> None:
        before = self.committed.get((group, partition), 0)
        if offset < before:
            raise Broken(f"{group}: the offset of partition {partition} went from {before} back to {offset}")


class Member:
    """A consumer that runs until it is stopped, whatever happens to brokers and connections."""

    def __init__(self, load: "Load", group: str, rack: str | None) -> None:
        self.load = load
        self.group = group
        self.rack = rack
        self.id = str(uuid.UUID(int=load.random.getrandbits(128), version=4))
        self.epoch = 0
        self.wanted: set[int] = set()
        self.positions: dict[int, int] = {}
        self.stopped = False
        self._connections: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Lock]] = {}
        self._coordinator: int | None = None
        self.task = asyncio.create_task(self._run())

    async def kill(self) -> None:
        """Stop without leaving the group, as in a crash."""
        self.stopped = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self._drop_partitions()
        self._close()

    async def leave(self) -> None:
        """Commit and leave the group."""
        self.stopped = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self._close()  # a response that timed out may still arrive
        try:
            await self._commit(list(self.positions))
            await self._beat(leaving=True)
        except (OSError, EOFError, TimeoutError):
            pass
        self._drop_partitions()
        self._close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_beat = 0.0
        while True:
            try:
                if loop.time() >= next_beat:
                    await self._beat()
                    next_beat = loop.time() + _BEAT_S
                if self.positions:
                    await self._fetch()
                    await self._commit(list(self.positions))
                else:
                    await asyncio.sleep(0.1)
            except (OSError, EOFError, TimeoutError):
                self._close()
                self._coordinator = None
                await asyncio.sleep(0.05)

    # ---- the group

    async def _beat(self, leaving: bool = False) -> None:
        joins = self.epoch == 0
        owned = tuple(sorted(self.positions))
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=-1 if leaving else self.epoch,
            rack_id=self.rack if joins else None,
            rebalance_timeout_ms=10_000 if joins else -1,
            subscribed_topic_names=(TOPIC,) if joins else None,
            topic_partitions=()
            if joins
            else (TopicPartitions(topic_id=self.load.topic_id, partitions=owned),)
            if owned
            else (),
        )
        reply = await self._request_coordinator(request, 1)
        if reply is None or leaving:
            return
        if reply.error_code in _REJOIN:
            self.load.ledger.rejoined += 1
            self._drop_partitions()
            self.epoch = 0
            return
        if reply.error_code:
            self._coordinator = None
            return
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.wanted = {index for part in reply.assignment.topic_partitions for index in part.partitions}
        if lost := set(self.positions) - self.wanted:
            await self._commit(sorted(lost))
            for index in lost & set(self.positions):
                del self.positions[index]
                self.load.ledger.gives(self.group, index, self.id)
            await self._beat()  # reports the revocation, and receives the next assignment
        elif self.wanted - set(self.positions):
            await self._take()

    async def _take(self) -> None:
        """Begin to consume partitions at their committed offsets.

        Partitions that fail are tried again after the next heartbeat.
        """
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=tuple(sorted(self.wanted - set(self.positions))))
        requested = OffsetFetchRequestGroup(
            group_id=self.group, member_id=self.id, member_epoch=self.epoch, topics=(topic,)
        )
        reply = await self._request_coordinator(OffsetFetchRequest(groups=(requested,)), 9)
        if reply is None or reply.groups[0].error_code:
            return
        for part in reply.groups[0].topics[0].partitions:
            offset = max(part.committed_offset, 0)
            self.load.ledger.takes(self.group, part.partition_index, self.id)
            self.load.ledger.finds(self.group, part.partition_index, offset)
            self.positions[part.partition_index] = offset

    async def _commit(self, partitions: list[int]) -> None:
        ledger = self.load.ledger
        due = [
            index for index in partitions if self.positions.get(index, 0) > ledger.committed.get((self.group, index), 0)
        ]
        if not due:
            return
        offsets = {index: self.positions[index] for index in due}
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=self.id,
            generation_id_or_member_epoch=self.epoch,
            topics=(
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=tuple(
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                        for index, offset in offsets.items()
                    ),
                ),
            ),
        )
        reply = await self._request_coordinator(request, 9)
        for part in reply.topics[0].partitions if reply is not None else ():
            if not part.error_code:
                ledger.commits(self.group, part.partition_index, offsets[part.partition_index])

    def _drop_partitions(self) -> None:
        for index in self.positions:
            self.load.ledger.gives(self.group, index, self.id)
        self.positions.clear()
        self.wanted.clear()

    # ---- records

    async def _fetch(self) -> None:
        by_leader: dict[int, list[int]] = {}
        for index in self.positions:
            by_leader.setdefault(self.load.leader(index), []).append(index)
        by_leader.pop(-1, None)
        if not by_leader:
            await asyncio.sleep(0.05)
        requested = (self._fetch_from(broker, indexes) for broker, indexes in by_leader.items())
        for failed in await asyncio.gather(*requested, return_exceptions=True):  # wait for all of them
            if failed is not None:
                raise failed

    async def _fetch_from(self, broker: int, indexes: list[int]) -> None:
        parts = tuple(
            FetchPartition(partition=index, fetch_offset=self.positions[index], partition_max_bytes=1 << 20)
            for index in indexes
        )
        request = FetchRequest(max_wait_ms=_WAIT_MS, min_bytes=1, topics=(FetchTopic(topic=TOPIC, partitions=parts),))
        reply = await self._request(broker, request, 11)
        for topic in reply.responses:
            for part in topic.partitions:
                if not part.error_code and part.records:
                    self._process(part.partition_index, part.records)

    def _process(self, index: int, records: bytes) -> None:
        done = self.load.ledger.processed.setdefault((self.group, index), set())
        for read in read_batches(records):
            assert not isinstance(read, BatchProblem), read
            for offset in range(read.header.base_offset, read.header.last_offset + 1):
                done.add(offset)
                self.positions[index] = max(self.positions.get(index, 0), offset + 1)

    # ---- the wire

    async def _request_coordinator(self, request: Message, version: int) -> Any:
        if self._coordinator is None:
            alive = self.load.random.choice(sorted(self.load.cluster.core.brokers))
            found = await self._request(alive, FindCoordinatorRequest(coordinator_keys=(self.group,)), 4)
            if found.coordinators[0].error_code:
                await asyncio.sleep(0.05)
                return None
            self._coordinator = found.coordinators[0].node_id
        return await self._request(self._coordinator, request, version)

    async def _request(self, broker: int, request: Message, version: int) -> Any:
        if broker not in self._connections:
            port = self.load.cluster.core.brokers[broker].port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            self._connections[broker] = (reader, writer, asyncio.Lock())
        reader, writer, lock = self._connections[broker]
        api = api_of(type(request))
        async with lock, asyncio.timeout(10):
            writer.write(framed(request, version, client_id="load"))
            size = int.from_bytes(await reader.readexactly(4), "big")
            frame = await reader.readexactly(size)
        return decode_api(api.response.cls, frame, version, position=4 + api.response_header_version(version))

    def _close(self) -> None:
        for _, writer, _ in self._connections.values():
            writer.transport.abort()
        self._connections.clear()


class Load:
    """Groups of members on a cluster, with random failures.

    `troubles`: how often each kind of failure occurred.
    """

    def __init__(self, cluster: EmbeddedCluster, *, groups: int, members: int, partitions: int, seed: int) -> None:
        self.cluster = cluster
        self.random = Random(seed)
        self.ledger = Ledger()
        topic = cluster.call(lambda: cluster.core.create_topic(TOPIC, partitions=partitions, replicas=3))
        self.partitions = topic.partitions
        self.topic_id: Uuid = topic.id
        self.names = [f"group-{number}" for number in range(groups)]
        self.size = members
        self.members: list[Member] = []
        self.troubles: dict[str, int] = {}

    def leader(self, partition: int) -> int:
        return self.partitions[partition].leader

    async def run(self, seconds: float, produce: Callable[[], Awaitable[object]]) -> None:
        """Run members and `produce` repeatedly, with random failures; then read to the end.

        Raises `Broken`.
        """
        loop = asyncio.get_running_loop()
        self.members = [self._member(group) for group in self.names for _ in range(self.size)]
        faults = self.cluster.faults
        faults.add(Disconnect(), probability=0.001, client_id="load", seed=1)
        faults.add(Error(ErrorCode.REQUEST_TIMED_OUT, applied=True), api="OffsetCommit", probability=0.01, seed=2)
        until = loop.time() + seconds
        next_trouble = loop.time() + 1
        while loop.time() < until or self.troubles.keys() < set(_TROUBLES):  # on a busy machine failures are rarer
            await produce()
            if loop.time() >= next_trouble:
                next_trouble += 0.2
                await self._trouble()
            self._check()
        faults.rules.clear()
        await self._until_everything_is_processed(until + 300)
        for member in self.members:
            await member.kill()
        await asyncio.sleep(0.1)  # until connections are closed
        self._check()

    def _member(self, group: str) -> Member:
        return Member(self, group, self.random.choice(("a", "b", "c", None)))

    def _check(self) -> None:
        for member in self.members:
            if member.task.done() and not member.task.cancelled():
                member.task.result()

    async def _trouble(self) -> None:
        kind = self.random.choice(_TROUBLES)
        self.troubles[kind] = self.troubles.get(kind, 0) + 1
        loop = asyncio.get_running_loop()
        if kind in ("kill", "leave", "rack"):
            place = self.random.randrange(len(self.members))
            member = self.members[place]
            await (member.kill() if kind == "kill" else member.leave())
            self.members[place] = self._member(member.group)
            return
        broker = self.random.choice(sorted(self.cluster.core.brokers))
        if kind == "cut":
            await loop.run_in_executor(None, self.cluster.call, self.cluster.core.brokers[broker].drop_clients)
        else:  # its leaderships move to the other two brokers, not all of them back
            rack = self.random.choice(("a", "b", "c"))
            await loop.run_in_executor(None, lambda: self.cluster.restart_broker(broker, rack=rack))

    async def _until_everything_is_processed(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        while missing := self._missing():
            if loop.time() > until:
                raise Broken(f"not everything was processed: {missing[:5]} and {max(len(missing) - 5, 0)} more")
            self._check()
            await asyncio.sleep(0.2)

    def _missing(self) -> list[tuple[str, int, int]]:
        return [
            (group, partition.index, partition.log.next_offset - len(done))
            for group in self.names
            for partition in self.partitions
            if len(done := self.ledger.processed.get((group, partition.index), set())) < partition.log.next_offset
        ]

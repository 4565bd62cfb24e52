"""A scenario of share groups (KIP-932).

Its consumer sends requests itself, as there is no asyncio client for share groups.
"""

import asyncio
from contextlib import suppress
from typing import Any

from quorate.codecs.api import ShareGroupHeartbeatRequest
from quorate.codecs.api.broker import ShareFetchRequest
from quorate.codecs.api.broker.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import read_batches
from quorate.codecs.configs import ConfigResourceType
from quorate.simulation import InvariantBroken, Simulation
from tests.simulation.helpers.scenarios import TOPIC, Work, end
from tests.simulation.helpers.wire import Client

GROUP = "shares"
LIMIT = 10
"""`group.share.delivery.count.limit`: a record that is not accepted by then is archived."""
ACCEPT, RELEASE, REJECT = 1, 2, 3
PROPERTIES = {
    "group.share.delivery.count.limit": LIMIT,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.record.lock.duration.ms": 5_000,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.session.timeout.ms": 6_000,
    "group.share.session.timeout.ms": 10_000,
    "share.coordinator.state.topic.num.partitions": 2,
    "share.coordinator.snapshot.update.records.per.snapshot": 5,
}


class Shared:
    """What all members of the group have seen. A record is its partition and offset."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.accepted: dict[tuple[int, int], str] = {}
        self.values: dict[tuple[int, int], int] = {}

    def processed(self, record: tuple[int, int]) -> None:
        """Note that a member has processed a record."""
        self.sim.consumed(self.values[record])


class ShareMember(Client):
    """A member that accepts, releases and rejects records; it has a session at each leader."""

    def __init__(self, shared: Shared, name: str, servers: str) -> None:
        super().__init__(shared.sim, name, GROUP, servers)
        self.shared = shared
        self.epochs: dict[int, int] = {}
        self.fetched: dict[int, set[int]] = {}
        """Leader → partitions in the session."""
        self.acks: dict[int, dict[int, list[tuple[int, int]]]] = {}
        """Leader → partition → offsets with the type of acknowledgement to send."""
        self.assigned: tuple[int, ...] = ()

    def drop(self, key: Any) -> None:
        """Close a connection. A share session at a broker ends with it."""
        super().drop(key)
        for of_session in (self.epochs, self.fetched, self.acks):
            of_session.pop(key, None)

    async def heartbeats(self) -> None:
        """Stay a member until cancelled."""
        epoch, coordinator = 0, None
        while True:
            try:
                if coordinator is None:
                    coordinator = await self.find_coordinator()
                wire = await self.connection("group", *coordinator)
                request = ShareGroupHeartbeatRequest(
                    group_id=GROUP,
                    member_id=self.name,
                    member_epoch=epoch,
                    subscribed_topic_names=None if epoch else (TOPIC,),
                )
                response = await wire.request(request, 1)
                match response.error_code:
                    case 0:
                        epoch = response.member_epoch
                        if response.assignment is not None:
                            topics = response.assignment.topic_partitions
                            self.assigned = topics[0].partitions if topics else ()
                            self.topic_id = topics[0].topic_id if topics else self.topic_id
                    case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_MEMBER_EPOCH:
                        epoch, self.assigned = 0, ()
                    case _:
                        coordinator = None
                        self.drop("group")
            except (OSError, EOFError, TimeoutError):
                coordinator = None
                self.drop("group")
            await asyncio.sleep(0.5)

    async def consume(self, for_s: float | None = None) -> None:
        """Fetch and acknowledge, until cancelled or for some seconds; then stop without leaving."""
        beating = asyncio.create_task(self.heartbeats(), name=f"heartbeats of {self.name}")
        until = self.sim.now_ms + (1e12 if for_s is None else for_s * 1000)
        try:
            while self.sim.now_ms < until:
                try:
                    brokers = await self.find_leaders(TOPIC)
                    for _ in range(5):
                        for leader in sorted({self.leaders.get(index, -1) for index in self.assigned} & brokers.keys()):
                            await self.fetch(leader, brokers[leader])
                        await asyncio.sleep(0.1)
                except (OSError, EOFError, TimeoutError):
                    await asyncio.sleep(0.2)
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating
            self.close()

    async def fetch(self, leader: int, address: tuple[str, int]) -> None:
        """Send the acknowledgements for a leader, and take what it delivers."""
        own = [index for index in self.assigned if self.leaders.get(index) == leader]
        epoch = self.epochs.get(leader, 0)
        sent = {} if epoch == 0 else self.acks.pop(leader, {})
        session = self.fetched.get(leader, set())
        partitions = tuple(
            FetchPartition(partition_index=index, acknowledgement_batches=_batches(sent.get(index, ())))
            for index in sorted({*own, *sent})
            if index not in session or index in sent
        )
        forgotten = tuple(sorted(session - {*own, *sent}))
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=epoch,
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=10,
            batch_size=10,
            topics=(FetchTopic(topic_id=self.topic_id, partitions=partitions),) if partitions else (),
            forgotten_topics_data=(ForgottenTopic(topic_id=self.topic_id, partitions=forgotten),) if forgotten else (),
        )
        before = dict(self.shared.accepted)
        for index, offsets in sent.items():
            for offset, kind in offsets:
                if kind != RELEASE:
                    self.shared.processed((index, offset))
        try:
            wire = await self.connection(leader, *address)
            response = await wire.request(request, 1)
        except (OSError, EOFError, TimeoutError):
            self.drop(leader)
            raise
        if response.error_code:
            self.drop(leader)
            return
        self.epochs[leader] = epoch + 1
        self.fetched[leader] = {*own, *sent}
        found = {one.partition_index: one for topic in response.responses for one in topic.partitions}
        for index, offsets in sent.items():
            if index in found and found[index].acknowledge_error_code == 0:
                self.confirmed(index, offsets)
        for index, one in found.items():
            if one.error_code == 0:
                self.take(leader, index, one, before)

    def confirmed(self, index: int, offsets: list[tuple[int, int]]) -> None:
        """Note acknowledgements that the leader has confirmed."""
        for offset, kind in offsets:
            if kind != RELEASE:
                self.shared.accepted[index, offset] = self.name

    def take(self, leader: int, index: int, one: Any, before: dict[tuple[int, int], str]) -> None:
        """Check what was delivered, and choose how to acknowledge it.

        `before`: what was accepted before the fetch was sent.
        """
        for batch in read_batches(bytes(one.records or b"")):
            for offset, record in enumerate(batch.records(), batch.header.base_offset):
                self.shared.values[index, offset] = int(record.value)
        for acquired in one.acquired_records:
            if acquired.delivery_count > LIMIT:
                raise InvariantBroken("deliveries are limited", f"{index}-{acquired} is over {LIMIT}")
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                record = index, offset
                if record in before:
                    raise InvariantBroken(
                        "a record that was acknowledged is not delivered again",
                        f"{TOPIC}-{index} offset {offset}: {before[record]} acknowledged it, {self.name} gets it",
                    )
                if record not in self.shared.values:
                    raise InvariantBroken("acquired records are delivered", f"{TOPIC}-{index} offset {offset} is not")
                if acquired.delivery_count == LIMIT:
                    self.shared.processed(record)  # it is archived if it is not accepted now
                draw = self.sim.random.random()
                kind = REJECT if draw < 0.05 else RELEASE if draw < 0.2 else ACCEPT
                self.acks.setdefault(leader, {}).setdefault(index, []).append((offset, kind))


def _batches(offsets: Any) -> tuple[AcknowledgementBatch, ...]:
    return tuple(
        AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=(kind,))
        for offset, kind in sorted(offsets)
    )


async def shares(sim: Simulation, *, records: int = 40, every_s: float = 0.2, data: bool = False) -> None:
    """Send records to a share group with two members that stay, and two that stop as in a crash."""
    kafka = await sim.cluster(brokers=3, topics={TOPIC: 2}, data=data, properties=PROPERTIES)
    kafka.core.change_configs(ConfigResourceType.GROUP, GROUP, {"share.auto.offset.reset": "earliest"})
    shared = Shared(sim)
    work = Work(sim, kafka.bootstrap_servers, partitions=2)
    producing = asyncio.create_task(work.produce(records, every_s), name="producing")

    async def come_and_go(name: str) -> None:
        await asyncio.sleep(5 * sim.random.random())
        await ShareMember(shared, name, kafka.bootstrap_servers).consume(for_s=5)

    staying = [
        asyncio.create_task(ShareMember(shared, name, kafka.bootstrap_servers).consume(), name=name) for name in "ab"
    ]
    passing = [asyncio.create_task(come_and_go(name), name=name) for name in "cd"]
    await end(sim, producing, staying, passing)

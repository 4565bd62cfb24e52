"""A scenario of streams groups (KIP-1071).

Members own the tasks that the coordinator gives them, process the records of their active tasks,
and commit with their epoch. They send requests themselves: Kafka Streams is Java.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from quorate.codecs.api import StreamsGroupHeartbeatRequest
from quorate.codecs.api.broker import FetchRequest
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from quorate.codecs.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from quorate.codecs.api.streams_group_heartbeat import Subtopology, TaskIds, TopicInfo, Topology
from quorate.codecs.batches import read_batches
from quorate.codecs.configs import ConfigResourceType
from quorate.simulation import InvariantBroken, Simulation
from tests.simulation.helpers.scenarios import TOPIC, Work, end
from tests.simulation.helpers.wire import Client

GROUP = "streams"
PARTITIONS = 3
PROPERTIES = {
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.min.heartbeat.interval.ms": 500,
    "group.streams.session.timeout.ms": 6_000,
    "group.streams.min.session.timeout.ms": 6_000,
    "group.streams.initial.rebalance.delay.ms": 0,
}
TOPOLOGY = Topology(
    epoch=1,
    subtopologies=(
        Subtopology(
            subtopology_id="0",
            source_topics=(TOPIC,),
            repartition_sink_topics=("streams-by-word-repartition",),
        ),
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=(TopicInfo(name="streams-by-word-repartition"),),
            state_changelog_topics=(TopicInfo(name="streams-counts-changelog"),),
        ),
    ),
)
"""Tasks of subtopology 0 read records; those of subtopology 1 only move between members."""
READS = "0"

Task = tuple[str, int]


@dataclass
class Holding:
    """A task that a member has, from when the coordinator assigned it."""

    member: str
    task: Task
    since_ms: float


@dataclass
class Application:
    """What all members of the group have seen."""

    sim: Simulation
    holdings: list[Holding] = field(default_factory=list)

    def confirmed(self, member: str, tasks: set[Task], sent_ms: float) -> None:
        """Raise `InvariantBroken` if another member got a task that this one still owns.

        The coordinator has just confirmed a heartbeat sent at `sent_ms`, in which the member owned
        these tasks. A member that it had removed owns nothing for it, whatever that member thinks;
        hence only owners that began later count.
        """
        own = {one.task: one for one in self.holdings if one.member == member and one.task in tasks}
        for other in self.holdings:
            mine = own.get(other.task)
            if mine is not None and other.member != member and mine.since_ms < other.since_ms < sent_ms:
                raise InvariantBroken(
                    "an active task has one owner",
                    f"{other.member} got {'_'.join(map(str, other.task))} at {other.since_ms:,.0f} ms, and {member} "
                    f"has it since {mine.since_ms:,.0f} ms: confirmed at {self.sim.now_ms:,.0f} ms",
                )

    def begin(self, member: str, task: Task) -> None:
        """Note that a member was assigned a task."""
        self.holdings.append(Holding(member, task, self.sim.now_ms))

    def end(self, member: str, task: Task) -> None:
        """Note that a member has ended a task."""
        self.holdings = [one for one in self.holdings if (one.member, one.task) != (member, task)]


class StreamsMember(Client):
    """One process of the application."""

    def __init__(self, application: Application, name: str, servers: str) -> None:
        super().__init__(application.sim, name, GROUP, servers)
        self.application = application
        self.epoch = 0
        self.active: set[Task] = set()
        self.standby: tuple[TaskIds, ...] = ()
        self.warmup: tuple[TaskIds, ...] = ()
        self.wanted: set[Task] = set()
        """Active tasks of the latest assignment."""
        self.positions: dict[int, int] = {}
        """Partition of the source topic → offset of the next record."""
        self.values: dict[int, list[int]] = {}
        """Partition → what was processed since the last commit."""
        self.coordinator: tuple[str, int] | None = None

    def lose(self) -> None:
        """Drop all tasks at once, and join again: the coordinator has removed this member."""
        self.epoch, self.wanted, self.standby, self.warmup = 0, set(), (), ()
        for task in sorted(self.active):
            self.drop_task(task)

    def drop_task(self, task: Task) -> None:
        self.active.discard(task)
        self.application.end(self.name, task)
        if task[0] == READS:
            self.positions.pop(task[1], None)
            self.values.pop(task[1], None)

    async def heartbeat(self, *, leaves: bool = False) -> None:
        """Send a heartbeat, and take over what the response assigns."""
        if self.coordinator is None:
            self.coordinator = await self.find_coordinator()
        wire = await self.connection("group", *self.coordinator)
        joins = self.epoch == 0
        reported = set(self.active)
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.name,
            member_epoch=-1 if leaves else self.epoch,
            process_id=f"process of {self.name}" if joins else None,
            rebalance_timeout_ms=15_000 if joins else -1,
            topology=TOPOLOGY if joins else None,
            active_tasks=_ids(reported),
            standby_tasks=self.standby,
            warmup_tasks=self.warmup,
        )
        sent_ms = self.sim.now_ms
        response = await wire.request(request, 0)
        match response.error_code:
            case 0 if not leaves:
                self.application.confirmed(self.name, reported & self.active, sent_ms)
                self.epoch = response.member_epoch
                if response.active_tasks is not None:
                    self.wanted = {
                        (one.subtopology_id, number) for one in response.active_tasks for number in one.partitions
                    }
                    self.standby, self.warmup = response.standby_tasks or (), response.warmup_tasks or ()
                    for task in sorted(self.wanted - self.active):
                        self.active.add(task)
                        self.application.begin(self.name, task)
            case 0:
                pass
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_MEMBER_EPOCH:
                self.lose()
            case (
                ErrorCode.NOT_COORDINATOR | ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            ):
                self.coordinator = None
                self.drop("group")
            case error:
                raise InvariantBroken("heartbeats are valid", f"{ErrorCode(error).name}: {response.error_message}")

    async def run(self, for_s: float | None = None, *, leaves: bool = False) -> None:
        """Be a member until cancelled, or for some seconds; then leave, or stop as in a crash."""
        working = asyncio.create_task(self.work(), name=f"work of {self.name}")
        until = self.sim.now_ms + (1e12 if for_s is None else for_s * 1000)
        try:
            while self.sim.now_ms < until and not working.done():
                try:
                    await self.heartbeat()
                except (OSError, EOFError, TimeoutError):
                    self.coordinator = None
                    self.drop("group")
                await asyncio.sleep(0.5)
            if leaves and self.epoch:
                with suppress(OSError, EOFError, TimeoutError):
                    await self.heartbeat(leaves=True)
        finally:
            working.cancel()
            (ended,) = await asyncio.gather(working, return_exceptions=True)
            self.lose()
            self.close()
        if isinstance(ended, Exception):
            raise ended

    async def work(self) -> None:
        """Process, commit, and give back what is no longer wanted, until cancelled."""
        while True:
            try:
                brokers = await self.find_leaders(TOPIC)
                for _ in range(5):
                    await self.step(brokers)
                    await asyncio.sleep(0.1)
            except (OSError, EOFError, TimeoutError):
                for key in [key for key in self.connections if key != "group"]:
                    self.drop(key)
                await asyncio.sleep(0.2)

    async def step(self, brokers: dict[int, tuple[str, int]]) -> None:
        for task in sorted(self.active - self.wanted):
            if task[0] != READS or await self.commit(task[1]):
                self.drop_task(task)
        for subtopology, partition in sorted(self.active & self.wanted):
            if subtopology != READS or self.leaders.get(partition) not in brokers:
                continue
            if partition not in self.positions and not await self.fetch_committed(partition):
                continue
            await self.process(partition, self.leaders[partition], brokers)
            await self.commit(partition)

    async def group_request(self, request: Any, version: int) -> Any:
        """Return the coordinator's response."""
        wire = await self.connection("offsets", *(await self.find_coordinator()))
        return await wire.request(request, version)

    async def fetch_committed(self, partition: int) -> bool:
        """Begin where the task's last owner has committed."""
        topics = (OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(partition,)),)
        wanted = OffsetFetchRequestGroup(group_id=GROUP, member_id=self.name, member_epoch=self.epoch, topics=topics)
        response = await self.group_request(OffsetFetchRequest(groups=(wanted,), require_stable=True), 9)
        group = response.groups[0]
        if group.error_code:
            self.failed(group.error_code)
            return False
        found = group.topics[0].partitions[0]
        if found.error_code or (READS, partition) not in self.active:
            return False
        self.positions[partition] = max(found.committed_offset, 0)
        return True

    async def process(self, partition: int, leader: int, brokers: dict[int, tuple[str, int]]) -> None:
        """Fetch records."""
        wanted = FetchPartition(
            partition=partition, fetch_offset=self.positions[partition], partition_max_bytes=1 << 16
        )
        request = FetchRequest(
            max_wait_ms=100, min_bytes=1, topics=(FetchTopic(topic_id=self.topic_id, partitions=(wanted,)),)
        )
        wire = await self.connection(leader, *brokers[leader])
        response = await wire.request(request, 13)
        found = response.responses[0].partitions[0] if response.responses else None
        if found is None or found.error_code or partition not in self.positions:
            return
        for batch in read_batches(bytes(found.records or b"")):
            for offset, record in enumerate(batch.records(), batch.header.base_offset):
                if offset >= self.positions[partition]:
                    self.values.setdefault(partition, []).append(int(record.value))
                    self.positions[partition] = offset + 1

    async def commit(self, partition: int) -> bool:
        """Commit what was processed; return whether nothing is left to commit."""
        values = list(self.values.get(partition, ()))
        if not values:
            return True
        offset = self.positions[partition]
        one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.name,
            topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(one,)),),
        )
        try:
            response = await self.group_request(request, 9)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            for value in values:  # they were processed, and may be committed
                self.sim.consumed(value)
            raise
        error = response.topics[0].partitions[0].error_code
        if error:
            self.failed(error)
            return False
        self.sim.committed(GROUP, {(TOPIC, partition): offset})
        for value in values:
            self.sim.consumed(value)
        if partition in self.values:
            del self.values[partition][: len(values)]
        return True

    def failed(self, error: int) -> None:
        """Handle an error of the coordinator. A stale epoch is renewed by the next heartbeat."""
        if error not in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.drop("offsets")


def _ids(tasks: set[Task]) -> tuple[TaskIds, ...]:
    names = sorted({name for name, _ in tasks})
    return tuple(
        TaskIds(subtopology_id=name, partitions=tuple(sorted(number for own, number in tasks if own == name)))
        for name in names
    )


async def streams(sim: Simulation, *, records: int = 40, every_s: float = 0.2, data: bool = False) -> None:
    """Send records to an application.

    Two processes of it stay, one leaves, and one stops as in a crash.
    """
    kafka = await sim.cluster(brokers=3, topics={TOPIC: PARTITIONS}, data=data, properties=PROPERTIES)
    kafka.core.change_configs(ConfigResourceType.GROUP, GROUP, {"streams.num.standby.replicas": "1"})
    application = Application(sim)
    producing = asyncio.create_task(
        Work(sim, kafka.bootstrap_servers, partitions=PARTITIONS).produce(records, every_s), name="producing"
    )

    async def come_and_go(name: str, leaves: bool) -> None:
        await asyncio.sleep(5 * sim.random.random())
        await StreamsMember(application, name, kafka.bootstrap_servers).run(5, leaves=leaves)

    staying = [
        asyncio.create_task(StreamsMember(application, name, kafka.bootstrap_servers).run(), name=name) for name in "ab"
    ]
    passing = [asyncio.create_task(come_and_go(name, name == "c"), name=name) for name in "cd"]
    await end(sim, producing, staying, passing)

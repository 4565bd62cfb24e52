"""Defects of aiokafka that simulations have found: how to see each over sockets, and a fix.

`docs/explanation/found-by-simulation.md` describes them. A play returns what went wrong, or `None`;
it needs a cluster with a fault, and no simulation. A fix replaces one function of aiokafka.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, errors
from aiokafka.consumer import fetcher
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator

from quorate.cluster import EmbeddedCluster
from quorate.cluster.faults import Error
from quorate.codecs.api.error_codes import ErrorCode
from quorate.simulation import Chaos
from quorate.simulation.run import Scenario
from tests.simulation.helpers.scenarios import consumers

TOPIC = "orders"
Play = Callable[[EmbeddedCluster], Awaitable[str | None]]


@dataclass(frozen=True)
class Defect:
    """`play`: shows it over sockets. `fix`: of a function of aiokafka.

    `scenario` with `chaos` shows it under the schedule `token`, by breaking an invariant.
    """

    name: str
    play: Play
    where: Any
    function: str
    fix: Callable[[Any], Any]
    scenario: Scenario
    chaos: Chaos
    token: str
    invariant: str

    @contextmanager
    def fixed(self) -> Iterator[None]:
        """Replace the function of aiokafka for a while."""
        with patch.object(self.where, self.function, self.fix(getattr(self.where, self.function))):
            yield


def consumer(kafka: EmbeddedCluster, name: str = "a", **options: Any) -> AIOKafkaConsumer:
    """Return a consumer that has not started."""
    return AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=kafka.bootstrap_servers,
        client_id=name,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
        **{"group_id": "group", "enable_auto_commit": False, "retry_backoff_ms": 50, **options},
    )


async def send(kafka: EmbeddedCluster, count: int = 5) -> None:
    """Send records to partition 0."""
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    for number in range(count):
        await producer.send_and_wait(TOPIC, str(number).encode(), partition=0)
    await producer.stop()


async def stopped(client: Any) -> None:
    """Stop a client that may be broken."""
    with suppress(asyncio.CancelledError, asyncio.TimeoutError, errors.KafkaError):
        await asyncio.wait_for(client.stop(), 5)


# ---- stop() raises CancelledError


async def stop_after_a_failed_fetch(kafka: EmbeddedCluster) -> str | None:
    """Stop a consumer in the backoff after a fetch that failed."""
    await send(kafka)
    one = consumer(kafka, group_id=None, retry_backoff_ms=60_000)
    await one.start()
    await one.getmany(timeout_ms=3_000)
    kafka.core.stop_broker(1)
    await asyncio.sleep(1)
    try:
        await one.stop()
    except asyncio.CancelledError:
        await one._client.close()
        return "stop() raises CancelledError, and leaves its client open"
    return None


def close_waits_for_cancelled_tasks(own: Any) -> Any:
    async def close(self: Any) -> None:
        tasks = list(self._pending_tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pending_tasks.clear()
        await own(self)

    return close


# ---- stop() never ends


async def stop_without_a_coordinator(kafka: EmbeddedCluster) -> str | None:
    """Stop a consumer with automatic commits while its coordinator is down for a second."""
    await send(kafka)
    one = consumer(kafka, enable_auto_commit=True, auto_commit_interval_ms=60_000)
    await one.start()
    await one.getmany(timeout_ms=3_000)
    kafka.core.stop_broker(1)
    while one._coordinator.coordinator_id is not None:
        await asyncio.sleep(0.05)
    attempts = [0]
    tried = GroupCoordinator._do_commit_offsets

    async def count(self: Any, *args: Any) -> Any:
        attempts[0] += 1
        return await tried(self, *args)

    with patch.object(GroupCoordinator, "_do_commit_offsets", count):
        stopping = asyncio.ensure_future(one.stop())
        await asyncio.sleep(0.5)
        await kafka.start_broker_async(1)
        until = attempts[0] + 50
        while not stopping.done() and attempts[0] < until:
            await asyncio.sleep(0.05)
        if stopping.done():
            return None
        stopping.cancel()
        one._coordinator._coordination_task.cancel()
        await asyncio.wait([stopping])
    await one._client.close()
    return "stop() does not end: 50 attempts after the broker is back, and none looks the coordinator up"


def last_commit_is_tried_once(own: Any) -> Any:
    async def commit_offsets(self: Any, assignment: Any, offsets: Any) -> None:
        if self._closing.done() and self.coordinator_id is None:
            raise errors.GroupCoordinatorNotAvailableError
        trying = asyncio.ensure_future(own(self, assignment, offsets))
        await asyncio.wait([trying, self._closing], return_when=asyncio.FIRST_COMPLETED)
        if not trying.done():
            await asyncio.wait([trying], timeout=self._session_timeout_ms / 1000)
        if not trying.done():
            trying.cancel()
            raise errors.GroupCoordinatorNotAvailableError
        trying.result()

    return commit_offsets


# ---- an error of OffsetFetch


async def offset_fetch_moves_on(kafka: EmbeddedCluster) -> str | None:
    """Let one OffsetFetch get NOT_COORDINATOR, as after a move of the coordinator."""
    await send(kafka)
    tp = TopicPartition(TOPIC, 0)
    before = consumer(kafka)
    await before.start()
    await before.commit({tp: 5})
    await before.stop()
    kafka.faults.add(Error(ErrorCode.NOT_COORDINATOR), api="OffsetFetch", times=1)
    one = consumer(kafka)
    await one.start()
    position = await one.position(tp)
    await stopped(one)
    return None if position == 5 else f"the position is {position}, and 5 was committed"


def offset_fetch_reads_the_error(own: Any) -> Any:
    async def fetch(self: Any, partitions: Any) -> Any:
        send_req = self._send_req

        async def checked(request: Any) -> Any:
            response = await send_req(request)
            code = getattr(response, "error_code", 0)
            if code:
                error = errors.for_code(code)
                if error in (errors.NotCoordinatorForGroupError, errors.GroupCoordinatorNotAvailableError):
                    self.coordinator_dead()
                raise error()
            return response

        with patch.object(self, "_send_req", checked):
            return await own(self, partitions)

    return fetch


# ---- a retriable error of SyncGroup


async def sync_while_the_group_is_loaded(kafka: EmbeddedCluster) -> str | None:
    """Let one SyncGroup get COORDINATOR_LOAD_IN_PROGRESS, as brokers do since Kafka 4.0."""
    kafka.faults.add(Error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), api="SyncGroup", times=1)
    one = consumer(kafka)
    try:
        await one.start()
    except errors.KafkaError as error:
        return f"start() raises {error}"
    finally:
        await stopped(one)
    return None


def sync_joins_again(own: Any) -> Any:
    async def sync(self: Any, request: Any) -> Any:
        try:
            return await own(self, request)
        except errors.KafkaError as error:
            if "LoadInProgress" not in str(error):
                raise
            return None  # a rejoin was requested

    return sync


# ---- a commit after a rebalance


async def commit_is_retried_after_a_rebalance(kafka: EmbeddedCluster) -> str | None:
    """Reject a member's commits while another one takes the partition over and commits more."""
    await send(kafka, 1)
    tp = TopicPartition(TOPIC, 0)
    first = consumer(kafka, "z")  # assignors sort by the member id, which begins with this
    await first.start()
    await first.getmany(timeout_ms=3_000)
    rule = kafka.faults.add(Error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), api="OffsetCommit", client_id="z")
    committing = asyncio.ensure_future(first.commit({tp: 1}))
    while not rule.happened:
        await asyncio.sleep(0.01)
    await send(kafka, 9)
    # Members without a partition join until another member than the first has it.
    others: list[Any] = []
    while tp in first.assignment() and len(others) < 6:
        others.append(consumer(kafka, f"b{len(others)}"))
        await others[-1].start()
    try:
        owner = next((one for one in others if tp in one.assignment()), None)
        if owner is None:
            return "the first member kept the partition; try again"
        await owner.commit({tp: 10})
        kafka.faults.remove(rule)
        with suppress(errors.CommitFailedError):
            await committing
        committed = await owner.committed(tp)
    finally:
        for one in (first, *others):
            await stopped(one)
    return None if committed == 10 else f"the committed offset goes back from 10 to {committed}"


def commit_needs_its_assignment(own: Any) -> Any:
    async def commit(self: Any, assignment: Any, offsets: Any) -> Any:
        if not assignment.active:
            raise errors.IllegalGenerationError(self.group_id)
        return await own(self, assignment, offsets)

    return commit


# ---- an offset reset at a former leader


async def reset_after_the_leader_moved(kafka: EmbeddedCluster) -> str | None:
    """Let ListOffsets get NOT_LEADER_OR_FOLLOWER, as of a former leader."""
    await send(kafka)
    rule = kafka.faults.add(Error(ErrorCode.NOT_LEADER_OR_FOLLOWER), api="ListOffsets")
    one = consumer(kafka)
    await one.start()
    while not rule.happened:
        await asyncio.sleep(0.01)
    kafka.faults.recording = True
    while rule.happened < 20:
        await asyncio.sleep(0.01)
    requests = {seen.api for seen in kafka.faults.seen}
    await stopped(one)
    return None if "Metadata" in requests else "ListOffsets fails 20 times, and metadata is not requested"


def offset_reset_refreshes_metadata(own: Any) -> Any:
    async def list_offsets(self: Any, node_id: Any, topics: Any) -> Any:
        try:
            return await own(self, node_id, topics)
        except errors.KafkaError as error:
            if error.invalid_metadata:
                self._client.force_metadata_update()
            raise

    return list_offsets


ERRORS = Chaos.none(error_responses=60.0, coordinator_moves=6.0)
MANY = Chaos().times(2)
DOCUMENTED = "clients raise documented exceptions only"

DEFECTS = (
    Defect(
        "stop() raises CancelledError",
        stop_after_a_failed_fetch,
        fetcher.Fetcher,
        "close",
        close_waits_for_cancelled_tasks,
        partial(consumers, strict=True),
        Chaos(),
        "1-17:2,5,7q-78e8dd02",
        "CancelledError",
    ),
    Defect(
        "stop() never ends",
        stop_without_a_coordinator,
        GroupCoordinator,
        "commit_offsets",
        last_commit_is_tried_once,
        partial(consumers, enable_auto_commit=True, auto_commit_interval_ms=1_000),
        MANY,
        "1-17:2,5,7-d426b25e",
        "closing ends in bounded time",
    ),
    Defect(
        "an error of OffsetFetch counts as no offset",
        offset_fetch_moves_on,
        GroupCoordinator,
        "_do_fetch_commit_offsets",
        offset_fetch_reads_the_error,
        partial(consumers, max_records=2),
        ERRORS,
        "1-1:7q-e6da62a7",
        "committed offsets never go back",
    ),
    Defect(
        "a loading coordinator fails SyncGroup",
        sync_while_the_group_is_loaded,
        CoordinatorGroupRebalance,
        "_send_sync_group_request",
        sync_joins_again,
        partial(consumers, strict=True),
        ERRORS,
        "1-1:14q-ff789afe",
        DOCUMENTED,
    ),
    Defect(
        "a commit is retried in another generation",
        commit_is_retried_after_a_rebalance,
        GroupCoordinator,
        "_do_commit_offsets",
        commit_needs_its_assignment,
        partial(consumers, max_records=2, retry_backoff_ms=2_000),
        ERRORS,
        "1-2:10,12q-17d7abc6",
        "committed offsets never go back",
    ),
    Defect(
        "a reset at a former leader never ends",
        reset_after_the_leader_moved,
        fetcher.Fetcher,
        "_proc_offset_request",
        offset_reset_refreshes_metadata,
        consumers,
        Chaos(),
        "1-20001803:1q-962847e0",
        "acknowledged records are consumed",
    ),
)


@contextmanager
def fixed_client() -> Iterator[None]:
    """Fix all defects for a while."""
    with ExitStack() as stack:
        for defect in DEFECTS:
            stack.enter_context(defect.fixed())
        yield


def played(defect: Defect) -> str | None:
    """Play a defect on a new cluster with real sockets."""

    async def run() -> str | None:
        kafka = EmbeddedCluster(1, properties={"group.initial.rebalance.delay.ms": 0})
        await kafka.start()
        try:
            kafka.core.create_topic(TOPIC, partitions=1, replicas=1)
            return await defect.play(kafka)
        finally:
            await kafka.stop()

    return asyncio.run(run())

"""Faults planted into coordinators, the cluster and aiokafka, to see which schedules find them.

A mutant replaces one function while schedules run. Its scenario is the one whose invariants have to
find it. `MUTANTS` is the list that `bench/simulation.py --mutants` goes through.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer import fetcher, group_coordinator
from aiokafka.producer import sender, transaction_manager

from quorate.cluster import log, producers, transactions
from quorate.cluster.apis import fetch, list_offsets
from quorate.cluster.share import partition
from quorate.cluster.storage import recovery
from quorate.codecs.api import HeartbeatRequest
from quorate.consumers.aiokafka import AIOKafkaConsumer as ConsumerProtocolConsumer
from quorate.coordinator import partition_runtime
from quorate.coordinator.classic import group as classic_group
from quorate.coordinator.classic import heartbeat, rebalance, sync
from quorate.coordinator.consumer import reconcile
from quorate.coordinator.errors import ApiError
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.offsets import fetch as fetch_offsets
from quorate.coordinator.offsets import member
from quorate.coordinator.results import Pending
from quorate.coordinator.state.streams_tasks import TargetTasks
from quorate.coordinator.streams import reconcile as reconcile_tasks
from quorate.simulation import Chaos, InvariantBroken, ScheduleFailed, simulate
from quorate.simulation.run import Scenario
from tests.simulation.helpers import scenarios
from tests.simulation.helpers.defects import fixed_client
from tests.simulation.helpers.shares import shares
from tests.simulation.helpers.streams import streams

CONSUMER = {"consumer": ConsumerProtocolConsumer, "group_protocol": "consumer"}
"""Options of `consumers` for the consumer protocol."""

CLASSIC = partial(scenarios.consumers, records=20)
KIP848 = partial(scenarios.consumers, records=20, **CONSUMER)
SHARES = partial(shares, records=20)
STREAMS = partial(streams, records=20)
IDEMPOTENT = partial(scenarios.idempotent, records=40)
TRANSACTIONS = partial(scenarios.transactions, records=12)

SLOW = partial(scenarios.consumers, records=20, work_s=8.0)
"""Consumers that work for some seconds before they commit."""

SILENT = Chaos.none(stalls=60.0, broker_pauses=4.0, coordinator_moves=4.0, down_ms=(8_000, 15_000))
"""Members are silent for about as long as a session."""

UNANSWERED = Chaos.none(lost_responses=400.0)

Change = Callable[[Callable[..., Any]], Callable[..., Any]]
"""The function of the product or client → the function that replaces it."""


@dataclass(frozen=True)
class Mutant:
    """`invariant`: the one that finds it."""

    name: str
    where: Any
    function: Any
    change: Change
    scenario: Scenario
    invariant: str
    chaos: Chaos | None = None

    def run(self, **options: Any) -> None:
        """Simulate the scenario."""
        simulate(self.scenario, chaos=self.chaos, limit_s=900, **options)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Replace the function for a while."""
        if isinstance(self.where, dict):
            with patch.dict(self.where, {self.function: self.change(self.where[self.function])}):
                yield
        else:
            with patch.object(self.where, self.function, self.change(self.where.__dict__[self.function])):
                yield


def search(mutant: Mutant, seeds: Sequence[int]) -> tuple[int, str] | None:
    """Return the number of schedules until a mutant is found, and the token; `None` if it is not.

    A schedule counts if it fails by the mutant's invariant, and passes without the mutant. The
    known defects of aiokafka are fixed meanwhile.
    """
    with fixed_client():
        for number, seed in enumerate(seeds, 1):
            try:
                with mutant.planted():
                    mutant.run(seeds=[seed], shrink=False)
            except ScheduleFailed as failed:
                found = failed.__cause__
                if isinstance(found, InvariantBroken) and found.invariant == mutant.invariant:
                    mutant.run(seeds=[seed])
                    return number, failed.token
    return None


def every(nth: int, otherwise: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does something else in one of `nth` calls, drawn from the seed."""

    def changed(*args: Any, **named: Any) -> Any:
        return (otherwise if random.random() * nth < 1 else own)(*args, **named)

    return changed


# ---- coordinators


def _accepts_old_generation(own: Any) -> Any:
    def check(group: Any, member_id: str, instance_id: Any, generation: int, *, transactional: bool) -> None:
        return None

    return check


def _gives_all_to_each(own: Any) -> Any:
    def set_assignments(shard: Any, group: Any, assignments: Any, now_ms: int) -> None:
        largest = max(assignments.values(), key=len, default=b"")
        own(shard, group, dict.fromkeys(assignments, largest), now_ms)

    return set_assignments


def _keeps_generation(own: Any) -> Any:
    def init(self: Any, now_ms: int) -> None:
        own(self, now_ms)
        if self.generation > 1 and self.members:
            self.generation -= 1

    return init


def _forgets_to_fence(own: Any) -> Any:
    def beat(shard: Any, request: Any, context: Any) -> Any:
        try:
            return own(shard, request, context)
        except ApiError:  # the planted fault: any member is good
            return heartbeat.Result(response=heartbeat.HeartbeatResponse())

    return beat


def _hides_rebalance(own: Any) -> Any:
    def beat(shard: Any, request: Any, context: Any) -> Any:
        return replace(own(shard, request, context), response=heartbeat.HeartbeatResponse())

    return beat


def _starts_empty(own: Any) -> Any:
    def replay_log(self: Any) -> Iterator[None]:
        return iter(())

    return replay_log


def _responds_before_append(own: Any) -> Any:
    def append(self: Any, records: Any, result: Any) -> None:
        for index, record in enumerate(records):
            if result.replay:
                self.shard.replay(record, offset=self.log.partition.log.next_offset + index, strict=True)

    return every(4, append, own)


def _serves_uncommitted(own: Any) -> Any:
    def partition(shard: Any, group_id: str, topic: str, index: int, *args: Any, **named: Any) -> Any:
        found = own(shard, group_id, topic, index, *args, **named)
        return replace(found, committed_offset=found.committed_offset + (found.committed_offset > 0))

    return partition


def _assigns_before_revoked(own: Any) -> Any:
    def step(member: Any, situation: Any) -> Any:
        return own(member, replace(situation, owner_epoch=lambda topic_id, partition: -1))

    return step


def _grants_unreleased_tasks(own: Any) -> Any:
    return lambda step, subtopology, partition: False


def _revokes_unheard(own: Any) -> Any:
    return lambda step, epoch, owned: own(step, epoch, TargetTasks.NONE)


def _never_expires(own: Any) -> Any:
    def over(shard: Any, group: Any, member_id: str, now_ms: int) -> Any:
        return rebalance.Result()

    return over


# ---- the cluster


def _responds_before_it_stores(own: Any) -> Any:
    def write(self: Any, batches: Any) -> Any:
        done: Any = Pending()
        done.complete(partition.ShareOutcome())
        return done

    return every(10, write, own)


def _knows_no_producers(own: Any) -> Any:
    return lambda files, log, trusted_until: None


def _drops_a_write(own: Any) -> Any:
    def append(self: Any, data: Any, facts: Any = None, **named: Any) -> Any:
        facts = facts or log.check_batch(data, 1 << 20)
        return log.Appended(self.next_offset)

    return every(15, append, own)


def _no_sequences_checked(own: Any) -> Any:
    return lambda self, facts: None


def _neither(own: Any) -> Any:
    def append(self: Any, data: Any, facts: Any = None, **named: Any) -> Any:
        with (
            patch.object(producers.Producers, "known", lambda *_: None),
            patch.object(producers.Producers, "check", lambda *_: None),
        ):
            return own(self, data, facts, **named)

    return append


def _earliest_is_latest(own: Any) -> Any:
    def offset(log: Any, leader_epoch: int, timestamp_ms: int, until: int) -> Any:
        return own(log, leader_epoch, -1, until)

    return offset


def _all_commits(own: Any) -> Any:
    def write(self: Any, transaction: Any, coordinator_epoch: int) -> Any:
        with patch.object(type(transaction), "commits", property(lambda _: True)):
            yield from own(self, transaction, coordinator_epoch)

    return write


def _hides_aborted(own: Any) -> Any:
    return lambda self, first, until: []


def _fails_inside(own: Any) -> Any:
    def fetch(*args: Any, **named: Any) -> Any:
        raise LookupError("planted")

    return every(50, fetch, own)


# ---- aiokafka


def _commits_ahead(own: Any) -> Any:
    async def commit_offsets(self: Any, assignment: Any, offsets: Any) -> Any:
        ahead = {tp: one._replace(offset=one.offset + 1) for tp, one in offsets.items()}
        return await own(self, assignment, ahead)

    return commit_offsets


def _commits_an_old_offset(own: Any) -> Any:
    async def commit_offsets(self: Any, assignment: Any, offsets: Any) -> Any:
        return await own(self, assignment, {tp: one._replace(offset=0) for tp, one in offsets.items()})

    return every(5, commit_offsets, own)


def _never_closes(own: Any) -> Any:
    async def close(self: Any) -> None:
        await asyncio.get_running_loop().create_future()

    return close


def _task_fails(own: Any) -> Any:
    async def broken() -> None:
        raise LookupError("planted")

    def dead(self: Any) -> None:
        self._broken = asyncio.ensure_future(broken())
        self._broken = None
        own(self)

    return dead


def _logs_a_bug(own: Any) -> Any:
    def dead(self: Any) -> None:
        try:
            raise KeyError("planted")
        except KeyError:
            group_coordinator.log.exception("Unexpected error")
        own(self)

    return dead


def _ignores_commits(own: Any) -> Any:
    async def fetched(self: Any, partitions: Any) -> Any:
        found = await own(self, partitions)
        return {tp: one._replace(offset=one.offset + 1) for tp, one in found.items()}

    return fetched


def _acknowledges_all(own: Any) -> Any:
    def can_retry(self: Any, error: Any, batch: Any) -> bool:
        batch.done_noack()
        return False

    return can_retry


def _loses_the_end_at_a_new_leader(own: Any) -> Any:
    def read(self: Any, offset: int, *args: Any, until: int, **named: Any) -> Any:
        begins = self.epochs[-1][1] if len(self.epochs) > 1 else 0
        lost = begins - 1  # the last record of the previous leader
        if 0 <= offset < lost:
            until = min(until, lost)
        elif offset == lost:
            offset += 1
        return own(self, offset, *args, until=until, **named)

    return read


def _forgets_sequences(own: Any) -> Any:
    return lambda self, tp, increment: None


def _grows(own: Any) -> Any:
    kept: list[Any] = []

    async def getmany(self: Any, *args: Any, **named: Any) -> Any:
        kept.extend([[] for _ in range(50)])
        return await own(self, *args, **named)

    return getmany


def _skips_a_record(own: Any) -> Any:
    async def getmany(self: Any, *args: Any, **named: Any) -> Any:
        found = await own(self, *args, **named)
        return {tp: records[1:] if len(records) > 1 else records for tp, records in found.items()}

    return getmany


LOST = "acknowledged records are consumed"
OWNER = "a partition has one owner"
TASK_OWNER = "an active task has one owner"
BACK = "committed offsets never go back"
SHARED = "groups converge"
KEPT = "acknowledged commits are kept"
CLOSED = "closing ends in bounded time"
TWICE = "an idempotent producer writes no record twice"
AGAIN = "a record that was acknowledged is not delivered again"
COPIED = "a transaction copies each record once"

_Coordinator, _Fetcher = group_coordinator.GroupCoordinator, fetcher.Fetcher
_Runtime = partition_runtime.PartitionRuntime

MUTANTS = (
    # coordinators
    Mutant(
        "an old generation may commit",
        member,
        "_check_classic",
        _accepts_old_generation,
        SLOW,
        BACK,
        SILENT,
    ),
    Mutant("all members get one assignment", sync, "set_assignments", _gives_all_to_each, CLASSIC, OWNER),
    Mutant(
        "a rebalance keeps the generation",
        classic_group.LiveGroup,
        "init_next_generation",
        _keeps_generation,
        CLASSIC,
        OWNER,
    ),
    Mutant(
        "a heartbeat does not report a rebalance",
        GroupCoordinatorShard.handlers,
        HeartbeatRequest,
        _hides_rebalance,
        CLASSIC,
        SHARED,
    ),
    Mutant(
        "a heartbeat does not fence",
        GroupCoordinatorShard.handlers,
        HeartbeatRequest,
        _forgets_to_fence,
        CLASSIC,
        SHARED,
        SILENT,
    ),
    Mutant("a session never expires", rebalance, "_session_over", _never_expires, CLASSIC, SHARED, UNANSWERED),
    Mutant("a new coordinator does not load its log", _Runtime, "replay_log", _starts_empty, CLASSIC, OWNER),
    Mutant("a coordinator responds, and does not append", _Runtime, "_append", _responds_before_append, CLASSIC, KEPT),
    Mutant("a fetched offset is one too high", fetch_offsets, "_partition", _serves_uncommitted, CLASSIC, LOST),
    Mutant(
        "a partition is assigned before its owner revoked it",
        reconcile,
        "_step",
        _assigns_before_revoked,
        KIP848,
        OWNER,
    ),
    Mutant(
        "a task is assigned before its owner released it",
        reconcile_tasks._Step,
        "_is_unreleased_active",
        _grants_unreleased_tasks,
        STREAMS,
        OWNER,
    ),
    Mutant(
        "a task is released before its owner says so",
        reconcile_tasks._Step,
        "result",
        _revokes_unheard,
        STREAMS,
        TASK_OWNER,
    ),
    # the cluster
    Mutant("a write is acknowledged and dropped", log.PartitionLog, "append", _drops_a_write, CLASSIC, LOST),
    Mutant(
        "a new leader loses the last record", log.PartitionLog, "read", _loses_the_end_at_a_new_leader, CLASSIC, LOST
    ),
    Mutant(
        "an acknowledgement is confirmed, and not stored",
        partition.SharePartition,
        "_write",
        _responds_before_it_stores,
        SHARES,
        AGAIN,
    ),
    Mutant(
        "a start after a crash does not load producers",
        recovery,
        "_load_producers",
        _knows_no_producers,
        partial(scenarios.idempotent, records=40, data=True),
        TWICE,
        Chaos.none(crashes=12.0, lost_responses=200.0, down_ms=(20, 500)),
    ),
    Mutant("a producer's duplicates are appended", log.PartitionLog, "append", _neither, IDEMPOTENT, TWICE, UNANSWERED),
    Mutant("the earliest offset is the latest", list_offsets, "_offset", _earliest_is_latest, CLASSIC, LOST),
    Mutant(
        "an aborted transaction is committed",
        transactions.TransactionCoordinators,
        "write_markers",
        _all_commits,
        TRANSACTIONS,
        COPIED,
    ),
    Mutant(
        "aborted transactions are not reported",
        log.PartitionLog,
        "aborted_between",
        _hides_aborted,
        TRANSACTIONS,
        COPIED,
    ),
    Mutant("a handler fails", fetch._FetchRun, "_partition", _fails_inside, CLASSIC, "brokers have no internal errors"),
    # aiokafka
    Mutant("a consumer commits one record too many", _Coordinator, "commit_offsets", _commits_ahead, CLASSIC, LOST),
    Mutant("a consumer commits an old offset", _Coordinator, "commit_offsets", _commits_an_old_offset, CLASSIC, BACK),
    Mutant(
        "a consumer begins after the committed offset",
        _Coordinator,
        "_do_fetch_commit_offsets",
        _ignores_commits,
        CLASSIC,
        LOST,
    ),
    Mutant("a consumer skips a record", AIOKafkaConsumer, "getmany", _skips_a_record, CLASSIC, LOST),
    Mutant(
        "a producer acknowledges what a broker rejected",
        sender.SendProduceReqHandler,
        "_can_retry",
        _acknowledges_all,
        CLASSIC,
        LOST,
    ),
    Mutant(
        "an idempotent producer does not count",
        transaction_manager.TransactionManager,
        "increment_sequence_number",
        _forgets_sequences,
        IDEMPOTENT,
        "acknowledged records are in the log",
    ),
    Mutant("close() never ends", _Coordinator, "close", _never_closes, CLASSIC, CLOSED),
    Mutant("an exception is lost", _Coordinator, "coordinator_dead", _task_fails, CLASSIC, "no exception is lost"),
    Mutant(
        "a client logs an internal error",
        _Coordinator,
        "coordinator_dead",
        _logs_a_bug,
        CLASSIC,
        "clients raise documented exceptions only",
    ),
    Mutant(
        "a consumer's memory grows", AIOKafkaConsumer, "getmany", _grows, scenarios.long_run, "memory does not grow"
    ),
)
"""27 planted faults: 10 in coordinators, 7 in the cluster, 10 in aiokafka."""

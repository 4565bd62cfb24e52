"""Coordinators that load large logs in turns: others are served meanwhile (issue 14).

Each record is a turn of its own here, so that nothing depends on the speed of the machine.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, turns
from quorate.cluster.apis import Context
from quorate.cluster.apis.describe_transactions import describe_transactions, list_transactions
from quorate.cluster.apis.produce import _unverified
from quorate.cluster.apis.transactions import end_txn, init_producer_id
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.cluster.core import ClusterCore
from quorate.cluster.storage.cleaning import clean
from quorate.cluster.topics import PartitionState
from quorate.cluster.turns import at_once
from quorate.codecs.api import (
    HeartbeatRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
)
from quorate.codecs.api.broker import (
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from quorate.codecs.message import CONSUMER_OFFSETS, TRANSACTION_STATE, Message
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator import bulk, bulk_commits
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.results import RequestContext
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.wire import Wire
from tests.cluster.storage.test_restart import commit
from tests.cluster.test_limits import eventually
from tests.coordinator.snapshots import snapshot

COMMITS = 60
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
def cluster(tmp_path: Path, short_turns: None) -> Iterator[EmbeddedCluster]:
    properties = {**QUICK, "offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with EmbeddedCluster(brokers=2, properties=properties, data=tmp_path) as made:
        made.call(lambda: made.core.create_topic("t", partitions=1))
        made.call(lambda: fill(made.core))
        yield made


def fill(core: ClusterCore, commits: int = COMMITS) -> None:
    """Write a log of commits of some groups, as an earlier coordinator did."""
    log = PartitionCoordinatorLog(partition_of(core))
    now_ms = core.clock.now_ms()
    for number in range(commits):
        log.append([commit(number, group=f"g{number % 7}")], timestamp_ms=now_ms)


def partition_of(core: ClusterCore, topic: str = CONSUMER_OFFSETS) -> PartitionState:
    if topic not in core.topics:
        core.internal_topic(topic)
    return core.topics[topic].partitions[0]


def leader_of(cluster: EmbeddedCluster, topic: str = CONSUMER_OFFSETS) -> int:
    return cluster.core.brokers[partition_of(cluster.core, topic).leader].port


def fetched(group: str = "g1") -> OffsetFetchRequest:
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=topics),))


def code_of(core: ClusterCore, request: Message | None = None) -> int:
    """Return the error of a request that arrives between two turns."""
    response: Any = core.groups.request(
        partition_of(core).leader,
        "g1",
        request or SyncGroupRequest(group_id="g1", generation_id=1, member_id="m"),
        RequestContext(api_version=4, now_ms=core.clock.now_ms()),
    )
    return int(response.error_code)


def wait_until_loaded(cluster: EmbeddedCluster) -> None:
    core = cluster.core
    eventually(
        lambda: cluster.call(lambda: not any((*core.groups.runtime.loading(), *core.transactions.runtime.loading())))
    )


def watch(monkeypatch: pytest.MonkeyPatch, look: Callable[[], Any]) -> list[Any]:
    """Call a function before each turn of long work; return its results."""
    found: list[Any] = []
    unwatched = turns.Turns._next

    def watched(self: turns.Turns) -> None:
        found.append(look())
        unwatched(self)

    monkeypatch.setattr(turns.Turns, "_next", watched)
    return found


def committed(response: OffsetFetchResponse) -> int:
    return int(response.groups[0].topics[0].partitions[0].committed_offset)


@pytest.mark.parametrize("by_columns", [False, True])
def test_requests_of_a_loading_coordinator_are_refused_and_others_are_served(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, by_columns: bool
) -> None:
    if by_columns:
        monkeypatch.setattr(PartitionCoordinatorLog, "min_columns_bytes", 1)
        monkeypatch.setattr(bulk, "_EVENTS_PER_STEP", 1)
        monkeypatch.setattr(bulk_commits, "_ROWS_PER_STEP", 1)
    core = cluster.core
    looked = watch(monkeypatch, lambda: code_of(core) if any(core.groups.runtime.loading()) else None)
    with Wire(leader_of(cluster)) as wire:
        first = wire.request(fetched(), 8)
        assert first.groups[0].error_code == LOADING
        wait_until_loaded(cluster)
        assert committed(wire.request(fetched(), 8)) == 57  # the last of "g1" among 0 to 59
    during = [code for code in looked if code is not None]  # of requests that arrive between two turns
    assert set(during) == {LOADING}
    assert len(during) >= (5 if by_columns else COMMITS)
    in_turns = snapshot(core.groups.runtimes()[0].shard.state)
    monkeypatch.setattr(PartitionCoordinatorLog, "min_columns_bytes", 1 << 30)
    cluster.call(lambda: (core.groups.runtime.close(), core.groups.runtime.loaded_at(partition_of(core))))
    assert snapshot(core.groups.runtimes()[0].shard.state) == in_turns
    assert not core.failures


def test_a_log_that_loads_within_one_turn_is_loaded_before_the_first_request_is_handled(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_TURN_S", 300)
    monkeypatch.setattr(turns, "_SHORT_TURN_S", 300)
    with Wire(leader_of(cluster)) as wire:
        assert committed(wire.request(fetched(), 8)) == 57


def test_groups_are_listed_only_when_all_are_loaded(cluster: EmbeddedCluster) -> None:
    with Wire(leader_of(cluster)) as wire:
        listed = wire.request(ListGroupsRequest(), 4)
        assert (listed.error_code, listed.groups) == (LOADING, ())
        wait_until_loaded(cluster)
        listed = wire.request(ListGroupsRequest(), 4)
        assert listed.error_code == ErrorCode.NONE
        assert {group.group_id for group in listed.groups} == {f"g{number}" for number in range(7)}


def test_the_marker_of_a_transaction_waits_for_no_turn(cluster: EmbeddedCluster) -> None:
    """A marker must follow the commits that it ends: the rest of the log is loaded before it."""
    core, partition = cluster.core, partition_of(cluster.core)
    now_ms = core.clock.now_ms()

    def commit_in_transaction() -> None:
        PartitionCoordinatorLog(partition).append(
            [commit(99, group="g1")], timestamp_ms=now_ms, producer_id=5, producer_epoch=0
        )
        assert code_of(core) == LOADING
        core.groups.end_transaction(partition, 5, 0, commit=True)
        found = core.groups.runtimes()[0].shard.state.offsets.get("g1", "t", 0)
        assert found is not None
        assert found.value.offset == 99
        assert code_of(core) == ErrorCode.UNKNOWN_MEMBER_ID  # loaded

    cluster.call(commit_in_transaction)
    assert not core.failures


def test_metadata_that_changes_meanwhile_is_taken_after_the_load(cluster: EmbeddedCluster) -> None:
    """Otherwise offsets of a topic that is deleted meanwhile would stay."""
    core = cluster.core

    def delete_while_loading() -> None:
        assert code_of(core) == LOADING
        core.delete_topic("t")
        assert code_of(core) == LOADING

    cluster.call(delete_while_loading)
    wait_until_loaded(cluster)
    (runtime,) = core.groups.runtimes().values()
    assert runtime.shard.image is core.image
    assert not runtime.shard.state.offsets.committed


def test_configs_that_change_meanwhile_are_used_after_the_load(cluster: EmbeddedCluster) -> None:
    core = cluster.core

    def change_while_loading() -> None:
        assert code_of(core) == LOADING
        core.broker_configs.upgrade(KafkaVersion.parse("4.0.2"))
        core.groups.broker_configs_changed()
        assert code_of(core) == LOADING

    cluster.call(change_while_loading)
    wait_until_loaded(cluster)
    (runtime,) = core.groups.runtimes().values()
    assert runtime.shard.config is core.broker_configs.coordinator
    assert not runtime.shard.config.behaviour.metadata_hash


def test_another_leader_loads_the_log_again(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    core, partition = cluster.core, partition_of(cluster.core)
    loads: list[int] = []
    unwatched = PartitionCoordinatorLog.read

    def read(self: PartitionCoordinatorLog) -> Iterator[Any]:
        loads.append(0)
        for one in unwatched(self):
            loads[-1] += 1
            yield one

    monkeypatch.setattr(PartitionCoordinatorLog, "read", read)

    def move_while_loading() -> int:
        assert code_of(core) == LOADING
        before = partition.leader
        cluster.core.stop_broker(before)
        assert partition.leader != before
        return before

    stopped = cluster.call(move_while_loading)
    wait_until_loaded(cluster)
    assert cluster.call(lambda: code_of(core)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stopped != partition.leader
    assert loads[0] < COMMITS == loads[1]  # the first one was given up
    assert len(loads) == 2
    assert partition.log.loading == 0


def test_a_log_is_not_compacted_or_shortened_while_it_is_loaded(cluster: EmbeddedCluster) -> None:
    """A key's tombstone may be removed after its value was loaded."""
    core, log = cluster.core, partition_of(cluster.core).log
    now_ms = core.clock.now_ms()

    def compact_while_loading() -> tuple[int, int, int]:
        log.roll(now_ms)
        sizes = [log.size_bytes]
        cleaning = clean(log, now_ms=now_ms)
        next(cleaning)  # began before the load
        assert code_of(core) == LOADING
        for work in (*cleaning, *clean(log, now_ms=now_ms)):
            if work is not None:
                work.run()
        sizes.append(log.size_bytes)
        core.groups.runtime.loaded_at(partition_of(core))
        for _ in clean(log, now_ms=now_ms):
            pass
        return (*sizes, log.size_bytes)  # type: ignore[return-value]

    before, meanwhile, after = cluster.call(compact_while_loading)
    assert before == meanwhile > after


def test_a_log_damaged_at_its_end_has_no_coordinator(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    core = cluster.core
    unread = PartitionCoordinatorLog.read

    def damaged(self: PartitionCoordinatorLog) -> Iterator[Any]:
        yield from unread(self)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(PartitionCoordinatorLog, "read", damaged)
    assert cluster.call(lambda: code_of(core)) == LOADING
    wait_until_loaded(cluster)
    assert cluster.call(lambda: code_of(core)) == ErrorCode.NOT_COORDINATOR
    (note,) = (one for one in core.notes if "have no coordinator" in one)
    assert note.endswith("[Errno 5] Input/output error")
    assert not core.failures


def test_transactions_of_a_loading_coordinator_are_refused(cluster: EmbeddedCluster) -> None:
    core = cluster.core
    cluster.call(lambda: core.internal_topic(TRANSACTION_STATE))
    for number in range(20):
        cluster.call(lambda number=number: core.transactions.init_producer_id(f"x{number}", 60_000, -1, -1))

    partition = partition_of(core, TRANSACTION_STATE)
    broker = core.brokers[partition.leader]
    context = Context(
        api_version=4,
        now_ms=core.clock.now_ms(),
        client_id="",
        client_host="/127.0.0.1",
        connection=None,  # type: ignore[arg-type]
    )
    ended = EndTxnRequest(transactional_id="x0", producer_id=0, producer_epoch=0, committed=True)
    begun = InitProducerIdRequest(transactional_id="x0", transaction_timeout_ms=1000)

    def codes() -> list[int]:
        described = at_once(
            describe_transactions(broker, DescribeTransactionsRequest(transactional_ids=("x0",)), context)
        )
        return [
            init_producer_id(broker, begun, context).error_code,
            end_txn(broker, ended, context).error_code,
            at_once(list_transactions(broker, ListTransactionsRequest(), context)).error_code,
            described.transaction_states[0].error_code,
        ]

    def load_again() -> list[int]:
        core.transactions.runtime.restart()
        return codes()

    assert cluster.call(load_again) == [LOADING] * 4
    wait_until_loaded(cluster)
    assert LOADING not in cluster.call(codes)
    assert not core.failures


@pytest.mark.parametrize("version", [11, 12])
def test_a_producer_retries_while_the_coordinator_of_its_transaction_is_loading(version: int) -> None:
    for code in (LOADING, ErrorCode.NOT_COORDINATOR):
        unverified = _unverified(code, version)
        assert unverified.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert str(unverified.message).endswith(f"Underlying error: {code.name}")


def test_one_list_request_begins_to_load_all_groups(tmp_path: Path, short_turns: None) -> None:
    properties = {**QUICK, "offsets.topic.num.partitions": 3}
    with EmbeddedCluster(brokers=1, properties=properties, data=tmp_path) as cluster:
        core = cluster.core

        def list_groups() -> tuple[int, int]:
            fill(core)
            for partition in core.topics[CONSUMER_OFFSETS].partitions[1:]:
                PartitionCoordinatorLog(partition).append([commit(1)], timestamp_ms=core.clock.now_ms())
            context = RequestContext(api_version=4, now_ms=core.clock.now_ms())
            response = core.groups.list_groups(partition_of(core).leader, ListGroupsRequest(), context)
            return response.error_code, len([*core.groups.runtime.loading()])

        code, loading = cluster.call(list_groups)
        assert code == LOADING
        assert loading == 3


def test_a_cluster_that_closes_while_a_log_is_loaded_keeps_it(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    core = cluster.core
    assert cluster.call(lambda: code_of(core)) == LOADING
    cluster.close()
    assert not core.failures
    with EmbeddedCluster(brokers=2, data=tmp_path) as again:
        found = again.call(lambda: again.core.groups.runtime.loaded_at(partition_of(again.core)))
        assert found is not None
        assert len(list(found.shard.state.offsets.committed)) == 7


def test_a_log_that_is_compacted_before_its_first_block_is_read_loads_by_columns(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that, a load has turns that import pyarrow."""
    monkeypatch.setattr(PartitionCoordinatorLog, "min_columns_bytes", 1)
    core, log = cluster.core, partition_of(cluster.core).log
    now_ms = core.clock.now_ms()

    def compact_while_loading() -> tuple[int, int]:
        log.roll(now_ms)
        before = log.size_bytes
        assert code_of(core) == LOADING
        for work in clean(log, now_ms=now_ms):
            if work is not None:
                work.run()
        return before, log.size_bytes

    before, after = cluster.call(compact_while_loading)
    assert before > after
    wait_until_loaded(cluster)
    assert cluster.call(lambda: code_of(core)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert log.loading == 0
    assert len(list(core.groups.runtimes()[0].shard.state.offsets.committed)) == 7


def test_a_coordinator_that_fails_after_its_log_is_read_handles_no_requests(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its members would have no sessions."""
    core = cluster.core

    def fail(self: GroupCoordinatorShard, now_ms: int) -> Any:
        raise ValueError("no sessions")

    monkeypatch.setattr(GroupCoordinatorShard, "loaded", fail)
    assert cluster.call(lambda: code_of(core)) == LOADING
    wait_until_loaded(cluster)
    assert cluster.call(lambda: code_of(core)) == ErrorCode.NOT_COORDINATOR
    (failure,) = core.failures
    assert "no sessions" in failure


@pytest.mark.parametrize(("version", "sync"), [("4.3.1", LOADING), ("3.9.2", ErrorCode.REBALANCE_IN_PROGRESS)])
def test_members_of_classic_groups_stay_in_their_group_while_it_is_loaded(
    cluster: EmbeddedCluster, version: str, sync: ErrorCode
) -> None:
    """Kafka responds to their heartbeats without looking at the group (GroupCoordinatorService)."""
    core = cluster.core
    core.broker_configs.upgrade(KafkaVersion.parse(version))
    heartbeat = HeartbeatRequest(group_id="g1", generation_id=1, member_id="m")
    assert cluster.call(lambda: (code_of(core, heartbeat), code_of(core))) == (ErrorCode.NONE, sync)
    wait_until_loaded(cluster)
    assert cluster.call(lambda: code_of(core, heartbeat)) == ErrorCode.UNKNOWN_MEMBER_ID

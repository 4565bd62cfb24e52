"""Share coordinators of a cluster: their topic, logs, moves, restarts and pruning (KIP-932)."""

from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, ManualClock
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.cluster.core import ClusterCore
from quorate.cluster.turns import at_once
from quorate.codecs import SHARE_GROUP_STATE, Uuid
from quorate.codecs.api import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from quorate.codecs.api.broker import FindCoordinatorRequest
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.messages.share_state import ShareSnapshotKey, ShareUpdateKey, StateBatch
from quorate.coordinator.log import StoredRecord
from quorate.coordinator.share_state.key import SharePartitionKey
from tests.cluster.helpers.damage import crash
from tests.cluster.helpers.wire import Wire
from tests.cluster.storage.test_killed import Steps
from tests.cluster.storage.test_restart import quiet_core

ONE = {"share.coordinator.state.topic.num.partitions": 1}


def with_topic(data: Path | None = None, clock: ManualClock | None = None, **properties: object) -> ClusterCore:
    core = quiet_core(data, clock or ManualClock(), **{**ONE, **properties})
    core.create_topic("orders", partitions=3)
    return core


def topic_id(core: ClusterCore) -> Uuid:
    return core.topics["orders"].id


def result(pending: Any) -> Any:
    """Return the result of the only partition of a response."""
    assert pending.done
    ((topic,),) = (pending.response.results,)
    (partition,) = topic.partitions
    return partition


def initialize(core: ClusterCore, index: int = 0, *, start: int = 0, epoch: int = 0, group: str = "g") -> Any:
    data = initialize_share_group_state.PartitionData(partition=index, state_epoch=epoch, start_offset=start)
    topic = initialize_share_group_state.InitializeStateData(topic_id=topic_id(core), partitions=(data,))
    return result(core.share_state.persist(InitializeShareGroupStateRequest(group_id=group, topics=(topic,))))


def write(core: ClusterCore, index: int = 0, *, start: int = -1, leader_epoch: int = 0, batches: Any = ()) -> Any:
    data = write_share_group_state.PartitionData(
        partition=index, leader_epoch=leader_epoch, start_offset=start, state_batches=batches
    )
    topic = write_share_group_state.WriteStateData(topic_id=topic_id(core), partitions=(data,))
    return result(core.share_state.persist(WriteShareGroupStateRequest(group_id="g", topics=(topic,))))


def read_request(core: ClusterCore, index: int = 0, leader_epoch: int = 0) -> ReadShareGroupStateRequest:
    data = read_share_group_state.PartitionData(partition=index, leader_epoch=leader_epoch)
    topic = read_share_group_state.ReadStateData(topic_id=topic_id(core), partitions=(data,))
    return ReadShareGroupStateRequest(group_id="g", topics=(topic,))


def read(core: ClusterCore, index: int = 0, leader_epoch: int = 0) -> Any:
    return result(core.share_state.persist(read_request(core, index, leader_epoch)))


def summary(core: ClusterCore, index: int = 0) -> Any:
    data = read_share_group_state_summary.PartitionData(partition=index)
    topic = read_share_group_state_summary.ReadStateSummaryData(topic_id=topic_id(core), partitions=(data,))
    return result(core.share_state.persist(ReadShareGroupStateSummaryRequest(group_id="g", topics=(topic,))))


def delete(core: ClusterCore, index: int = 0) -> Any:
    data = delete_share_group_state.PartitionData(partition=index)
    topic = delete_share_group_state.DeleteStateData(topic_id=topic_id(core), partitions=(data,))
    return result(core.share_state.persist(DeleteShareGroupStateRequest(group_id="g", topics=(topic,))))


def batch(first: int, last: int, state: int = 2, count: int = 1) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def records(core: ClusterCore) -> list[StoredRecord]:
    (partition,) = core.topics[SHARE_GROUP_STATE].partitions
    return [one for one in PartitionCoordinatorLog(partition).read() if isinstance(one, StoredRecord)]


def test_state_is_created_written_read_and_deleted() -> None:
    core = with_topic()
    assert write(core).error_code == ErrorCode.INVALID_REQUEST  # not initialized
    assert initialize(core, start=5).error_code == 0
    assert write(core, start=7, batches=(batch(8, 9), batch(10, 12, 0, 2))).error_code == 0
    found = read(core)
    assert (found.start_offset, found.state_batches) == (7, (batch(8, 9), batch(10, 12, 0, 2)))
    assert summary(core).start_offset == 7
    assert delete(core).error_code == 0
    assert summary(core).start_offset == -1
    assert [type(one.record.key) for one in records(core)] == [ShareSnapshotKey, ShareUpdateKey, ShareSnapshotKey]
    assert records(core)[-1].record.value is None


def test_topic_of_share_state_has_kafkas_configs() -> None:
    core = quiet_core(None, ManualClock())
    topic = core.internal_topic(SHARE_GROUP_STATE)
    assert topic.internal
    assert len(topic.partitions) == 50
    assert topic.config == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }


def test_older_leader_epochs_and_state_epochs_are_fenced() -> None:
    core = with_topic()
    initialize(core)
    assert read(core, leader_epoch=3).error_code == 0
    assert write(core, leader_epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert initialize(core, epoch=4, start=9).error_code == 0
    assert write(core, leader_epoch=3).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert initialize(core, epoch=3).error_code == ErrorCode.FENCED_STATE_EPOCH


def test_brokers_receive_errors_of_share_state_with_the_messages_of_kafkas_persister() -> None:
    """Random requests of share groups on 4.3.1, seeds 34026 and 34029."""
    core = with_topic()
    assert write(core).error_message == (
        "Error in write state RPC. Write operation on uninitialized share partition not allowed."
    )
    assert read(core).error_message == (
        "Error in read state RPC. Read operation on uninitialized share partition not allowed."
    )


def test_state_survives_a_restart(tmp_path: Path) -> None:
    core = with_topic(tmp_path)
    initialize(core, start=5)
    write(core, start=7, batches=(batch(8, 9),))
    before = read(core)
    assert core.data is not None
    core.data.release()
    again = quiet_core(tmp_path, ManualClock(), **ONE)
    assert read(again) == before


def test_new_leader_has_the_state_of_the_old_one() -> None:
    core = with_topic()
    initialize(core, start=5)
    before = read(core)
    (partition,) = core.topics[SHARE_GROUP_STATE].partitions
    was = partition.leader
    core.stop_broker(was)
    assert partition.leader != was
    assert read(core) == before
    moved = at_once(core.share_state.request(was, read_request(core)))
    assert moved.results[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_persister_retries_until_there_is_a_coordinator() -> None:
    clock = ManualClock()
    core = with_topic(clock=clock)
    initialize(core, start=5)
    for broker in list(core.brokers):
        core.stop_broker(broker)
    pending = core.share_state.persist(read_request(core))
    assert not pending.done
    clock.advance(1_000)
    assert not pending.done
    core.register(*core.brokers.values())
    clock.advance(2_000)
    assert result(pending).start_offset == 5


def test_persister_gives_up_after_five_attempts() -> None:
    clock = ManualClock()
    core = with_topic(clock=clock)
    initialize(core)
    for broker in list(core.brokers):
        core.stop_broker(broker)
    pending = core.share_state.persist(read_request(core))
    clock.advance(14_999)
    assert not pending.done
    clock.advance(1)
    failed = result(pending)
    assert failed.error_code == ErrorCode.NOT_COORDINATOR
    assert failed.error_message == (
        "Error in read state RPC. Exhausted max retries to complete read state RPC without success."
    )


def test_records_before_the_oldest_snapshot_are_pruned() -> None:
    core = with_topic(**{"share.coordinator.snapshot.update.records.per.snapshot": 2})
    initialize(core, 0)
    initialize(core, 1)
    for end in range(1, 6):
        write(core, 0, start=end)
        write(core, 1, start=end)
    core.share_state.prune()
    (partition,) = core.topics[SHARE_GROUP_STATE].partitions
    oldest = partition.log.start_offset
    keys = [(type(one.record.key), one.record.key.partition) for one in records(core) if one.offset >= oldest]
    assert keys[0] == (ShareSnapshotKey, 0)
    assert oldest == max(one.offset for one in records(core) if isinstance(one.record.key, ShareSnapshotKey)) - 1
    core.share_state.runtime.restart()
    assert [summary(core, index).start_offset for index in (0, 1)] == [5, 5]


def test_partitions_without_updates_get_snapshots_so_that_others_can_be_pruned() -> None:
    clock = ManualClock()
    core = with_topic(clock=clock)
    initialize(core, 0, start=1)
    initialize(core, 1, start=2)
    core.maintenance.start()
    clock.advance(299_999)
    assert len(records(core)) == 2
    clock.advance(1)
    assert [one.record.value.snapshot_epoch for one in records(core)[2:]] == [1, 1]  # type: ignore[union-attr]
    clock.advance(300_000)
    (partition,) = core.topics[SHARE_GROUP_STATE].partitions
    assert partition.log.start_offset == 2
    assert len(records(core)) == 2  # no others, as all have such a snapshot


def test_state_of_deleted_topics_is_deleted() -> None:
    core = with_topic()
    initialize(core)
    core.topic_control.delete_topic("orders")
    assert [one.record.value for one in records(core)][1:] == [None]


def test_find_coordinator_returns_the_leader_of_the_share_partition(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("orders", partitions=3)
    found = str(cluster.call(lambda: cluster.core.topics["orders"].id))
    port = int(cluster.bootstrap_servers.split(",")[0].rpartition(":")[2])
    keys = tuple(f"g:{found}:{index}" for index in range(3))
    with Wire(port) as wire:
        response = wire.request(FindCoordinatorRequest(key_type=2, coordinator_keys=(*keys, "g", "g:x:1")), 6)
        assert [one.error_code for one in response.coordinators] == [0, 0, 0, 42, 42]
        for one in response.coordinators[:3]:
            partition = cluster.call(lambda key=one.key: cluster.core.share_state.partition_for(key))
            assert one.node_id == partition.leader  # type: ignore[union-attr]
        assert [
            one.error_code
            for one in wire.request(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 5).coordinators
        ] == [42, 42, 42]


def test_brokers_handle_requests_of_share_state_for_what_they_coordinate(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("orders", partitions=1)
    core = cluster.core
    cluster.call(lambda: core.internal_topic(SHARE_GROUP_STATE))
    key = SharePartitionKey("g", core.topics["orders"].id, 0)
    partition = core.share_state.partition_for(key.coordinator_key)
    assert partition is not None
    data = initialize_share_group_state.PartitionData(partition=0, start_offset=3)
    topic = initialize_share_group_state.InitializeStateData(topic_id=key.topic_id, partitions=(data,))
    request = InitializeShareGroupStateRequest(group_id="g", topics=(topic,))
    found = {}
    for broker, address in zip(sorted(core.brokers), cluster.bootstrap_servers.split(","), strict=True):
        with Wire(int(address.rpartition(":")[2])) as wire:
            found[broker] = wire.request(request, 0).results[0].partitions[0].error_code
            assert wire.request(InitializeShareGroupStateRequest(topics=(topic,)), 0).results == ()
    assert found == {
        broker: 0 if broker == partition.leader else ErrorCode.NOT_COORDINATOR for broker in sorted(core.brokers)
    }


def test_crash_loses_no_acknowledged_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        core = with_topic(tmp_path / "data", **{"share.coordinator.snapshot.update.records.per.snapshot": 1})
        initialize(core)
        steps = Steps(tmp_path / "data", tmp_path / "copies", patched)
        for end in range(1, 5):
            write(core, start=end)
            steps.operation = end
            core.share_state.prune()
    crash(core)
    assert len(steps.copies) > 4
    for copy, what, acknowledged in steps.copies:
        again = quiet_core(copy, ManualClock(), **ONE)
        assert summary(again).start_offset in (acknowledged, acknowledged + 1), what
        crash(again)

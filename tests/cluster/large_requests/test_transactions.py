"""Transactions with many partitions (issue 14)."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, ManualClock, turns
from quorate.cluster.core import ClusterCore
from quorate.codecs.api.broker import (
    EndTxnRequest,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import CONSUMER_OFFSETS, TRANSACTION_STATE
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError
from quorate.coordinator.transactions.records import Status
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.damage import crash
from tests.cluster.helpers.large_requests import PARTITIONS, SampleTurns, calls_in, core_with_topics, status
from tests.cluster.helpers.wire import Wire
from tests.cluster.storage.test_restart import quiet_core
from tests.cluster.test_limits import eventually


def open_transaction(core: ClusterCore, name: str = "x", partitions: int = PARTITIONS) -> tuple[int, int]:
    """Begin a transaction in partitions of the topic "t"; return the producer's id and epoch."""
    producer = core.transactions.init_producer_id(name, 60_000, -1, -1)
    core.transactions.add_partitions(name, *producer, [("t", index) for index in range(partitions)])
    return producer


def markers(core: ClusterCore) -> list[int]:
    """Return the number of markers in each partition of the topic "t"."""
    return [partition.log.next_offset for partition in core.topics["t"].partitions]


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_completes_after_its_markers_were_written_in_turns(
    cluster: EmbeddedCluster, sample_turns: SampleTurns, commit: bool
) -> None:
    """20,000 partitions blocked all requests for 0.6 s, and for 5 s on a disk."""
    core = core_with_topics(cluster)
    producer_id, epoch = cluster.call(lambda: open_transaction(core))
    partition = core.transactions.partition_for("x")
    other = next(name for name in map(str, itertools.count()) if core.transactions.partition_for(name) is partition)
    small = Status.COMPLETE_COMMIT
    samples = sample_turns(lambda: (sum(markers(core)), status(core), concurrent(core), small_transaction(core, other)))

    def concurrent(core: ClusterCore) -> ErrorCode:
        with pytest.raises(ApiError) as refused:
            core.transactions.add_partitions("x", producer_id, epoch, [("t", 0)])
        return refused.value.code

    with Wire(core.brokers[1].port) as wire:
        request = EndTxnRequest(transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=commit)
        core.transactions.check_coordinator(1, "x")
        assert wire.request(request, 4).error_code == ErrorCode.NONE
        eventually(lambda: status(core) in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT))
    assert status(core) is (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT)
    assert markers(core) == [1] * PARTITIONS
    prepared = Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT
    during = [sample for sample in samples if sample[1] is prepared]
    assert {sample[2:] for sample in during} == {(ErrorCode.CONCURRENT_TRANSACTIONS, small)}
    written = [0, *(sample[0] for sample in during), PARTITIONS]
    assert max(later - earlier for earlier, later in itertools.pairwise(written)) <= 20
    assert not core.failures


def small_transaction(core: ClusterCore, name: str) -> Status | None:
    """Begin and end a transaction with one partition; return its status."""
    producer = core.transactions.init_producer_id(name, 60_000, -1, -1)
    core.transactions.add_partitions(name, *producer, [(CONSUMER_OFFSETS, 0)])
    core.transactions.end(name, *producer, commit=True, bump_epoch=False)
    return status(core, name)


def test_a_cluster_stopped_while_markers_are_written_writes_the_remaining_markers(
    tmp_path: Path, short_turns: None
) -> None:
    with EmbeddedCluster(properties=QUICK, data=tmp_path) as cluster:
        core = core_with_topics(cluster)
        producer = cluster.call(lambda: open_transaction(core))
        before = cluster.call(
            lambda: (core.transactions.end("x", *producer, commit=True, bump_epoch=False), sum(markers(core)))
        )
        assert before[1] < PARTITIONS
    assert markers(core) == [1] * PARTITIONS
    with EmbeddedCluster(properties=QUICK, data=tmp_path) as again:
        eventually(lambda: "x" in again.core.transactions.by_id)  # its log is loaded in turns
        assert status(again.core) is Status.COMPLETE_COMMIT
        assert markers(again.core) == [1] * PARTITIONS


def test_a_transaction_is_completed_after_a_crash_between_two_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    clock = ManualClock()
    core = quiet_core(tmp_path, clock)
    core.internal_topic(TRANSACTION_STATE)
    core.create_topic("t", partitions=PARTITIONS)
    producer = open_transaction(core)
    write = core.transactions.write_markers

    def killed(*arguments: Any) -> Iterator[None]:
        yield from itertools.islice(write(*arguments), 2)
        raise Killed

    monkeypatch.setattr(core.transactions, "write_markers", killed)
    with pytest.raises(Killed):
        core.transactions.end("x", *producer, commit=True, bump_epoch=False)
    assert sum(markers(core)) == 40
    crash(core)
    again = quiet_core(tmp_path, clock)
    assert status(again) is Status.COMPLETE_COMMIT
    assert markers(again) == [2] * 40 + [1] * (PARTITIONS - 40)  # as Kafka, which writes all of them again
    again.close()


def test_another_leader_completes_a_transaction_whose_markers_are_being_written(
    short_turns: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedCluster(brokers=2, properties=QUICK) as cluster:
        core = core_with_topics(cluster)
        partition = core.transactions.partition_for("x")
        assert partition is not None
        cluster.call(lambda: core.reassign(partition, [1]))
        producer = cluster.call(lambda: open_transaction(core))
        original = turns.Turns._next
        moved: list[int] = []

        def next_turn(self: turns.Turns) -> None:
            if not moved and sum(markers(core)) >= 100:
                moved.append(sum(markers(core)))
                core.reassign(partition, [2])
            original(self)

        monkeypatch.setattr(turns.Turns, "_next", next_turn)
        cluster.call(lambda: core.transactions.end("x", *producer, commit=True, bump_epoch=False))
        eventually(lambda: status(core) is Status.COMPLETE_COMMIT)
        counts = cluster.call(lambda: markers(core))
        assert partition.leader == 2
        assert moved[0] < PARTITIONS
        assert sorted(counts) == [1] * (PARTITIONS - moved[0]) + [2] * moved[0]
        assert not core.failures


def test_markers_that_cannot_be_written_are_written_later_in_turns(
    cluster: EmbeddedCluster, sample_turns: SampleTurns
) -> None:
    core = core_with_topics(cluster)
    producer = cluster.call(lambda: open_transaction(core))
    log = core.topics["t"].partitions[200].log
    refused: list[int] = []

    def refuse(*_: object, **__: object) -> int:
        refused.append(0)
        raise AppendError(ErrorCode.KAFKA_STORAGE_ERROR)

    samples = sample_turns(lambda: sum(markers(core)))
    patched = pytest.MonkeyPatch()
    patched.setattr(log, "append_marker", refuse)
    try:
        cluster.call(lambda: core.transactions.end("x", *producer, commit=True, bump_epoch=False))
        eventually(lambda: refused)
        assert status(core) is Status.PREPARE_COMMIT
    finally:
        cluster.call(patched.undo)
    eventually(lambda: status(core) is Status.COMPLETE_COMMIT)
    assert min(markers(core)) == 1
    assert max(later - earlier for earlier, later in itertools.pairwise(samples)) <= 20
    assert not core.failures


def test_a_transaction_coordinator_makes_no_calls_per_partition(short_turns: None) -> None:
    """AddPartitionsToTxn with 20,000 partitions, and the decision of EndTxn, took 0.3 s each."""
    counted = []
    for count in (100, 300, 3_000):  # the first call creates the encoders
        with EmbeddedCluster(properties=QUICK) as cluster:
            core = core_with_topics(cluster, count)
            producer = cluster.call(lambda core=core: core.transactions.init_producer_id("x", 60_000, -1, -1))
            where = [("t", index) for index in range(count)]
            steps: tuple[Callable[[], Any], ...] = (
                lambda core=core, producer=producer, where=where: core.transactions.add_partitions(  # type: ignore[misc]
                    "x", *producer, where
                ),
                lambda core=core, producer=producer: core.transactions.end(  # type: ignore[misc]
                    "x", *producer, commit=True, bump_epoch=False
                ),
            )
            counted.append([calls_in(cluster, step)[0] for step in steps])
    for few, many in zip(*counted[1:], strict=True):
        assert many < few + 100

"""Fencing and removing brokers that lead many partitions (issue 14)."""

from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, ManualClock, turns
from quorate.cluster.apis import Context
from quorate.cluster.core import ClusterCore
from quorate.cluster.handlers import HANDLERS
from quorate.cluster.log import PartitionLog
from quorate.cluster.turns import at_once
from quorate.codecs.api.broker import (
    UnregisterBrokerRequest,
)
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.large_requests import MANY, assert_metadata_log_is_complete, calls_in
from tests.cluster.helpers.wire import Wire
from tests.cluster.storage.test_full_disk import fail_disk_full
from tests.cluster.storage.test_restart import quiet_core
from tests.cluster.test_limits import eventually


def test_fencing_a_broker_takes_at_most_one_call_for_each_partition_that_it_led() -> None:
    """The last step, in one turn, took 282 ms after many topics had been created."""
    with EmbeddedCluster(brokers=2, properties=QUICK) as cluster:
        core = cluster.core
        cluster.call(lambda: core.create_topic("t", partitions=2_000))
        fencing = core.broker_control.fencing(2, lambda: True)
        calls = []
        while core.brokers[2].alive:
            calls.append(calls_in(cluster, lambda: next(fencing))[0])
        assert {partition.leader for partition in core.topics["t"].partitions} == {1, -1}
        assert len(calls) > 10
        assert calls[-1] < 1_200
        cluster.call(lambda: at_once(fencing))


@pytest.mark.parametrize("how", ["unregistered", "fenced", "reconnected meanwhile"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_broker_is_fenced_and_new_leaders_elected_atomically(
    how: str, on_disk: bool, tmp_path: Path, short_turns: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """90,000 partitions took 0.6 s in one turn (issue 14)."""
    monkeypatch.setattr(turns, "_CHUNK_SIZE", 10)
    data = tmp_path if on_disk else None
    with EmbeddedCluster(brokers=2, properties=QUICK | {"broker.session.timeout.ms": 10}, data=data) as cluster:
        core = cluster.core
        for number in range(MANY):
            cluster.call(lambda number=number: core.create_topic(f"t{number}", partitions=3, replicas=2))
        cluster.call(lambda: core.create_topic("t", partitions=400, replicas=2))
        samples = []
        original = turns.Turns._next

        def next_turn(self: turns.Turns) -> None:
            samples.append((core.brokers[2].alive, led_by(core), core.image.topics["t"].leadership))
            if how == "reconnected meanwhile" and len(samples) == 10:
                core.brokers[2].cut_from_controller(False)
            original(self)

        monkeypatch.setattr(turns.Turns, "_next", next_turn)
        if how == "unregistered":
            with Wire(core.brokers[1].port) as wire:
                assert wire.request(UnregisterBrokerRequest(broker_id=2), 0).error_code == 0
        else:
            cluster.call(lambda: core.brokers[2].cut_from_controller(True))
            eventually(lambda: samples and not core.controller.changes.pending)
        before, after = (True, {1, 2}, 0), (False, {1}, 1)
        assert len(samples) > MANY
        assert [sample for sample in (before, after) if sample in samples] == [
            sample for at, sample in enumerate(samples) if sample not in samples[:at]
        ]
        assert core.brokers[2].alive is (how == "reconnected meanwhile")
        assert led_by(core) == ({1, 2} if how == "reconnected meanwhile" else {1})
        if core.data is not None:
            assert_metadata_log_is_complete(core)
            assert core.state.brokers.keys() == ({1} if how == "unregistered" else {1, 2})
        assert not core.failures


@pytest.mark.parametrize("requested", [True, False], ids=["unregistered", "fenced"])
def test_a_broker_is_removed_on_a_full_disk(
    requested: bool, tmp_path: Path, short_turns: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UnregisterBroker is rejected. A broker without heartbeats is fenced, and written later."""
    turns_before = 0
    while remove_on_full_disk(requested, tmp_path / f"{turns_before}", turns_before, monkeypatch):
        turns_before += 1
    assert turns_before > 5


def remove_on_full_disk(requested: bool, data: Path, turns_before: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Fill the disk after `turns_before` turns; return whether the removal took more turns."""
    core = quiet_core(data, ManualClock())
    for number in range(3):
        core.create_topic(f"t{number}", partitions=3, replicas=2)
    leaders = led_by(core)
    context = Context(api_version=0, now_ms=0, client_id="", client_host="/127.0.0.1", connection=None)  # type: ignore[arg-type]
    request = UnregisterBrokerRequest(broker_id=2)
    work: Any = (
        HANDLERS[UnregisterBrokerRequest].handler(core.brokers[1], request, context)
        if requested
        else core.broker_control.fencing(2, lambda: True)
    )
    completed = any(next(work, work) is work for _ in range(turns_before))
    if not completed:
        with monkeypatch.context() as patched:
            patched.setattr(PartitionLog, "append_own", fail_disk_full)
            response = at_once(work)
        written = core.controller.next_offset == core.data.metadata.log.next_offset  # type: ignore[union-attr]
        if requested and response.error_code:
            assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert written
            assert led_by(core) == leaders == {1, 2}
            core.close()
            return True
    assert led_by(core) == {1}
    core.controller.write_pending()
    assert_metadata_log_is_complete(core)
    core.close()
    return not completed


def led_by(core: ClusterCore) -> set[int]:
    return {partition.leader for topic in core.topics.values() for partition in topic.partitions}

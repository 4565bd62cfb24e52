"""Concurrent pairs of changes of topics, and of maintenance (issue 14).

The second begins at each turn of the first, with a kill after each turn that changed files. A topic
that exists must lose no records, and a deleted one must not prevent the next start.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import ManualClock
from quorate.cluster.apis import Context
from quorate.cluster.changes import Changes
from quorate.cluster.core import ClusterCore
from quorate.cluster.errors import ClusterError
from quorate.cluster.handlers import HANDLERS
from quorate.cluster.log import PartitionLog
from quorate.cluster.turns import Work, at_once
from quorate.codecs import CONSUMER_OFFSETS, Uuid
from quorate.codecs.api import DescribeGroupsRequest, OffsetCommitRequest
from quorate.codecs.api.broker import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from quorate.codecs.api.broker.create_partitions import CreatePartitionsTopic
from quorate.codecs.api.broker.create_topics import CreatableTopic, CreatableTopicConfig
from quorate.codecs.api.broker.delete_topics import DeleteTopicState
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.batches import BatchRecord, encode_batch, read_batches
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError
from quorate.coordinator.results import Pending
from tests.cluster.storage.test_full_disk import fail_disk_full
from tests.cluster.storage.test_restart import quiet_core
from tests.cluster.test_log import batch
from tests.extent import is_full

DAY_MS = 86_400_000
CONFIG = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(DAY_MS),
    "min.cleanable.dirty.ratio": "0",
}


def ask(core: ClusterCore, request: Any, version: int) -> Work[Any]:
    context = Context(
        api_version=version, now_ms=core.clock.now_ms(), client_id="", client_host="/127.0.0.1", connection=None
    )  # type: ignore[arg-type]
    return HANDLERS[type(request)].handler(core.brokers[1], request, context)  # type: ignore[return-value]


def create(core: ClusterCore, name: str = "t") -> Work[Any]:
    configs = tuple(CreatableTopicConfig(name=key, value=value) for key, value in CONFIG.items())
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=(), configs=configs)
    return ask(core, CreateTopicsRequest(topics=(topic,), timeout_ms=1000), 7)


def delete(core: ClusterCore, name: str = "t") -> Work[Any]:
    return ask(core, DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=1000), 6)


def delete_and_create(core: ClusterCore) -> Work[Any]:
    yield from delete(core)
    yield from create(core)


def grow(core: ClusterCore) -> Work[Any]:
    topic = CreatePartitionsTopic(name="t", count=4, assignments=None)
    return ask(core, CreatePartitionsRequest(topics=(topic,), timeout_ms=1000, validate_only=False), 3)


def retention(core: ClusterCore) -> Work[Any]:
    return core.maintenance._retaining()


def compaction(core: ClusterCore) -> Iterator[Any]:
    return core.maintenance._pass()


def in_process(core: ClusterCore) -> Iterator[Any]:
    """A change by the process itself takes no turns."""
    with suppress(ApiError):  # the topic may be deleted
        core.delete_topic("t")
    core.create_topic("t", partitions=3, replicas=1, config=CONFIG)
    yield None


FIRST = (create, delete, grow)
SECOND = (*FIRST, delete_and_create, in_process)
MAINTENANCE = (retention, compaction)
PAIRS = [*product(FIRST, (*SECOND, *MAINTENANCE)), *product(MAINTENANCE, SECOND), (compaction, retention)]
USUAL = [
    (create, delete_and_create),
    (create, compaction),
    (delete, create),
    (delete, grow),
    (grow, in_process),
    (grow, retention),
    (retention, delete),
    (compaction, create),
]
"""The pairs of `make test`: each change occurs as first and as second."""


class Meeting:
    """A cluster with topics `t` and `other`, to which a record is written after each turn.

    `written`: topic id → keys that must exist.
    """

    def __init__(self, data: Path) -> None:
        self.data = data
        self.clock = ManualClock()
        self.core = quiet_core(data, self.clock)
        self.written: dict[Uuid, list[bytes]] = {}
        self.copies = 0
        for name in ("other", "t"):
            log = self.core.create_topic(name, partitions=2, replicas=1, config=CONFIG).partitions[0].log
            for key, age_ms in ((b"old", 2 * DAY_MS), (b"twice", 0), (b"twice", 0)):  # compaction keeps one of two
                put(log, key, self.clock.now_ms(), age_ms)
                log.roll(self.clock.now_ms())

    def turn(self, work: Iterator[Any], *, kill: bool = True) -> bool:
        """Run a turn of some work, then append a record to each topic; return whether more is left.

        `kill`: if the turn changed files, start from a copy of them, as after a kill.
        """
        before = self.files() if kill else None
        more = next(work, self) is not self
        for topic in self.core.topics.values():
            keys = self.written.setdefault(topic.id, [])
            keys.append(b"%d" % len(keys))
            put(topic.partitions[-1].log, keys[-1], self.clock.now_ms())
        if before is None or before == self.files():
            return more
        self.check(self.core)
        self.copies += 1
        copy = self.data.with_name(f"copy-{self.copies}")
        shutil.copytree(self.data, copy)
        try:
            self.restarted(copy)
        finally:
            shutil.rmtree(copy)
        return more

    def files(self) -> tuple[set[str], int]:
        """Return the paths of files and folders, and the size of the metadata."""
        assert self.core.data is not None
        paths = {f"{at}/{name}" for at, folders, names in os.walk(self.data) for name in (*folders, *names)}
        return paths, self.core.data.metadata.log.next_offset

    def restarted(self, data: Path) -> None:
        again = quiet_core(data, self.clock)
        try:
            self.check(again)
        finally:
            again.data.release()  # type: ignore[union-attr]

    def check(self, core: ClusterCore) -> None:
        """Check that a cluster has the same topics, and all records that must exist."""
        assert shape(core) == shape(self.core)
        for name, topic in core.topics.items():
            keys = set()
            for one, mine in zip(topic.partitions, self.core.topics[name].partitions, strict=True):
                assert [stored.data for stored in one.log] == [stored.data for stored in mine.log]
                keys |= {record.key for stored in one.log for record in next(read_batches(stored.data)).records()}  # type: ignore[union-attr]
            assert keys.issuperset(self.written.get(topic.id, ())), name


def put(log: PartitionLog, key: bytes, now_ms: int, age_ms: int = 0) -> None:
    record = BatchRecord(offset=0, timestamp_ms=now_ms - age_ms, key=key, value=b"v")
    log.append(encode_batch([record]), leader_epoch=0, now_ms=now_ms)


def shape(core: ClusterCore) -> dict[str, tuple[Uuid, int]]:
    return {name: (topic.id, len(topic.partitions)) for name, topic in sorted(core.topics.items())}


@pytest.mark.parametrize(("first", "second"), PAIRS if is_full() else USUAL, ids=lambda work: work.__name__)
def test_concurrent_changes_lose_nothing_and_every_kill_is_recovered(
    first: Callable[[ClusterCore], Iterator[Any]], second: Callable[[ClusterCore], Iterator[Any]], tmp_path: Path
) -> None:
    before, goes_on = 0, True
    while goes_on:
        meeting = Meeting(tmp_path / f"{before}")
        one = first(meeting.core)
        goes_on = all(meeting.turn(one, kill=False) for _ in range(before))  # checked before
        other = second(meeting.core)
        while meeting.turn(other, kill=second in SECOND) or meeting.turn(one, kill=first in FIRST):
            pass
        assert not meeting.core.controller.changes.pending
        assert not meeting.core.notes
        meeting.core.data.release()  # type: ignore[union-attr]
        meeting.restarted(meeting.data)
        meeting.core.data.release()  # type: ignore[union-attr]  # opened again by the comparison
        assert not list(meeting.data.glob("broker-*/*-delete"))
        before += 1


@pytest.mark.parametrize("change", [delete, grow, create])
def test_a_change_on_a_full_disk_is_rejected_and_a_kill_loses_nothing(
    change: Callable[[ClusterCore], Work[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = Meeting(tmp_path / "data")
    if change is create:
        meeting.core.delete_topic("t")
    before, code = shape(meeting.core), None
    work = change(meeting.core)
    while code is None:
        try:
            with monkeypatch.context() as patched:
                patched.setattr(PartitionLog, "append_own", fail_disk_full)
                next(work)
        except StopIteration as end:
            response = end.value
            (reported,) = getattr(response, {delete: "responses", grow: "results", create: "topics"}[change])
            code = reported.error_code
        copy = shutil.copytree(meeting.data, tmp_path / "copy")
        meeting.restarted(copy)
        shutil.rmtree(copy)
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert shape(meeting.core) == before
    at_once(change(meeting.core))
    assert shape(meeting.core) != before
    meeting.core.data.release()  # type: ignore[union-attr]


def test_the_log_of_a_deleted_topic_cannot_change_that_of_a_new_one(tmp_path: Path) -> None:
    core = quiet_core(tmp_path, ManualClock())
    log = core.create_topic("t", partitions=1, assignment=[[1]]).partitions[0].log
    log.append(batch(3), leader_epoch=0, now_ms=0)
    log.roll(0)
    log.append(batch(3), leader_epoch=0, now_ms=0)
    core.delete_topic("t")
    new = core.create_topic("t", partitions=1, assignment=[[1]]).partitions[0].log
    new.append(batch(2), leader_epoch=0, now_ms=0)
    home = tmp_path / "broker-1" / "t-0"
    files = {path.name: path.read_bytes() for path in home.iterdir()}
    assert log.files is not None
    for use in (
        lambda: log.append(batch(1), leader_epoch=0, now_ms=0),
        lambda: log.append(batch(1), leader_epoch=5, now_ms=0),
        lambda: log.roll(0),
        lambda: log.delete_before(2),
        log.close,
    ):
        with pytest.raises(AppendError) as refused:
            use()
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(FileNotFoundError):
        log.files.cleaned(log.segments[0])
    log.files.delete_segment(0)
    log.files.delete_snapshot(0)
    log.flush()
    assert {path.name: path.read_bytes() for path in home.iterdir()} == files
    assert not core.notes


def test_a_topic_with_the_longest_name_is_deleted(tmp_path: Path) -> None:
    """Its folder name leaves only a few characters for a suffix; Kafka truncates it."""
    core = quiet_core(tmp_path, ManualClock())
    core.create_topic("n" * 249, partitions=1, replicas=2)
    core.delete_topic("n" * 249)
    assert not list(tmp_path.glob("broker-*/n*"))
    assert not core.notes


def test_a_folder_that_was_renamed_before_a_kill_is_deleted_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = quiet_core(tmp_path, ManualClock())
    core.create_topic("t", partitions=1, assignment=[[1]])
    with monkeypatch.context() as patched:
        patched.setattr("quorate.cluster.storage.log_files.remove_folder", lambda folder: None)
        core.delete_topic("t")
    assert len(list(tmp_path.glob("broker-1/t-0.*-delete"))) == 1
    core.data.release()  # type: ignore[union-attr]
    quiet_core(tmp_path, ManualClock())
    assert not list(tmp_path.glob("broker-1/t-0*"))


def test_changes_run_once_in_order_even_if_their_clients_disconnect() -> None:
    seen: list[str] = []

    def work(name: str, turns: int) -> Work[str]:
        for _ in range(turns):
            seen.append(name)
            yield None
        if name == "fails":
            raise KeyError(name)
        return name

    changes = Changes()
    first, fails, last = (changes.run(work(name, 2)) for name in ("first", "fails", "last"))
    for one in (first, fails, last):
        next(one)
    first.close()  # its client has disconnected
    assert at_once(last) == "last"
    assert seen == ["first", "first", "fails", "fails", "last", "last"]
    with pytest.raises(KeyError):
        next(fails)
    assert not changes.pending


def test_a_broker_with_replicas_of_new_partitions_is_not_removed() -> None:
    """It was removed while they were created, which left replicas on a missing broker."""
    core = quiet_core(None, ManualClock())
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=2)
    work = ask(core, CreateTopicsRequest(topics=(topic,), timeout_ms=1000), 7)
    next(work)
    with pytest.raises(ClusterError, match="broker 2 has replicas of 2 partitions"):
        core.remove_broker(2)
    assert at_once(work).topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("change", [create, delete])
def test_an_internal_topic_is_created_while_a_client_creates_or_deletes_it(
    change: Callable[..., Work[Any]], fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a small request, which does not wait for the large one."""
    for before in range(1, 4):
        data = tmp_path / f"{before}"
        core = quiet_core(data, ManualClock())
        if change is delete:
            core.internal_topic(CONSUMER_OFFSETS)
        work = change(core, CONSUMER_OFFSETS)
        for _ in range(before):
            next(work, None)
        pending = core.controller.changes.pending
        with monkeypatch.context() as patched, suppress(ApiError):
            if fails:
                patched.setattr(PartitionLog, "append_own", fail_disk_full)
            core.internal_topic(CONSUMER_OFFSETS)
        assert core.controller.changes.pending == pending
        with suppress(StopIteration):
            at_once(work)
        assert fails or change is delete or CONSUMER_OFFSETS in core.topics
        for topic in core.topics.values():
            put(topic.partitions[0].log, b"k", core.clock.now_ms())
        core.data.release()  # type: ignore[union-attr]
        again = quiet_core(data, ManualClock())
        assert shape(again) == shape(core)
        again.data.release()  # type: ignore[union-attr]


def test_groups_have_no_coordinator_after_their_offsets_topic_is_recreated() -> None:
    """A request about many groups failed if the new topic had fewer partitions."""
    core = quiet_core(None, ManualClock())
    core.internal_topic(CONSUMER_OFFSETS)
    groups = tuple(f"group-{number}" for number in range(20))
    work = ask(core, DescribeGroupsRequest(groups=groups), 5)
    for _ in range(len(groups) + 1):  # until their partitions are looked up
        next(work)
    core.delete_topic(CONSUMER_OFFSETS)
    core.create_topic(CONSUMER_OFFSETS, partitions=1, assignment=[[1]])
    found = at_once(work).groups
    assert {one.group_id: one.error_code for one in found} == dict.fromkeys(groups, ErrorCode.NOT_COORDINATOR)


def test_offsets_of_a_topic_deleted_between_turns_are_rejected_by_id() -> None:
    core = quiet_core(None, ManualClock())
    topic = core.create_topic("t", partitions=1, replicas=1)
    partitions = tuple(OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in (0, 9))
    requested = OffsetCommitRequestTopic(topic_id=topic.id, partitions=partitions)
    core.internal_topic(CONSUMER_OFFSETS)
    work = ask(core, OffsetCommitRequest(group_id="g", topics=(requested,)), 10)
    next(work)
    core.delete_topic("t")
    reply = at_once(work)
    (reported,) = reply.response.topics if isinstance(reply, Pending) else reply.topics
    assert reported.topic_id == topic.id
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in {partition.error_code for partition in reported.partitions}

"""Clusters killed between any two steps start with all acknowledged data (issue 14)."""

import builtins
import io
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import ClusterError
from quorate.cluster.core import ClusterCore
from quorate.cluster.log import PartitionLog
from quorate.cluster.storage.checksums import CHECKSUMS
from quorate.cluster.storage.cleaning import clean
from quorate.cluster.storage.retention import expire
from quorate.codecs.batches import Batch, BatchRecord, encode_batch, read_batches
from quorate.codecs.configs import ConfigResourceType
from tests.cluster.helpers.damage import begin, core_of, crash
from tests.cluster.storage.test_damage import flip, log_path, refused
from tests.cluster.test_log import batch
from tests.extent import sampled

DAY_MS = 86_400_000
CHANGES = ("mkdir", "replace", "rename", "unlink", "rmdir", "link", "ftruncate", "pwrite")


# ---- files after a kill


def outer(inner: bytes) -> bytes:
    """Return a batch whose value contains a whole batch, as in an archive of segments."""
    return encode_batch([BatchRecord(offset=0, timestamp_ms=1, key=None, value=inner + b"y" * 9000)])


def test_a_batch_inside_a_torn_batch_is_not_taken_for_a_later_batch(tmp_path: Path) -> None:
    core = core_of(tmp_path)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1)
    inner = encode_batch([BatchRecord(offset=500, timestamp_ms=1, key=None, value=b"x" * 50)])
    log = core.topics["t"].partitions[0].log
    log.append(outer(inner), leader_epoch=0, now_ms=1)
    crash(core)
    path = log_path(tmp_path, "t-0")
    torn = bytearray(path.read_bytes()[:4096])
    torn[7] = 1  # the base offset
    with path.open("ab") as file:
        file.write(torn)
    again = core_of(tmp_path)
    assert again.topics["t"].partitions[0].log.next_offset == 1
    (note,) = again.start_notes
    assert note.endswith("4,096 bytes of an unfinished write were cut off")
    crash(again)


def test_a_batch_after_a_torn_one_is_a_loss(tmp_path: Path) -> None:
    core = core_of(tmp_path)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1)
    log = core.topics["t"].partitions[0].log
    log.append(batch(1), leader_epoch=0, now_ms=1)
    path = log_path(tmp_path, "t-0")
    checksums = path.with_name(CHECKSUMS)
    older, size = checksums.read_bytes(), log.active.size
    log.append(batch(1), leader_epoch=0, now_ms=1)
    log.append(batch(1), leader_epoch=0, now_ms=1)
    crash(core)
    checksums.write_bytes(older)  # as after a power failure, with only the batches on disk
    flip(path, size + 64)
    assert f"{path}, position {size:,}: " in refused(tmp_path)


@pytest.mark.parametrize("made", ["controller", "controller/__cluster_metadata-0"])
def test_a_killed_first_start_is_repeated(tmp_path: Path, made: str) -> None:
    (tmp_path / made).mkdir(parents=True)
    core = core_of(tmp_path)
    begin(core)
    core.close()
    assert core.start_notes == ()


def keyed(key: int, value: int) -> bytes:
    return encode_batch([BatchRecord(offset=0, timestamp_ms=1, key=b"k%d" % key, value=b"v%d" % value)])


@pytest.mark.parametrize("places", [{2, 4}, {5}], ids=["between segments", "in a segment"])
def test_a_compacted_topic_without_checksums_is_read(tmp_path: Path, places: set[int]) -> None:
    core = core_of(tmp_path)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1, config={"cleanup.policy": "compact"})
    log = core.topics["t"].partitions[0].log
    for number in range(7):
        log.append(keyed(number % 2, number), leader_epoch=0, now_ms=1)
        if number in places:
            log.roll(1)
    for _ in clean(log, now_ms=10**13):
        pass
    left = [one.base_offset for one in log]
    assert left[0] > 0
    core.change_configs(ConfigResourceType.TOPIC, "t", {"cleanup.policy": "delete"})
    crash(core)
    for path in tmp_path.glob(f"*/t-0/{CHECKSUMS}"):
        path.unlink()
    again = core_of(tmp_path)
    assert [one.base_offset for one in again.topics["t"].partitions[0].log] == left
    assert any(f"assumed to be compacted, because {CHECKSUMS} is missing" in text for text in again.start_notes)
    crash(again)


def test_a_segment_truncated_between_batches_is_not_taken_for_compacted(tmp_path: Path) -> None:
    core = core_of(tmp_path)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1)
    log = core.topics["t"].partitions[0].log
    for number in range(3):
        log.append(batch(3, at_ms=number), leader_epoch=0, now_ms=1)
    size = log.active.size
    log.roll(1)
    log.append(batch(3), leader_epoch=0, now_ms=1)
    crash(core)
    path = log_path(tmp_path, "t-0")
    path.with_name(CHECKSUMS).unlink()
    os.truncate(path, size // 3)
    assert "offsets 3 to 8 would be lost" in refused(tmp_path)


def test_a_shorter_segment_with_its_last_offset_is_reported(tmp_path: Path) -> None:
    core = core_of(tmp_path)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1, config={"cleanup.policy": "compact"})
    for number in range(3):
        core.topics["t"].partitions[0].log.append(keyed(number, number), leader_epoch=0, now_ms=1)
    crash(core)
    path = log_path(tmp_path, "t-0")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3] + content[2 * len(content) // 3 :])
    assert f"{path}, position 0: the first {len(content):,} bytes do not have the CRC" in refused(tmp_path)


# ---- kills between two steps


MOST_STEPS = 1000


class Steps:
    """Copies a directory after the calls that change a file, with hard links.

    `tried`: the numbers of the calls after which it is copied. `count`: of all such calls.
    """

    def __init__(
        self, data: Path, into: Path, monkeypatch: pytest.MonkeyPatch, *, tried: Collection[int] = range(MOST_STEPS)
    ) -> None:
        self.data = data
        self.tried = tried
        self.into = into
        self.copies: list[tuple[Path, str, int]] = []
        self.seen: set[object] = set()
        self.count = 0
        self.operation = 0
        self._busy = False
        for name in CHANGES:
            monkeypatch.setattr(os, name, self._observed(name, getattr(os, name)))
        opened = self._observed("open", builtins.open, lambda _, mode="r", *__, **___: set(mode) & set("wa+"))
        monkeypatch.setattr(io, "open", opened)
        monkeypatch.setattr(os, "open", self._observed("open", os.open, lambda _, flags, *__: flags & os.O_CREAT))

    def _observed(self, name: str, call: Any, changes: Callable[..., object] = lambda *_, **__: True) -> Any:
        def observed(*arguments: Any, **options: Any) -> Any:
            found = call(*arguments, **options)
            if not self._busy and changes(*arguments, **options):
                self._busy = True
                try:
                    self._copy(f"{name} {arguments[0]}")
                finally:
                    self._busy = False
            return found

        return observed

    def _copy(self, what: str) -> None:
        state = self.operation, tuple(_state(self.data))
        if state in self.seen:
            return
        self.seen.add(state)
        self.count += 1
        if self.count - 1 not in self.tried:
            return
        target = self.into / str(len(self.copies))
        first: dict[int, Path] = {}
        for path in sorted(self.data.rglob("*")):
            to = target / path.relative_to(self.data)
            if path.is_dir():
                to.mkdir(parents=True)
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            inode = path.stat().st_ino
            if inode in first:
                os.link(first[inode], to)
            else:
                first[inode] = to
                shutil.copyfile(path, to)
        self.copies.append((target, what, self.operation))


def _state(data: Path) -> Iterator[object]:
    for path in sorted(data.rglob("*")):
        yield str(path.relative_to(data)), path.is_file() and path.read_bytes()


def values(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key, which compaction keeps."""
    return {
        record.key: record.value
        for one in log
        for read in read_batches(one.data)
        if isinstance(read, Batch) and not one.control
        for record in read.records()
        if isinstance(record, BatchRecord)
    }


def seen(core: ClusterCore) -> dict[str, Any]:
    """Return all acknowledged records; of the compacted topic, those that compaction keeps."""
    found: dict[str, Any] = {}
    for name in ("plain", "compacted"):
        topic = core.topics.get(name)
        log = topic.partitions[0].log if topic is not None else PartitionLog()
        found[name] = {
            "content": values(log) if name == "compacted" else [(one.base_offset, one.data) for one in log],
            "offsets": (log.start_offset, log.next_offset, log.last_stable_offset),
            # An epoch without records is removed by a start, as by LogLoader (truncateFromEnd).
            "epochs": [(epoch, start) for epoch, start in log.epochs if start < log.next_offset],
            "producers": [(entry.producer_id, entry.epoch, entry.last_sequence) for entry in log.producers.entries()],
            "aborted": [one for one in log.producers.aborted if one.last_offset >= log.start_offset],
        }
    return found


def scenario(data: Path) -> Iterator[tuple[str, ClusterCore]]:
    """Run all operations of a cluster on its files; kill it during a write, and start again."""
    core = core_of(data)
    begin(core)
    yield "start", core
    for name in operations(core):
        yield name, core
    crash(core)
    with log_path(data, "plain-0").open("ab") as file:
        file.write(batch(1)[:-5])
    core = core_of(data)
    begin(core)
    yield "start again", core
    core.close()
    yield "close", core
    assert core.data is not None
    core.data.descriptors.close_all()


def operations(core: ClusterCore) -> Iterator[str]:
    config = {"segment.bytes": "400", "index.interval.bytes": "100"}
    core.create_topic("plain", partitions=1, replicas=2, config=config)
    yield "create"
    core.create_topic("compacted", partitions=1, replicas=1, config={**config, "cleanup.policy": "compact"})
    yield "create"
    core.create_topic("passing", partitions=2, replicas=2)
    core.topics["passing"].partitions[0].log.append(batch(1), leader_epoch=0, now_ms=0)
    yield "create"
    plain, compacted = (core.topics[name].partitions[0].log for name in ("plain", "compacted"))
    for number in range(9):
        plain.append(
            batch(
                2, at_ms=number, producer_id=7, producer_epoch=0, base_sequence=2 * number, transactional=number == 4
            ),
            leader_epoch=number // 4,
            now_ms=number,
        )
        yield "append"
        if number == 4:
            plain.append_marker(7, 0, commit=False, now_ms=number, leader_epoch=1)
            yield "abort"
        compacted.append(keyed(number % 3, number), leader_epoch=0, now_ms=number)
        yield "append"
    plain.delete_before(5)
    yield "delete records"
    compacted.roll(9)
    yield "roll"
    for _ in clean(compacted, now_ms=10**13):
        yield "compact"
    assert core.data is not None
    core.data.checkpoint()
    yield "checkpoint"
    core.data.metadata._compact(10)
    yield "compact the metadata"
    expire(plain, DAY_MS * 100)
    yield "retention"
    core.reassign(core.topics["plain"].partitions[0], [1, 3])
    yield "reassign"
    plain.append(batch(1), leader_epoch=2, now_ms=10)
    yield "append"
    core.add_partitions("compacted", 2)
    yield "grow"
    core.delete_topic("passing")
    yield "delete"


def test_a_start_after_a_kill_between_any_two_steps_has_all_acknowledged_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with monkeypatch.context() as patched:
        steps = Steps(data, tmp_path / "copies", patched, tried=sampled(range(MOST_STEPS)))
        names: list[str] = []
        acknowledged: list[dict[str, Any]] = []
        for name, core in scenario(data):
            names.append(name)
            acknowledged.append(seen(core))
            steps.operation += 1
    assert 250 < steps.count <= MOST_STEPS
    faults = []
    for copy, what, operation in steps.copies:
        where = f"{copy.name}: {names[operation]} ({operation}), after {what}"
        try:
            again = core_of(copy)
            begin(again)
        except ClusterError as error:
            faults.append(f"{where}: refused: {error}")
            continue
        found, before, after = seen(again), acknowledged[max(operation - 1, 0)], acknowledged[operation]
        faults += [
            f"{where}: {topic}: {field} {found[topic][field]}, expected {before[topic][field]} or {after[topic][field]}"
            for topic in found
            if found[topic] not in (before[topic], after[topic])
            for field in found[topic]
            if found[topic][field] not in (before[topic][field], after[topic][field])
        ]
        crash(again)
    assert not faults, "\n".join(faults)

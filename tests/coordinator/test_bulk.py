"""Loading by columns comes to the state that replaying record by record comes to: the same groups and offsets, in the same order of Kafka's maps."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import (
    CoordinatorRecord,
    LogEntry,
    LogError,
    TaggedField,
    Uuid,
    decode_record,
    encode_record,
    read_log,
)
from quorate.codecs.batches import BatchRecord, encode_batch, encode_marker
from quorate.codecs.columnar.raw import Markers, RawBlock, read_raw
from quorate.codecs.log_files import find_partitions
from quorate.codecs.messages import classic_group as classic
from quorate.codecs.messages import consumer_group as consumer
from quorate.codecs.messages import offsets as commits
from quorate.codecs.messages import share_group as share
from quorate.codecs.messages import streams_group as streams
from quorate.coordinator import CoordinatorRuntime, CoordinatorShard, bulk
from quorate.coordinator.bulk import load_state, replay_blocks
from quorate.coordinator.file_log import FileLog
from quorate.coordinator.history import state_at
from quorate.coordinator.history.words import learn_names
from quorate.coordinator.runtime import ColumnarLog, MemoryLog
from quorate.coordinator.state import CoordinatorState, ReplayError
from tests.coordinator.captures import CAPTURES, entries, folders
from tests.coordinator.snapshots import snapshot

NOW = 1_800_000_000_000
FOLDERS = [path for capture in sorted(CAPTURES.iterdir()) for path in folders(capture.name)]
GROUPS = ("g", "ü", "web")
TOPICS = ("t", "long-" * 9, "x")
IDS = (Uuid.ZERO, Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02"))
METADATA = ("", "", "host-17", "ä")

Pair = tuple[bytes | None, bytes | None]
Step = tuple[str, int, int, int, int, int]
"""What it is, group, topic, partition, producer (0: none), and a number that makes it different."""


def commit(group: int, topic: int, partition: int, number: int, version: int = 4) -> CoordinatorRecord:
    value = commits.OffsetCommitValue(
        offset=number,
        leader_epoch=number % 3 - 1 if version >= 3 else -1,
        metadata=METADATA[number % len(METADATA)],
        commit_timestamp=NOW + number,
        expire_timestamp=NOW + 2 * number if version == 1 else -1,
        topic_id=IDS[number % 3] if version == 4 else Uuid.ZERO,
        unknown_tags=(TaggedField(9, b"new"),) if version == 4 and number % 11 == 10 else (),
    )
    key = commits.OffsetCommitKey(group=GROUPS[group], topic=TOPICS[topic], partition=partition)
    return CoordinatorRecord(key=key, value=value, version=version)


def of_groups(group: int, number: int) -> CoordinatorRecord:
    """Records of groups of every kind, and what takes them away again."""
    name, member = GROUPS[group], f"m{number % 2}"
    alive, left = number % 4 < 3, number % 8 == 7
    key: Any
    value: Any
    match number % 9:
        case 0 | 1:
            key, value = (
                classic.GroupMetadataKey(group=name),
                classic.GroupMetadataValue(
                    protocol_type="consumer", generation=number, protocol=None, leader=None, members=()
                ),
            )
            alive = number % 9 == 0
        case 2:
            key, value = (
                consumer.ConsumerGroupMetadataKey(group_id=name),
                consumer.ConsumerGroupMetadataValue(epoch=number),
            )
        case 3:
            key = consumer.ConsumerGroupTargetAssignmentMetadataKey(group_id=name)
            value = consumer.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number)
        case 4:
            key = consumer.ConsumerGroupCurrentMemberAssignmentKey(group_id=name, member_id=member)
            value = consumer.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=-1 if left else number,
                previous_member_epoch=0,
                state=0,
                assigned_partitions=(),
                partitions_pending_revocation=(),
            )
        case 5:
            key = consumer.ConsumerGroupMemberMetadataKey(group_id=name, member_id=member)
            value = consumer.ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="c",
                client_host="/h",
                subscribed_topic_names=TOPICS[: number % 3],
                subscribed_topic_regex="",
                server_assignor=None,
                classic_member_metadata=None,
            )
        case 6:
            key = share.ShareGroupMetadataKey(group_id=name)
            value = share.ShareGroupMetadataValue(epoch=number, metadata_hash=1)
        case 7:
            key = share.ShareGroupTargetAssignmentMetadataKey(group_id=name)
            value = share.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=number)
        case _:
            key = streams.StreamsGroupTargetAssignmentMetadataKey(group_id=name)
            value = streams.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=number)
    return CoordinatorRecord(
        key=key,
        value=value if alive else None,
        version=(3 if isinstance(key, classic.GroupMetadataKey) else 0) if alive else None,
    )


def pair_of(step: Step) -> Pair:
    """Key and value bytes."""
    kind, group, topic, partition, _, number = step
    record = commit(group, topic, partition, number)
    key, value = encode_record(record)
    assert key is not None
    assert value is not None
    match kind:
        case "old version":
            return encode_record(commit(group, topic, partition, number, version=number % 4))
        case "legacy":
            old = commits.LegacyOffsetCommitValue(offset=number, metadata="", commit_timestamp=NOW)
            of_old = commits.LegacyOffsetCommitKey(group=GROUPS[group], topic=TOPICS[topic], partition=partition)
            return encode_record(CoordinatorRecord(key=of_old, value=old, version=0))
        case "tombstone":
            return (b"\0\0" + key[2:] if number % 5 == 4 else key), None
        case "group":
            return encode_record(of_groups(group, number))
        case "odd":
            not_utf8 = value[:14] + b"\x03\xff\xfe" + value[15 + len(record.value.metadata.encode()) :]  # type: ignore[union-attr]
            return (
                (key, value[: number % len(value)]),
                (key + b"more", value),
                (key, value + b"more"),
                (key, b"\0\x09" + value[2:]),
                (b"\0\x63" + key[2:], value),
                (None, value),
                (key[: number % len(key)], value),
                (key, not_utf8),
                (key[:-4], None),
                (b"\0\x01\0\x01\xff" + key[4 + int.from_bytes(key[2:4]) :], value),
            )[number % 10]
    return key, value


RARE = ("old version", "legacy", "tombstone", "group", "group", "odd", "marker")


def steps_of(seed: int, count: int, names: int, partitions: int, rare: int, producers: int) -> list[Step]:
    """A log: the more names and partitions, the fewer commits repeat a key; `rare` in ten records are anything else."""
    random = Random(seed)
    return [
        (
            random.choice(RARE) if random.random() * 10 < rare else "commit",
            random.randrange(names),
            random.randrange(names),
            random.randrange(partitions),
            random.randrange(1, 3) if random.random() * 10 < producers else 0,
            random.randrange(400),
        )
        for _ in range(count)
    ]


STEPS = st.builds(
    steps_of,
    seed=st.integers(0, 1 << 30),
    count=st.integers(0, 80),
    names=st.integers(1, 3),
    partitions=st.sampled_from([1, 2, 3, 6, 11]),
    rare=st.sampled_from([0, 1, 2, 5, 10]),
    producers=st.sampled_from([0, 0, 1, 5]),
)


OffsetOf = Callable[[int], int]


def usual(place: int) -> int:
    return place


def unknown(place: int) -> int:
    return -1


def scattered(place: int) -> int:
    """As in a log that is damaged so that its offsets are out of order."""
    return place * 37 % 101


OFFSETS = (usual, usual, unknown, scattered)


def replayed(steps: Sequence[Step], offset_of: OffsetOf = usual) -> CoordinatorState:
    """The definition."""
    state = CoordinatorState()
    for place, step in enumerate(steps):
        producer_id = step[4] or -1
        if step[0] == "marker":
            state.offsets.end_transaction(producer_id, commit=step[5] % 3 > 0)
        else:
            state.replay(decode_record(*pair_of(step)), offset=offset_of(place), producer_id=producer_id)
    return state


def block_of(steps: Sequence[Step], first: int, offset_of: OffsetOf = usual) -> RawBlock:
    """Steps from the place `first` on as columns."""
    rows = [(place, step) for place, step in enumerate(steps, first) if step[0] != "marker"]
    ends = [(place, step) for place, step in enumerate(steps, first) if step[0] == "marker"]
    keys, values = zip(*(pair_of(step) for _, step in rows), strict=True) if rows else ((), ())
    return RawBlock.of(
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        offset=[offset_of(place) for place, _ in rows],
        producer_id=[step[4] or -1 for _, step in rows],
        markers=Markers(
            row=np.array([sum(other < place for other, _ in rows) for place, _ in ends], np.int64),
            offset=np.array([offset_of(place) for place, _ in ends], np.int64),
            timestamp_ms=np.full(len(ends), NOW),
            producer_id=np.array([step[4] or -1 for _, step in ends], np.int64),
            commit=np.array([step[5] % 3 > 0 for _, step in ends], np.bool_),
        ),
    )


def blocks(steps: Sequence[Step], sizes: Sequence[int], offset_of: OffsetOf) -> Iterator[RawBlock]:
    first = 0
    for size in [*sizes, len(steps)]:
        yield block_of(steps[first : first + size], first, offset_of)
        first += size


@settings(max_examples=400, deadline=None)
@given(STEPS, st.lists(st.integers(0, 20), max_size=4), st.sampled_from([1, 10, 1 << 20]), st.sampled_from(OFFSETS))
def test_any_log_loads_as_it_replays(steps: list[Step], sizes: list[int], most: int, offset_of: OffsetOf) -> None:
    state = CoordinatorState()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "MOST_COMMITS", most)
        replay_blocks(state, blocks(steps, sizes, offset_of))
    assert snapshot(state) == snapshot(replayed(steps, offset_of))


@settings(max_examples=100, deadline=None)
@given(STEPS, STEPS, st.sampled_from(OFFSETS))
def test_a_state_that_is_not_empty_goes_on(before: list[Step], after: list[Step], offset_of: OffsetOf) -> None:
    state = replayed(before, offset_of)
    replay_blocks(state, [block_of(after, len(before), offset_of)])
    assert snapshot(state) == snapshot(replayed([*before, *after], offset_of))


def written(folder: Path, steps: Sequence[Step], sizes: Sequence[int], compression: str, hurt: int | None) -> None:
    """The same as a segment: batches of up to so many records, of one producer each; byte `hurt` is another."""
    data, batch, left = b"", [], list(sizes)
    size = 1

    def finished() -> bytes:
        producer_id = batch[0][1][4] or -1
        return encode_batch(
            [
                BatchRecord(offset=offset, timestamp_ms=NOW + offset, key=key, value=value)
                for offset, step in batch
                for key, value in [pair_of(step)]
            ],
            compression=compression,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0,
            transactional=producer_id >= 0,
        )

    for offset, step in enumerate(steps):
        if batch and (len(batch) >= size or step[4] != batch[0][1][4] or step[0] == "marker"):
            data += finished()
            batch = []
            size = left.pop() if left else 3
        if step[0] != "marker":
            batch.append((offset, step))
        elif step[4]:
            data += encode_marker(
                commit=step[5] % 3 > 0, offset=offset, timestamp_ms=NOW, producer_id=step[4], producer_epoch=0
            )
    data += finished() if batch else b""
    if hurt is not None and data:
        at = hurt % len(data)
        data = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(data)


@settings(max_examples=150, deadline=None)
@given(
    STEPS,
    st.lists(st.integers(1, 9), max_size=9),
    st.sampled_from(["none", "none", "lz4"]),
    st.none() | st.integers(0, 10_000),
    st.sampled_from([100, 1000, 1 << 20]),
)
def test_any_segment_loads_as_its_entries_replay(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[Step],
    sizes: list[int],
    compression: str,
    hurt: int | None,
    size: int,
) -> None:
    folder = tmp_path_factory.mktemp("log") / "__consumer_offsets-0"
    written(folder, steps, sizes, compression, hurt)
    expected = CoordinatorState()
    for entry in read_log(folder, skip_corrupt=True):
        if isinstance(entry, LogEntry):
            expected.replay(
                entry.record, offset=entry.offset, producer_id=entry.producer_id if entry.transactional else -1
            )
    state = CoordinatorState()
    (files,) = find_partitions(folder)
    replay_blocks(state, read_raw(files, skip_corrupt=True, use_threads=False, block_bytes=size))
    shutil.rmtree(folder.parent)
    assert snapshot(state) == snapshot(expected)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}/{path.name}")
@pytest.mark.parametrize("block_bytes", [1 << 12, 1 << 24])
def test_captures_load_as_they_replay(folder: Path, block_bytes: int) -> None:
    expected = CoordinatorState()
    for entry in entries(folder):
        expected.replay(entry.record, offset=entry.offset, producer_id=entry.producer_id if entry.transactional else -1)
    state = CoordinatorState()
    (files,) = find_partitions(folder)
    replay_blocks(state, read_raw(files, block_bytes=block_bytes), strict=True)
    assert snapshot(state) == snapshot(expected)


def test_a_transaction_that_was_open_before_is_compared_with_what_was_there_when_it_ends() -> None:
    """Offsets out of order, as in a damaged log, tell whether a later commit is taken for an earlier one."""
    before: list[Step] = [("commit", 0, 0, 0, 1, 1)]
    after: list[Step] = [("commit", 0, 0, 0, 0, 2), ("marker", 0, 0, 0, 1, 1), ("commit", 0, 0, 0, 0, 3)]
    state = replayed(before, [50].__getitem__)
    offset_of = [50, 40, 51, 30].__getitem__
    replay_blocks(state, [block_of(after, 1, offset_of)])
    assert snapshot(state) == snapshot(replayed([*before, *after], offset_of))
    found = state.offsets.get(GROUPS[0], TOPICS[0], 0)
    assert found is not None
    assert found.record_offset == 30


@pytest.mark.parametrize("folder", FOLDERS[::3], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_state_of_an_earlier_time_is_that_of_the_entries_up_to_then(folder: Path) -> None:
    found = entries(folder)
    for entry in found[:: max(1, len(found) // 5)]:
        for moment in ({"offset": entry.offset}, {"timestamp_ms": entry.timestamp_ms}):
            assert snapshot(load_state(folder, **moment)) == snapshot(state_at(found, **moment)), moment


def test_a_log_in_files_is_loaded_as_one_in_memory(tmp_path: Path) -> None:
    steps = [
        step
        for step in steps_of(5, 300, 3, 6, 1, 2)
        if step[0] != "odd" and (step[0] != "group" or step[5] % 9 < 2)  # nothing that contradicts
    ]
    shards = []
    for log in (MemoryLog(), FileLog(tmp_path, fsync="never", segment_bytes=2000)):
        for offset, step in enumerate(steps):
            if step[0] == "marker":
                log.append_marker(step[4] or 3, 0, commit=step[5] % 3 > 0, timestamp_ms=NOW + offset)
                continue
            record = decode_record(*pair_of(step))
            assert isinstance(record, CoordinatorRecord)
            log.append([record], timestamp_ms=NOW + offset, producer_id=step[4] or -1, producer_epoch=0)
        shard = CoordinatorShard(new_id=uuid4)
        runtime = CoordinatorRuntime(shard, log, now_ms=NOW)
        runtime.load()
        shards.append(shard)
    assert isinstance(log, FileLog)
    assert isinstance(log, ColumnarLog)
    log.close()
    assert snapshot(shards[0].state) == snapshot(shards[1].state)
    assert shards[0].state.offsets.committed


def test_a_damaged_log_in_files_is_not_loaded(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never", segment_bytes=300) as log:
        for number in range(9):
            log.append([commit(0, 0, 0, number)], timestamp_ms=NOW)
        path = log.segments()[0]
        path.write_bytes(path.read_bytes()[:100] + b"?" + path.read_bytes()[101:])
        with pytest.raises(LogError, match=r"position 0: .*restore the file"):
            CoordinatorRuntime(CoordinatorShard(new_id=uuid4), log, now_ms=NOW).load()


def test_other_topics_are_refused() -> None:
    block = replace(block_of([], 0), topic="__share_group_state")
    with pytest.raises(ValueError, match="__share_group_state"):
        replay_blocks(CoordinatorState(), [block])


def test_names_of_topics_are_those_that_records_tell() -> None:
    steps = [step for step in steps_of(7, 200, 3, 6, 3, 0) if step[0] != "marker"]
    expected: dict[Uuid, str] = {}
    for step in steps:
        learn_names(expected, decode_record(*pair_of(step)))
    names: dict[Uuid, str] = {}
    replay_blocks(CoordinatorState(), [block_of(steps, 0)], names=names)
    assert names.keys() == expected.keys() == set(IDS[1:])


def test_strict_raises_what_contradicts() -> None:
    steps: list[Step] = [("commit", 0, 0, 0, 0, 1), ("odd", 0, 0, 0, 0, 3)]
    with pytest.raises(ReplayError):
        replay_blocks(CoordinatorState(), [block_of(steps, 0)], strict=True)


def without_pyarrow(code: str) -> str:
    command = [sys.executable, "-P", "-c", "import sys; sys.modules['pyarrow'] = None\n" + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return (done.stdout + done.stderr).splitlines()[-1]


def test_without_pyarrow_a_log_is_loaded_record_by_record(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never") as log:
        log.append([commit(0, 0, 0, 1)], timestamp_ms=NOW)
    code = f"""
from uuid import uuid4
from quorate.coordinator import CoordinatorRuntime, CoordinatorShard
from quorate.coordinator.file_log import FileLog
with FileLog({str(tmp_path)!r}, fsync="never") as log:
    runtime = CoordinatorRuntime(CoordinatorShard(new_id=uuid4), log, now_ms={NOW})
    runtime.load()
print(log.blocks(), runtime.shard.state.offsets.get({GROUPS[0]!r}, {TOPICS[0]!r}, 0).value.offset)
"""
    assert without_pyarrow(code) == "None 1"


def test_without_pyarrow_bulk_says_what_to_install() -> None:
    wanted = "ImportError: quorate.coordinator.bulk needs pyarrow: pip install 'quorate[arrow]'"
    assert without_pyarrow("import quorate.coordinator.bulk") == wanted

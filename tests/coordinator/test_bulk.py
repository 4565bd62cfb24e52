"""Loading by columns gives the same state as replay, in the same order of Kafka's maps."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.cluster import FileLog
from quorate.codecs import (
    CoordinatorRecord,
    LogEntry,
    LogError,
    Uuid,
    decode_record,
    read_log,
)
from quorate.codecs.log.files import find_partitions
from quorate.codecs.log.raw import read_raw
from quorate.codecs.record_text import learn_names
from quorate.coordinator import GroupCoordinatorShard, PartitionRuntime, bulk
from quorate.coordinator.bulk import load_state, replay_blocks
from quorate.coordinator.bulk_block import pair_numbers, without_offsets
from quorate.coordinator.history import state_at
from quorate.coordinator.history.views import GroupView, view
from quorate.coordinator.log import ColumnarLog, MemoryLog
from quorate.coordinator.state import CoordinatorState, ReplayError
from tests.coordinator.bulk_logs import (
    GROUPS,
    IDS,
    NOW,
    OFFSETS,
    STEPS,
    TOPICS,
    OffsetOf,
    Step,
    block_of,
    blocks,
    commit,
    pair_of,
    replay_each,
    steps_of,
    write_segment,
)
from tests.coordinator.captures import CAPTURES, entries, folders
from tests.coordinator.snapshots import snapshot
from tests.extent import portion

FOLDERS = [path for capture in sorted(CAPTURES.iterdir()) for path in folders(capture.name)]


@settings(max_examples=portion(400), deadline=None)
@given(STEPS, st.lists(st.integers(0, 20), max_size=4), st.sampled_from([1, 10, 1 << 20]), st.sampled_from(OFFSETS))
def test_loading_columns_equals_replay(steps: list[Step], sizes: list[int], most: int, offset_of: OffsetOf) -> None:
    state = CoordinatorState()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "MOST_KEPT", most)
        replay_blocks(state, blocks(steps, sizes, offset_of))
    assert snapshot(state) == snapshot(replay_each(steps, offset_of))


@settings(max_examples=portion(200), deadline=None)
@given(STEPS, STEPS, st.lists(st.integers(0, 20), max_size=4), st.sampled_from(OFFSETS))
def test_loading_without_offsets_leads_to_the_same_groups(
    before: list[Step], after: list[Step], sizes: list[int], offset_of: OffsetOf
) -> None:
    state = replay_each(before, offset_of)
    replay_blocks(state, blocks(after, sizes, lambda place: offset_of(len(before) + place)), offsets=False)
    expected = replay_each([*before, *after], offset_of)
    assert groups_of(state) == groups_of(expected)


def groups_of(state: CoordinatorState) -> list[GroupView]:
    return [view(state.groups[group_id]) for group_id in sorted(state.groups)]


def test_loading_without_offsets_keeps_few_commits() -> None:
    """Of commits in and outside of transactions, only the group's first one remains."""
    commits: list[Step] = [("commit", 0, 0, 0, producer, place) for producer in (0, 3) for place in range(50)]
    marker: Step = ("marker", 0, 0, 0, 3, 1)
    block = without_offsets(block_of([*commits, marker, *commits], 0))
    assert len(block) == 1
    assert not len(block.markers)


@settings(max_examples=portion(100), deadline=None)
@given(STEPS, STEPS, st.sampled_from(OFFSETS))
def test_loading_continues_from_a_non_empty_state(before: list[Step], after: list[Step], offset_of: OffsetOf) -> None:
    state = replay_each(before, offset_of)
    replay_blocks(state, [block_of(after, len(before), offset_of)])
    assert snapshot(state) == snapshot(replay_each([*before, *after], offset_of))


@settings(max_examples=portion(150), deadline=None)
@given(
    STEPS,
    st.lists(st.integers(1, 9), max_size=9),
    st.sampled_from(["none", "none", "lz4"]),
    st.none() | st.integers(0, 10_000),
    st.sampled_from([100, 1000, 1 << 20]),
)
def test_loading_a_segment_equals_replay_of_its_entries(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[Step],
    sizes: list[int],
    compression: str,
    damaged_byte: int | None,
    size: int,
) -> None:
    folder = tmp_path_factory.mktemp("log") / "__consumer_offsets-0"
    write_segment(folder, steps, sizes, compression, damaged_byte)
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
def test_loading_a_capture_equals_its_replay(folder: Path, block_bytes: int) -> None:
    expected = CoordinatorState()
    for entry in entries(folder):
        expected.replay(entry.record, offset=entry.offset, producer_id=entry.producer_id if entry.transactional else -1)
    state = CoordinatorState()
    (files,) = find_partitions(folder)
    replay_blocks(state, read_raw(files, block_bytes=block_bytes), strict=True)
    assert snapshot(state) == snapshot(expected)


def test_open_transaction_of_an_earlier_load_commits_as_in_replay() -> None:
    """Offsets out of order, as in a damaged log, show whether commits are applied in log order."""
    before: list[Step] = [("commit", 0, 0, 0, 1, 1)]
    after: list[Step] = [("commit", 0, 0, 0, 0, 2), ("marker", 0, 0, 0, 1, 1), ("commit", 0, 0, 0, 0, 3)]
    state = replay_each(before, [50].__getitem__)
    offset_of = [50, 40, 51, 30].__getitem__
    replay_blocks(state, [block_of(after, 1, offset_of)])
    assert snapshot(state) == snapshot(replay_each([*before, *after], offset_of))
    found = state.offsets.get(GROUPS[0], TOPICS[0], 0)
    assert found is not None
    assert found.record_offset == 30


@pytest.mark.parametrize("folder", FOLDERS[::3], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_state_at_a_time_equals_replay_up_to_that_time(folder: Path) -> None:
    found = entries(folder)
    for entry in found[:: max(1, len(found) // 5)]:
        for moment in ({"offset": entry.offset}, {"timestamp_ms": entry.timestamp_ms}):
            assert snapshot(load_state(folder, **moment)) == snapshot(state_at(found, **moment)), moment


def test_loading_a_log_from_files_equals_loading_from_memory(tmp_path: Path) -> None:
    steps = [
        step
        for step in steps_of(5, 300, 3, 6, 1, 2)
        if step[0] != "odd" and (step[0] != "group" or step[5] % 9 < 2)  # without contradictions
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
        shard = GroupCoordinatorShard(new_id=uuid4)
        runtime = PartitionRuntime(shard, log, now_ms=NOW)
        runtime.load()
        shards.append(shard)
    assert isinstance(log, FileLog)
    assert isinstance(log, ColumnarLog)
    log.close()
    assert snapshot(shards[0].state) == snapshot(shards[1].state)
    assert shards[0].state.offsets.committed


def test_damaged_log_in_files_is_rejected(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never", segment_bytes=300) as log:
        for number in range(9):
            log.append([commit(0, 0, 0, number)], timestamp_ms=NOW)
        path = log.segments()[0]
        path.write_bytes(path.read_bytes()[:100] + b"?" + path.read_bytes()[101:])
        with pytest.raises(LogError, match=r"position 0: .*restore the file"):
            PartitionRuntime(GroupCoordinatorShard(new_id=uuid4), log, now_ms=NOW).load()


def test_blocks_of_other_topics_are_rejected() -> None:
    block = replace(block_of([], 0), topic="__share_group_state")
    with pytest.raises(ValueError, match="__share_group_state"):
        replay_blocks(CoordinatorState(), [block])


def test_topic_names_are_read_from_records() -> None:
    steps = [step for step in steps_of(7, 200, 3, 6, 3, 0) if step[0] != "marker"]
    expected: dict[Uuid, str] = {}
    for step in steps:
        learn_names(expected, decode_record(*pair_of(step)))
    names: dict[Uuid, str] = {}
    replay_blocks(CoordinatorState(), [block_of(steps, 0)], names=names)
    assert names.keys() == expected.keys() == set(IDS[1:])


def test_strict_load_raises_for_contradicting_records() -> None:
    steps: list[Step] = [("commit", 0, 0, 0, 0, 1), ("odd", 0, 0, 0, 0, 3)]
    with pytest.raises(ReplayError):
        replay_blocks(CoordinatorState(), [block_of(steps, 0)], strict=True)


def without_pyarrow(code: str) -> str:
    command = [sys.executable, "-P", "-c", "import sys; sys.modules['pyarrow'] = None\n" + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return (done.stdout + done.stderr).splitlines()[-1]


def test_without_pyarrow_a_log_is_loaded_record_by_record(tmp_path: Path) -> None:
    with FileLog(tmp_path, fsync="never") as log:
        log.append([commit(0, 0, 0, 1)], timestamp_ms=NOW)
    code = f"""
from uuid import uuid4
from quorate.coordinator import PartitionRuntime, GroupCoordinatorShard
from quorate.cluster import FileLog
with FileLog({str(tmp_path)!r}, fsync="never") as log:
    runtime = PartitionRuntime(GroupCoordinatorShard(new_id=uuid4), log, now_ms={NOW})
    runtime.load()
print(log.blocks(), runtime.shard.state.offsets.get({GROUPS[0]!r}, {TOPICS[0]!r}, 0).value.offset)
"""
    assert without_pyarrow(code) == "None 1"


def test_without_pyarrow_the_import_error_names_the_package() -> None:
    wanted = "ImportError: quorate.coordinator.bulk needs pyarrow: pip install 'quorate[arrow]'"
    assert without_pyarrow("import quorate.coordinator.bulk") == wanted


@pytest.mark.parametrize("most", [1, 1_000_000], ids=["counted", "sorted"])
@given(data=st.data())
def test_pairs_have_numbers_in_their_order(most: int, data: st.DataObject) -> None:
    number = st.integers(0, most)
    pairs = data.draw(st.lists(st.tuples(number, number), min_size=1, max_size=30))
    one, other = np.array(pairs, np.int64).T
    found, count = pair_numbers(one, other)
    distinct = sorted(set(pairs))
    assert (found.tolist(), count) == ([distinct.index(pair) for pair in pairs], len(distinct))

"""Rows that the source reads from files equal `read_log`, for tasks of any size."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.pipeline.source import ConsumerOffsets
from tests.codecs.helpers.segments import group_epoch
from tests.extent import portion
from tests.pipeline.conftest import CAPTURES
from tests.pipeline.helpers.file_logs import damage, write_log
from tests.pipeline.helpers.reading import by_place, expected, rows_of, splits_of

LOGS = sorted(path for path in CAPTURES.iterdir())
LEVELS = st.sampled_from(["read_committed", "read_uncommitted"])
SEEDS = st.integers(0, 1 << 32)


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_rows_of_real_brokers_equal_the_entries_of_read_log(log: Path, isolation_level: str) -> None:
    wanted = expected(log, topics=["__consumer_offsets"], isolation_level=isolation_level)
    assert wanted
    assert by_place(rows_of(log, isolation_level=isolation_level)) == by_place(wanted)


@settings(max_examples=portion(30))
@given(SEEDS, LEVELS, st.integers(1, 6000), st.booleans())
def test_tasks_of_any_size_read_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, seed: int, level: str, size: int, damaged: bool
) -> None:
    random = Random(seed)
    log = write_log(tmp_path_factory.mktemp("log") / "__consumer_offsets-5", random)
    if damaged:
        damage(log, random)
    wanted = expected(log, isolation_level=level, skip_corrupt=True)
    assert by_place(rows_of(log, isolation_level=level)) == by_place(wanted)
    tasks = splits_of(log, isolation_level=level, maxSplitBytes=size)
    assert by_place(row for task in tasks for row in task) == by_place(wanted)


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_the_largest_offset_is_read(tmp_path: Path, magic: int, isolation_level: str, size: int) -> None:
    """Regression (issue 14): it was in no task."""
    last = (1 << 63) - 1
    key, value = group_epoch(7)
    found = [BatchRecord(offset=offset, timestamp_ms=-1, key=key, value=value) for offset in (0, last - 1, last)]
    log = tmp_path / "__consumer_offsets-5"
    log.mkdir()
    (log / f"{0:020}.log").write_bytes(b"".join(encode_batch([one], magic=magic) for one in found))
    rows = rows_of(log, isolation_level=isolation_level, maxSplitBytes=size)
    assert [row["offset"] for row in rows] == [0, last - 1, last]
    assert by_place(rows) == by_place(expected(log, isolation_level=isolation_level))


def test_damage_that_kafka_ignores_is_an_error_in_a_row_with_a_value(tmp_path: Path) -> None:
    """Regression (issue 14): the tagged field has size 77, and only 8 bytes follow."""
    log = tmp_path / "__consumer_offsets-5"
    log.mkdir()
    key, value = bytes.fromhex("0003000167"), bytes.fromhex("00000000000401004df4c0d617a910f4f9")
    records = [
        BatchRecord(offset=offset, timestamp_ms=5, key=key, value=one) for offset, one in enumerate([value, value[:7]])
    ]
    (log / f"{0:020}.log").write_bytes(encode_batch(records))
    rows = rows_of(log)
    assert [row["consumer_group_metadata"] and row["consumer_group_metadata"]["epoch"] for row in rows] == [4, None]
    assert [row["error"]["reason"] for row in rows] == ["impossible tagged field", "truncated"]
    assert by_place(rows) == by_place(expected(log))


def test_a_large_segment_is_cut_into_equal_tasks_and_small_partitions_share_one(tmp_path: Path) -> None:
    def tasks(path: Path, size: int) -> list[int]:
        source = ConsumerOffsets({"path": str(path), "maxSplitBytes": str(size)})
        splits: Any = source.reader(source.schema()).partitions()
        return [sum(piece.end - piece.begin for piece in split.pieces) for split in splits]

    log = write_log(tmp_path / "cut" / "__consumer_offsets-5", Random(1), 300)
    whole = b"".join(path.read_bytes() for path in sorted(log.glob("*.log")))
    hot = tmp_path / "hot" / "__consumer_offsets-5"
    hot.mkdir(parents=True)
    (hot / min(log.glob("*.log")).name).write_bytes(whole)
    size = len(whole) // 10
    found = tasks(hot, size)
    assert sum(found) == len(whole)
    assert 8 <= len(found) <= 20
    assert max(found) < 2 * size
    assert sum(map(bool, splits_of(hot, isolation_level="read_uncommitted", maxSplitBytes=size))) == len(found)

    for number in range(20):
        write_log(tmp_path / "small" / f"__consumer_offsets-{number}", Random(number), 5)
    assert len(tasks(tmp_path / "small", 32 << 20)) == 1


@settings(max_examples=portion(20))
@given(SEEDS, LEVELS, st.lists(st.integers(0, 300), min_size=1, max_size=4))
def test_consecutive_ranges_of_offsets_have_the_rows_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, seed: int, level: str, borders: list[int]
) -> None:
    log = write_log(tmp_path_factory.mktemp("log") / "__consumer_offsets-5", Random(seed))
    first = int(min(log.glob("*.log")).stem)
    places = sorted({first + border for border in borders})
    found = []
    for start, end in zip([-2, *places], [*places, -1], strict=True):
        found += rows_of(
            log,
            isolation_level=level,
            startingOffsets=f'{{"__consumer_offsets": {{"5": {start}}}}}',
            endingOffsets=f'{{"__consumer_offsets": {{"5": {end}}}}}',
            failOnDataLoss=False,
            maxSplitBytes=900,
        )
    assert by_place(found) == by_place(expected(log, isolation_level=level, skip_corrupt=True))

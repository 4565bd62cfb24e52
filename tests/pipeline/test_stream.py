"""Streams read every row exactly once, with micro-batches of any size and killed queries."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", minversion="4.2")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from quorate.pipeline import OptionError, arrow_schema
from quorate.pipeline.files import DataLoss
from quorate.pipeline.source import ConsumerOffsets
from quorate.pipeline.stream import UnlimitedReader
from quorate.pipeline.stream_limited import LimitedReader
from tests.pipeline.helpers.file_logs import write_log
from tests.pipeline.helpers.reading import by_place, expected

LEVELS = st.sampled_from(["read_committed", "read_uncommitted"])


def reader_of(path: Path, **options: Any) -> LimitedReader:
    given = {name.replace("isolation_level", "isolation.level"): str(value) for name, value in options.items()}
    source = ConsumerOffsets({"path": str(path), **given})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, LimitedReader)
    return reader


def micro_batch(
    reader: LimitedReader, start: dict[str, Any], limit: int | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run one trigger, with offsets converted to JSON as in the checkpoint."""
    end = json.loads(
        json.dumps(reader.latestOffset(start, ReadAllAvailable() if limit is None else ReadMaxRows(limit)))
    )
    batches = [batch for task in reader.partitions(start, end) for batch in reader.read(task)]
    return end, pa.Table.from_batches(batches, arrow_schema()).to_pylist()


def growing(whole: Path, copy: Path, random: Random) -> Iterator[None]:
    """Write a log again, some bytes at a time, so that batches are cut off at times."""
    copy.mkdir()
    for path in sorted(whole.glob("*.log")):
        data = path.read_bytes()
        at = 0
        (copy / path.name).touch()
        while at < len(data):
            more = random.randrange(1, 900)
            with (copy / path.name).open("ab") as file:
                file.write(data[at : at + more])
            at += more
            yield


@settings(max_examples=8)
@given(st.integers(0, 1 << 32), LEVELS, st.integers(1, 60))
def test_a_growing_log_returns_each_row_once_also_to_restarted_readers(
    tmp_path_factory: pytest.TempPathFactory, seed: int, level: str, limit: int
) -> None:
    random = Random(seed)
    folder = tmp_path_factory.mktemp("log")
    whole, copy = write_log(folder / "whole" / "__consumer_offsets-5", random), folder / "__consumer_offsets-5"
    start, found = None, []
    for _ in growing(whole, copy, random):
        reader = reader_of(folder, isolation_level=level, maxSplitBytes=700)
        start = start or reader.initialOffset()
        end, rows = micro_batch(reader, start, limit)
        taken = sum(end["__consumer_offsets"].values()) - sum(start["__consumer_offsets"].values())
        assert 0 <= taken <= limit
        if random.randrange(4):  # otherwise the query is killed before it commits the batch
            start = end
            found += rows
    while end != (end := micro_batch(reader, start, limit)[0]) or end != start:
        start, rows = micro_batch(reader, start, limit)
        found += rows
    assert by_place(found) == by_place(expected(copy, isolation_level=level))


def test_planned_offsets_are_found_after_the_cleaner_merged_segments(tmp_path: Path) -> None:
    log = write_log(tmp_path / "__consumer_offsets-5", Random(11))
    wanted = expected(log, isolation_level="read_committed")
    reader = reader_of(tmp_path, maxSplitBytes=500)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    tasks = reader.partitions(start, end)
    # The cleaner merges small segments, so positions in files change.
    first, second, *_ = sorted(log.glob("*.log"))
    first.write_bytes(first.read_bytes() + second.read_bytes())
    second.unlink()
    batches = [batch for task in tasks for batch in reader.read(task)]
    assert by_place(pa.Table.from_batches(batches, arrow_schema()).to_pylist()) == by_place(wanted)


def test_a_new_partition_is_read_from_its_beginning(tmp_path: Path) -> None:
    write_log(tmp_path / "__consumer_offsets-1", Random(1))
    reader = reader_of(tmp_path, isolation_level="read_uncommitted", failOnDataLoss=False)
    start, _ = micro_batch(reader, reader.initialOffset(), None)
    added = write_log(tmp_path / "__consumer_offsets-2", Random(2))
    end, rows = micro_batch(reader, start, None)
    assert set(end["__consumer_offsets"]) == {"1", "2"}
    assert by_place(rows) == by_place(expected(added, isolation_level="read_uncommitted"))


def test_missing_offsets_fail_the_query_unless_fail_on_data_loss_is_false(tmp_path: Path) -> None:
    log = write_log(tmp_path / "__consumer_offsets-5", Random(3))
    segments = sorted(log.glob("*.log"))
    assert len(segments) > 1
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    for segment in segments[:-1]:
        segment.unlink()
    with pytest.raises(DataLoss, match=r"__consumer_offsets-5: offset \d.* is not in the log.*failOnDataLoss=false"):
        micro_batch(reader, start, None)
    _, rows = micro_batch(reader_of(tmp_path, failOnDataLoss=False), start, None)
    assert by_place(rows) == by_place(expected(log, isolation_level="read_committed"))
    segments[-1].unlink()
    (log / "00000000000000000000.log").touch()
    with pytest.raises(DataLoss, match="the log ends at 0"):
        reader.latestOffset({"__consumer_offsets": {"5": 7}}, ReadAllAvailable())


def test_available_now_ends_at_the_end_offsets_of_its_start(tmp_path: Path) -> None:
    log = write_log(tmp_path / "__consumer_offsets-5", Random(4))
    last = max(log.glob("*.log"))
    data = last.read_bytes()
    last.write_bytes(data[: len(data) // 2])
    reader = reader_of(tmp_path, isolation_level="read_uncommitted")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    then = expected(log, isolation_level="read_uncommitted")
    last.write_bytes(data)
    write_log(tmp_path / "__consumer_offsets-6", Random(5))
    end, rows = micro_batch(reader, start, None)
    # The rest of a batch is not written yet.
    assert by_place(rows) == by_place(row for row in then if row["offset"] is not None)
    assert micro_batch(reader, end, None) == (end, [])


def test_options_that_streams_do_not_have_are_errors(tmp_path: Path) -> None:
    write_log(tmp_path / "__consumer_offsets-5", Random(4))
    with pytest.raises(OptionError, match="a stream has no end"):
        reader_of(tmp_path, endingTimestamp=5)
    with pytest.raises(OptionError, match="the checkpoint is of other"):
        reader_of(tmp_path).latestOffset({"other": {}}, ReadAllAvailable())
    older = UnlimitedReader(reader_of(tmp_path).options, reader_of(tmp_path).reading)
    assert older.latestOffset() == reader_of(tmp_path).latestOffset(older.initialOffset(), ReadAllAvailable())


def test_a_killed_and_resumed_query_returns_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(6)
    whole, copy = write_log(tmp_path / "whole" / "__consumer_offsets-5", random), tmp_path / "__consumer_offsets-5"
    steps = growing(whole, copy, random)
    seen: list[Any] = []

    def keep(batch: DataFrame, number: int) -> None:
        rows = [tuple(row) for row in batch.select("offset", "type").orderBy("offset").collect()]
        seen.append((number, rows))
        if len(seen) == 2:
            raise RuntimeError("killed")  # after the rows are written, before Spark commits the batch

    def run() -> None:
        stream = spark.readStream.format("consumer-offsets").option("maxOffsetsPerTrigger", 60)
        stream = stream.option("isolation.level", "read_uncommitted").option("types", "OffsetCommit")
        query = stream.load(str(tmp_path)).writeStream.foreachBatch(keep).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    for _ in range(12):
        next(steps)
    with pytest.raises(Exception, match="killed"):
        run()
    for _ in steps:
        pass
    run()
    once = dict(seen)  # a repeated batch has the same number
    assert len(once) < len(seen)
    assert seen[1] == seen[2]
    wanted = expected(copy, isolation_level="read_uncommitted")
    assert [row for _, rows in sorted(once.items()) for row in rows] == [
        (row["offset"], row["type"]) for row in wanted if row["type"] in (None, "OffsetCommit")
    ]

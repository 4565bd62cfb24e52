"""Unusual input: invalid times, names in another case, user columns with our internal names."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from quorate.codecs import CoordinatorRecord, encode_record
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.messages import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from quorate.codecs.messages.offsets import OffsetCommitKey, OffsetCommitValue
from quorate.pipeline import decode, group_state, lag, rebalances, spark_schema, upgrade_audit
from quorate.pipeline.jobs.lag import snapshots
from quorate.pipeline.jobs.survivors import survivors
from quorate.pipeline.options import PUSH_DOWN
from quorate.pipeline.push_down import PushDown, What
from quorate.pipeline.schema import LATEST_MS
from tests.pipeline.helpers.reading import rows_of

WRAPS = 2**63 // 1000 + 1
"""Overflows an int64 in microseconds: the year 294,247."""


def commit(partition: int = 0) -> tuple[bytes, bytes]:
    key = OffsetCommitKey(group="g", topic="t", partition=partition)
    value = OffsetCommitValue(offset=5, leader_epoch=-1, metadata="", commit_timestamp=1)
    key_bytes, value_bytes = encode_record(CoordinatorRecord(key=key, value=value, version=3))
    assert key_bytes is not None
    assert value_bytes is not None
    return key_bytes, value_bytes


def write(folder: Path, times_ms: list[int]) -> Path:
    """Write a partition with a batch of its own key for each time."""
    folder.mkdir()
    batches = []
    for offset, time_ms in enumerate(times_ms):
        key, value = commit(offset)
        batches.append(encode_batch([BatchRecord(offset=offset, timestamp_ms=time_ms, key=key, value=value)]))
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    return folder


@pytest.mark.parametrize("later", [LATEST_MS + 1, WRAPS, 1 << 59])
def test_impossible_timestamps_are_null(tmp_path: Path, later: int) -> None:
    log = write(tmp_path / "__consumer_offsets-0", [1000, later, LATEST_MS, 2000, -1])
    assert [row["timestamp"] for row in rows_of(log)] == [
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        None,
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        None,
    ]

    def left(what: What, until_ms: int | None = None, times_ms: tuple[int, ...] = ()) -> list[int]:
        push_down = PushDown(what=what, until_ms=until_ms, times_ms=times_ms)
        return [row["offset"] for row in rows_of(log, **{PUSH_DOWN: push_down.text()})]

    assert left("state", until_ms=1500) == [0, 1, 2]  # the first later one is kept, as it marks the end
    assert left("commits", until_ms=LATEST_MS, times_ms=(500, 3000)) == [0, 1, 2, 3, 4]


def test_push_down_keeps_commits_without_a_time_that_can_be_the_last(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    key, value = commit()
    times_ms = [-1, WRAPS, 1000]
    records = [BatchRecord(offset=at, timestamp_ms=ms, key=key, value=value) for at, ms in enumerate(times_ms)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(encode_batch([record]) for record in records))
    push_down = PushDown(what="commits", times_ms=(500,))
    # Rows without a time are before all snapshots, so the second commit counts, which replaces the
    # first.
    assert [row["offset"] for row in rows_of(folder, **{PUSH_DOWN: push_down.text()})] == [1, 2]


def test_decode_takes_numbers_as_milliseconds_and_other_values_as_null(spark: SparkSession) -> None:
    key, value = commit()
    given = [-1, 0, 1500, LATEST_MS, LATEST_MS + 1, WRAPS, 2**63 - 1]
    rows = spark.createDataFrame(
        [(key, value, at, ms) for at, ms in enumerate(given)], "Key binary, VALUE binary, Offset long, timestamp long"
    )
    table = decode(rows).select("offset", "timestamp").toArrow()
    times = table.sort_by("offset").column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [None, 0, 1_500_000, LATEST_MS * 1000, None, None, None]
    few = rows.where("timestamp < 2000")
    for as_given in (f.col("timestamp").cast("int"), f.timestamp_millis("timestamp")):  # as Spark's Kafka source has -1
        found = decode(few.withColumn("timestamp", as_given)).select("offset", "timestamp").toArrow().sort_by("offset")
        assert found.column("timestamp").cast(pa.int64()).to_pylist() == [None, 0, 1_500_000]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_numbers_that_overflow_fail_the_job(spark: SparkSession, ansi: str) -> None:
    key, value = commit()
    given = spark.createDataFrame(
        [(key, value, 7, "12"), (key, value, 2**32 + 7, "twelve")],
        "key binary, value binary, partition long, offset string",
    )
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        assert decode(given.where("partition = 7")).select("partition", "offset").collect() == [
            Row(partition=7, offset=12)
        ]
        for column, printed in (
            ("partition", f"partition is '{2**32 + 7}', which"),
            ("offset", "offset is 'twelve', which"),
        ):
            with pytest.raises(PySparkException, match=f"{printed} is not a number of type"):
                decode(given.select("key", "value", column)).collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_jobs_ignore_times_that_python_cannot_represent(spark: SparkSession) -> None:
    key, value = commit()
    groups: list[tuple[Any, Any]] = [
        (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3)),
        (ConsumerGroupPartitionMetadataKey(group_id="g"), ConsumerGroupPartitionMetadataValue(topics=())),
    ]
    written = [encode_record(CoordinatorRecord(key=one, value=other, version=0)) for one, other in groups]
    given = [(*pair, at) for at, pair in enumerate([(key, value), *written, (key, value)])]
    decoded = decode(spark.createDataFrame(given, "key binary, value binary, offset long")).toArrow()
    rows = spark.createDataFrame(decoded, spark_schema())  # decoded once for all jobs
    rows = rows.withColumn("timestamp", f.timestamp_micros(f.lit(LATEST_MS * 1000 + 1000)))
    assert [row.finding for row in upgrade_audit(rows).collect()] == ["topic-record"]
    with pytest.raises(PySparkException, match="a record has no timestamp"):
        rebalances(rows).collect()
    # Not later than any time, and before all snapshots.
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    without_zone = rows.withColumn("timestamp", f.col("timestamp").cast("timestamp_ntz"))
    assert [row.epoch for row in group_state(without_zone, moment).groups.collect()] == [3]
    ends = spark.createDataFrame(
        [("t", 0, moment, 9)], "topic string, partition int, timestamp timestamp, end_offset long"
    )
    assert [(row.lag, row.committed_at) for row in lag(rows, ends).collect()] == [(4, None)]


def test_end_offsets_with_times_in_other_units_than_ms_are_errors(
    spark: SparkSession,
) -> None:
    in_ms = 1_795_000_000_000
    kinds = "topic string, partition int, timestamp long, end_offset long"
    good = snapshots(spark.createDataFrame([("t", 0, in_ms, 5), ("t", 0, None, 5)], kinds))
    assert [row.timestamp.timestamp() for row in good.collect()] == [in_ms / 1000]
    with pytest.raises(PySparkException, match=f"timestamp is '{in_ms}000', which is not ms since 1970"):
        snapshots(spark.createDataFrame([("t", 0, in_ms * 1000, 5)], kinds)).collect()


def test_column_names_may_have_dots_and_follow_sparks_case_sensitivity(spark: SparkSession) -> None:
    key, value = commit()
    rows = spark.createDataFrame([Row(**{"record.key": key, "value": value, "Offset": 7})])
    assert decode(rows, "record.key").schema == spark_schema()
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert decode(rows, "record.key").select("offset").collect() == [Row(offset=None)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_user_columns_may_have_the_names_of_columns_that_a_job_adds(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], spark_schema())
    named = ("pending_of", "aborted", "place", "first_later", "key_text", "packed", "row")
    df = rows.withColumns({name: f.lit("mine") for name in named})
    found = survivors(df, datetime(2026, 1, 1, tzinfo=UTC), "read_uncommitted")
    assert found.columns[: len(rows.columns)].count("offset") == 1
    assert dict(found.dtypes)["pending_of"] == "bigint"
    assert len(set(found.columns)) == len(found.columns) == len(rows.columns) + 2

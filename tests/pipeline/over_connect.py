"""The source, jobs and streams in a session of Spark Connect, compared with the log and a replay.

`make test-spark-matrix` runs this on the newest release with `pyspark[connect]`. `make test` does
not run it, because its environment lacks the packages.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from quorate.pipeline import decode, group_state, lag, rebalances, register, upgrade_audit
from quorate.pipeline.jobs.state_rows import STATE
from quorate.pipeline.streaming import (
    alerts,
    latest_lag,
    latest_rebalances,
    latest_state,
    stream_group_state,
    stream_lag,
    stream_rebalances,
)
from quorate.pipeline.streaming.keyed import PROVIDER, ROCKS_DB
from tests.conftest import WORKER_PATH
from tests.coordinator.captures import CAPTURES, entries, folders
from tests.pipeline.helpers.jobs import comparable, replay
from tests.pipeline.helpers.reading import by_place, expected
from tests.pipeline.jobs.test_rebalances import of_group

UPGRADE = "upgrade-4.0-to-4.3-and-back"
LOG = CAPTURES / UPGRADE
ENDS = "topic string, partition int, timestamp timestamp, end_offset long"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Start a server of Spark Connect, and a session."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(WORKER_PATH)}  # spark.executorEnv is not used
    session = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    assert "connect" in type(session).__module__
    session.conf.set(PROVIDER, ROCKS_DB)
    register(session)
    yield session
    session.stop()


def rows(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("consumer-offsets").options(**options).load(str(LOG))


def stream(spark: SparkSession, **options: str) -> DataFrame:
    return spark.readStream.format("consumer-offsets").options(**options).load(str(LOG))


def run(found: DataFrame, folder: Path) -> DataFrame:
    """Run a query on the available rows, and return what it has written."""
    writer = found.writeStream.format("parquet").option("path", str(folder / "out"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return found.sparkSession.read.parquet(str(folder / "out"))


def contents(df: DataFrame) -> list[str]:
    return sorted(str(row) for row in df.toArrow().to_pylist())


def by_group(df: DataFrame) -> dict[str, Any]:
    return comparable(df.toArrow().select(STATE.names).cast(STATE).to_pylist())


def test_the_source_and_decode_return_the_rows_of_the_log(spark: SparkSession) -> None:
    wanted = by_place(expected(LOG, topics=["__consumer_offsets"], isolation_level="read_committed"))
    assert by_place(rows(spark).toArrow().to_pylist()) == wanted
    columns = ["topic", "partition", "offset", "timestamp", "type", "group", "error", "offset_commit"]
    raw = rows(spark, includeRaw="true").select("key", "value", "topic", "partition", "offset", "timestamp")
    assert contents(decode(raw).select(*columns)) == contents(rows(spark).select(*columns))


def test_jobs_equal_a_replay_by_the_coordinator(spark: SparkSession) -> None:
    wanted = {name: row for folder in folders(UPGRADE) for name, row in comparable(replay(entries(folder))).items()}
    assert by_group(group_state(rows(spark)).rows) == wanted
    epochs = [(name, row["epoch"], row["log_offset"]) for name in wanted for row in of_group(UPGRADE, name)]
    actual = rebalances(rows(spark)).select("group", "epoch", "log_offset").collect()
    assert sorted(map(tuple, actual)) == sorted(epochs)
    findings = {row.finding for row in upgrade_audit(rows(spark)).where("group = 'bill-orders'").collect()}
    assert findings == {"upgraded", "downgraded", "topic-record", "will-bump"}


def test_streams_equal_the_batch_jobs(spark: SparkSession, tmp_path: Path) -> None:
    limited = stream(spark, maxOffsetsPerTrigger="400")
    assert contents(run(limited, tmp_path / "rows")) == contents(rows(spark))

    state = latest_state(run(stream_group_state(limited), tmp_path / "state")).groups
    jobs_state = group_state(rows(spark)).groups.where("kind is not null")
    columns = [name for name in state.columns if not name.startswith("log_")]
    assert contents(state.select(*columns)) == contents(jobs_state.select(*columns))

    found = latest_rebalances(run(stream_rebalances(limited), tmp_path / "rebalances"))
    wanted = rebalances(rows(spark))
    assert contents(found.select(*wanted.columns)) == contents(wanted)


def test_streams_of_two_sources_and_alerts_run(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "ends").mkdir()
    lines = [
        f"orders,{number},2026-11-21T08:0{minute}:00Z,{4 * minute}\n" for number in range(3) for minute in range(3)
    ]
    (tmp_path / "ends" / "one.csv").write_text("".join(lines))
    ends = spark.read.schema(ENDS).csv(str(tmp_path / "ends"))
    streamed = spark.readStream.schema(ENDS).csv(str(tmp_path / "ends"))
    columns = ("group", "topic", "partition", "timestamp", "committed_offset", "lag")
    found = latest_lag(run(stream_lag(stream(spark), streamed, keep_ms=1 << 40), tmp_path / "lag"))
    assert contents(found.select(*columns)) == contents(lag(rows(spark), ends).select(*columns))
    assert found.count() > 20

    limits: dict[str, Any] = {"storm_rebalances": 3, "storm_window_ms": 60_000, "silence_ms": 3000}
    actual = run(alerts(stream(spark), **limits), tmp_path / "alerts")
    assert {row.alert for row in actual.select("alert").distinct().collect()} >= {"storm", "no-commits"}

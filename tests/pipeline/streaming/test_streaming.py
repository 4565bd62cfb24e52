"""Streams compared with batch jobs, with random micro-batches and killed queries."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from quorate.pipeline import local
from quorate.pipeline.jobs.state_rows import STATE
from quorate.pipeline.schema import OptionError
from quorate.pipeline.streaming import (
    alerts,
    latest_lag,
    latest_rebalances,
    latest_state,
    stream_group_state,
    stream_lag,
    stream_rebalances,
)
from quorate.pipeline.streaming.keyed import PROVIDER
from tests.coordinator.captures import folders
from tests.extent import is_full
from tests.pipeline.helpers.jobs import NAMES, comparable, rows_of, table_of
from tests.pipeline.helpers.streams import cut, run_killed, stream_of, write_parts

UPGRADE = "upgrade-4.0-to-4.3-and-back"
STREAMED = NAMES if is_full() else ["classic-3.9", "share-4.3", "streams-4.3", "transactions-4.3"]
"""Captures whose rows a stream of Spark reads: every kind of group. `test_streaming_exact` compares
all captures without Spark.
"""


def committed() -> pa.Table:
    """Return the committed rows of captures."""
    return pa.concat_tables(
        table_of(folder, capture, "read_committed") for capture in STREAMED for folder in folders(capture)
    )


def by_log(table: pa.Table) -> dict[tuple[str, int], dict[str, dict[str, object]]]:
    found: dict[tuple[str, int], list[dict[str, object]]] = {}
    for row in table.to_pylist():
        found.setdefault((row["log_topic"], row["log_partition"]), []).append(row)
    return {log: comparable(rows) for log, rows in found.items() if comparable(rows)}


def test_groups_of_a_killed_stream_equal_those_of_the_batch_job(spark: SparkSession, tmp_path: Path) -> None:
    table = committed()
    write_parts(tmp_path / "rows", cut(table, 2, Random(1)))
    kills = Random(2 if is_full() else 109)  # 109: once, after the last rows were written, before the commit
    found = run_killed(stream_group_state(stream_of(spark, tmp_path / "rows")), tmp_path, kills, partitions=2)
    wanted = local.group_state(table, isolation_level="read_committed").rows
    actual = by_log(latest_state(found).rows.select(*STATE.names).toArrow().cast(STATE))
    expected = by_log(wanted)
    assert actual == {
        log: {name: row | {"skipped": None} for name, row in rows.items()} for log, rows in expected.items()
    }
    assert sum(map(len, actual.values())) > (60 if is_full() else 15)


def test_rebalances_lags_and_alerts_of_streams_equal_those_of_the_batch_jobs(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = pa.concat_tables(table_of(folder, UPGRADE, "read_committed") for folder in folders(UPGRADE))
    write_parts(tmp_path / "rows", cut(table, 2, Random(4)))
    times = table.column("timestamp").drop_null().sort().to_pylist()
    commits = table.filter(pc.equal(table.column("type"), "OffsetCommit")).column("offset_commit").to_pylist()
    of = sorted({(row["topic"], row["partition"]) for row in commits})
    ends = pa.table(
        {
            "topic": [topic for topic, _ in of for _ in range(2)],
            "partition": pa.array([number for _, number in of for _ in range(2)], pa.int32()),
            "timestamp": pa.array([times[len(times) // 2], times[-1]] * len(of), pa.timestamp("us", "UTC")),
            "end_offset": [100, 2000] * len(of),
        }
    )
    write_parts(tmp_path / "ends", [ends])
    schema = "topic string, partition int, timestamp timestamp, end_offset long"
    rows, snapshots = stream_of(spark, tmp_path / "rows"), stream_of(spark, tmp_path / "ends", schema=schema)

    def both(found: DataFrame, wanted: pa.Table) -> None:
        got, expected = (
            sorted(
                str([round(one, 6) if isinstance(one, float) else one for one in row.values()])
                for row in rows.to_pylist()
            )
            for rows in (found.select(*wanted.schema.names).toArrow().cast(wanted.schema), wanted)
        )
        assert got == expected
        assert expected

    # In `make test` one micro-batch each: test_streaming_exact and test_streaming_alerts cut at any
    # row, and the other streams have more.
    at_once = rows if is_full() else stream_of(spark, tmp_path / "rows", files=2)
    seen = run_killed(stream_rebalances(at_once), tmp_path / "rebalances")
    both(latest_rebalances(seen), local.rebalances(table))
    seen = run_killed(stream_lag(at_once, snapshots, keep_ms=1 << 40), tmp_path / "lag")
    both(latest_lag(seen), local.lag(table, ends, isolation_level="read_committed"))
    limits = {"storm_rebalances": 3, "storm_window_ms": 60_000, "silence_ms": 3000}
    seen = run_killed(alerts(at_once, snapshots, lag_limit=500, **limits), tmp_path / "alerts", Random(5))
    once = [
        (row["alert"], row["group"], row["log_partition"], row["topic"], row["partition"], row["since"])
        for row in seen.collect()
    ]
    assert len(once) == len(set(once))
    assert {row[0] for row in once} >= {"storm", "lag", "no-commits"}


def test_missing_requirements_of_streams_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    write_parts(tmp_path / "rows", [])
    rows = stream_of(spark, tmp_path / "rows")
    with pytest.raises(OptionError, match="needs a stream"):
        stream_group_state(rows_of(spark, [committed().slice(0, 1)]))
    with pytest.raises(OptionError, match="alerts of lags need both end_offsets and lag_limit"):
        alerts(rows, lag_limit=5)
    spark.conf.unset(PROVIDER)
    with pytest.raises(OptionError, match=r"needs RocksDB.*RocksDBStateStoreProvider"):
        stream_group_state(rows)

"""Streams against the batch jobs: the same records, cut into micro-batches anywhere, in queries that are killed at random."""

from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark.sql import SparkSession

from quorate.pipeline.jobs.state import STATE, group_state
from quorate.pipeline.streaming.state import latest_state, stream_group_state
from tests.coordinator.captures import folders
from tests.pipeline.jobs import NAMES, comparable, rows_of, table_of
from tests.pipeline.streams import cut, run_killed, stream_of, write_parts


def committed() -> pa.Table:
    """The committed rows of all captures."""
    return pa.concat_tables(
        table_of(folder, capture, "read_committed") for capture in NAMES for folder in folders(capture)
    )


def by_log(table: pa.Table) -> dict[tuple[str, int], dict[str, dict[str, object]]]:
    found: dict[tuple[str, int], list[dict[str, object]]] = {}
    for row in table.to_pylist():
        found.setdefault((row["log_topic"], row["log_partition"]), []).append(row)
    return {log: comparable(rows) for log, rows in found.items() if comparable(rows)}


def test_groups_from_a_stream_that_is_killed_are_those_of_the_batch_job(spark: SparkSession, tmp_path: Path) -> None:
    table = committed()
    write_parts(tmp_path / "rows", cut(table, 5, Random(1)))
    found = run_killed(stream_group_state(stream_of(spark, tmp_path / "rows")), tmp_path, Random(2))
    wanted = group_state(rows_of(spark, [table]), isolation_level="read_committed")
    told = by_log(latest_state(found).rows.select(*STATE.names).toArrow().cast(STATE))
    asked = by_log(wanted.rows.where("group is not null").drop("skipped").toArrow())
    assert told == {log: {name: row | {"skipped": None} for name, row in rows.items()} for log, rows in asked.items()}
    assert sum(map(len, told.values())) > 60

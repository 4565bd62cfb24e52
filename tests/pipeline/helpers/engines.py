"""The engines of jobs, with one interface: tests that compare rows run on both."""

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from quorate import pipeline
from quorate.assignors import Topology
from quorate.pipeline import local
from quorate.pipeline.jobs.record_columns import OWNED
from quorate.pipeline.jobs.state_rows import STATE
from tests.pipeline.helpers import jobs
from tests.pipeline.helpers.jobs import Rowlike


class Engine(Protocol):
    """Runs jobs on tables in the pipeline's schema, and returns tables."""

    def rows(self, tables: Iterable[pa.Table], seed: int | None = None) -> Any:
        """Return the rows for a job, with a seed in random order."""

    def state(self, rows: Any, *arguments: Any, **options: Any) -> pa.Table:
        """Return the nested rows of `group_state`."""

    def tables(self, rows: Any, *arguments: Any, **options: Any) -> dict[str, pa.Table]:
        """Return the tables of `group_state`."""

    def rebalances(self, rows: Any, *arguments: Any, **options: Any) -> pa.Table: ...

    def storms(self, found: pa.Table, **options: Any) -> pa.Table: ...

    def upgrade_audit(self, rows: Any, *arguments: Any, **options: Any) -> pa.Table: ...

    def lag(self, rows: Any, end_offsets: pa.Table, **options: Any) -> pa.Table:
        """Return the rows of `lag` by group, topic, partition and time."""

    def locality(self, rows: Any, topology: Topology, throughput: Any = None, **options: Any) -> dict[str, pa.Table]:
        """Return the tables of `locality`, with its nested rows as `rows`."""


class LocalEngine:
    """The engine in this process."""

    def rows(self, tables: Iterable[pa.Table], seed: int | None = None) -> pa.Table:
        table = pa.concat_tables(list(tables))
        return table if seed is None else jobs.shuffled(table, seed)

    def state(self, rows: Any, *arguments: Any, **options: Any) -> pa.Table:
        return local.group_state(rows, *arguments, **options).rows

    def tables(self, rows: Any, *arguments: Any, **options: Any) -> dict[str, pa.Table]:
        return local.group_state(rows, *arguments, **options).tables

    def rebalances(self, rows: Any, *arguments: Any, **options: Any) -> pa.Table:
        return local.rebalances(rows, *arguments, **options)

    def storms(self, found: pa.Table, **options: Any) -> pa.Table:
        return local.storms(found, **options)

    def upgrade_audit(self, rows: Any, *arguments: Any, **options: Any) -> pa.Table:
        return local.upgrade_audit(rows, *arguments, **options)

    def lag(self, rows: Any, end_offsets: pa.Table, **options: Any) -> pa.Table:
        return local.lag(rows, end_offsets, **options)

    def locality(self, rows: Any, topology: Topology, throughput: Any = None, **options: Any) -> dict[str, pa.Table]:
        found = local.locality(rows, topology, throughput, **options)
        return {"rows": found.rows, **found.tables}


class SparkEngine:
    """The engine on Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def rows(self, tables: Iterable[pa.Table], seed: int | None = None) -> Any:
        df = jobs.rows_of(self.spark, tables)
        return df if seed is None else jobs.in_any_order(df, seed)

    def state(self, rows: Any, *arguments: Any, **options: Any) -> pa.Table:
        return pipeline.group_state(rows, *arguments, **options).rows.toArrow()

    def tables(self, rows: Any, *arguments: Any, **options: Any) -> dict[str, pa.Table]:
        found = pipeline.group_state(rows, *arguments, **options).cache()
        tables = {name: table.toArrow() for name, table in found.tables.items()}
        found.unpersist()
        return tables

    def rebalances(self, rows: Any, *arguments: Any, **options: Any) -> pa.Table:
        return pipeline.rebalances(rows, *arguments, **options).toArrow()

    def storms(self, found: pa.Table, **options: Any) -> pa.Table:
        return pipeline.storms(self.spark.createDataFrame(found), **options).toArrow()

    def upgrade_audit(self, rows: Any, *arguments: Any, **options: Any) -> pa.Table:
        return pipeline.upgrade_audit(rows, *arguments, **options).toArrow()

    def lag(self, rows: Any, end_offsets: pa.Table, **options: Any) -> pa.Table:
        found = pipeline.lag(rows, self.spark.createDataFrame(end_offsets), **options)
        return found.orderBy(*OWNED, "timestamp").toArrow()

    def locality(self, rows: Any, topology: Topology, throughput: Any = None, **options: Any) -> dict[str, pa.Table]:
        if isinstance(throughput, pa.Table):
            throughput = self.spark.createDataFrame(throughput)
        found = pipeline.locality(rows, topology, throughput, **options).cache()
        tables = {name: table.toArrow() for name, table in {"rows": found.rows, **found.tables}.items()}
        found.rows.unpersist()
        return tables


def by_log(rows: pa.Table) -> dict[tuple[str, int], list[Rowlike]]:
    """Return the nested rows of a state by log."""
    found: dict[tuple[str, int], list[Rowlike]] = {}
    for row in rows.cast(STATE).to_pylist():
        found.setdefault((row["log_topic"], row["log_partition"]), []).append(row)
    return found

"""The tables of a report with Spark.

Small tables are collected at once, because each Spark job takes longer than all aggregates of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from quorate.assignors import Topology
from quorate.pipeline.jobs.audit import upgrade_audit
from quorate.pipeline.jobs.lag import lag
from quorate.pipeline.jobs.locality import Locality
from quorate.pipeline.jobs.moments import AsOf
from quorate.pipeline.jobs.rebalances import rebalances, storms
from quorate.pipeline.jobs.state import group_state
from quorate.pipeline.local.histories import storms as local_storms
from quorate.pipeline.local.output import Order
from quorate.pipeline.local.results import ArrowRows
from quorate.pipeline.report_data import Results, Row

MOST_COLLECTED = 50_000
"""Highest number of rows of a table that are collected before they are aggregated."""

_OF_REBALANCES = (
    *("log_topic", "log_partition", "group", "epoch", "started_at", "completed_at", "superseded_at", "duration_ms"),
    *("causes", "why", "partitions_moved"),
)
_OF_GROUPS = ("group", "kind", "state", "epoch", "assignor", "topics", "members", "offsets")


@dataclass(frozen=True)
class SparkRows:
    """A DataFrame as `ResultRows`."""

    df: DataFrame

    def first(self, most: int | None, *order: Order, within: tuple[str, Sequence[Any]] | None = None) -> list[Row]:
        """Return the first rows in an order."""
        df = self.df if within is None else self.df.where(F.col(within[0]).isin(list(within[1])))
        df = df.orderBy(*map(_sorted, order)) if order else df
        rows: list[Row] = (df if most is None else df.limit(most)).toArrow().to_pylist()
        return rows

    def grouped(self, by: Sequence[str], *aggregates: tuple[str, str]) -> "SparkRows":
        """Return a row per group with aggregates."""
        return SparkRows(self.df.groupBy(*by).agg(*[_aggregate(name, function) for name, function in aggregates]))


def _sorted(order: Order) -> Column:
    return F.col(order) if isinstance(order, str) else F.desc(order[0])


def _aggregate(name: str, function: str) -> Column:
    if function == "count_all":
        return F.count("*").alias(function)
    column: Column = getattr(F, function)(name)
    return column.alias(f"{name}_{function}")


@contextmanager
def spark_results(
    df: DataFrame,
    *,
    end_offsets: DataFrame | None,
    topology: Topology | None,
    locality: Locality | None,
    as_of: AsOf | None,
) -> Iterator[Results]:
    """Run all jobs, each once; keep large tables cached until the end of the block."""
    with ExitStack() as stack:

        def cached(table: DataFrame) -> DataFrame:
            kept = table.cache()
            stack.callback(kept.unpersist)
            return kept

        def rows(table: DataFrame) -> ArrowRows | SparkRows:
            few = table.limit(MOST_COLLECTED + 1).toArrow()
            return ArrowRows(few) if few.num_rows <= MOST_COLLECTED else SparkRows(table)

        state = group_state(df, as_of)
        state = type(state)(cached(state.rows))
        found = rows(cached(rebalances(df, as_of).select(*_OF_REBALANCES)))
        racks = None if locality is None else type(locality)(cached(locality.rows), locality.price_per_gb)
        yield Results(
            groups=rows(state.groups.select(*_OF_GROUPS)),
            skipped=rows(state.skipped),
            rebalances=found,
            storms=ArrowRows(local_storms(found.table))
            if isinstance(found, ArrowRows)
            else SparkRows(storms(found.df)),
            findings=rows(cached(upgrade_audit(df, topology, as_of=as_of))),
            lags=None if end_offsets is None else rows(cached(lag(df, end_offsets, as_of=as_of))),
            summary=None if racks is None else rows(racks.summary),
            pairs=None if racks is None else rows(racks.pairs),
        )

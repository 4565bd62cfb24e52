"""The data of the report, collected from the jobs and limited to what a page can show.

Spark aggregates, so the size of the history does not matter. Knows nothing about HTML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from quorate.assignors import Topology
from quorate.pipeline.jobs.audit import upgrade_audit
from quorate.pipeline.jobs.lag import lag
from quorate.pipeline.jobs.locality import CURRENT, Locality
from quorate.pipeline.jobs.moments import AsOf
from quorate.pipeline.jobs.rebalances import rebalances, storms
from quorate.pipeline.jobs.state import group_state

__all__ = ["Facts", "LagSeries", "collect"]

Row = Mapping[str, Any]

MOST_GROUPS = 500
MOST_LANES = 30
MOST_BARS = 6000
MOST_SERIES = 12
MOST_TIMES = 300
MOST_FINDINGS = 500


@dataclass(frozen=True, slots=True)
class LagSeries:
    """The lag of one group over all its partitions.

    `points`: time in seconds since 1970, and lag in records. `drain_seconds`: until the slowest
    partition has caught up; `None` for never.
    """

    group: str
    points: Sequence[tuple[float, float]]
    partitions: int
    production_rate: float | None
    consumption_rate: float | None
    drain_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All data of a report.

    Lists are limited; the totals are `group_count`, `rebalance_count`, `lag_groups`,
    `finding_counts`, and the count of each group in `lanes`.
    """

    title: str
    made_at: datetime
    groups: Sequence[Row]
    group_count: int
    members: int
    offsets: int
    skipped: int
    rebalances: Sequence[Row]
    rebalance_count: int
    lanes: Sequence[tuple[str, int]]
    storms: Sequence[Row]
    lags: Sequence[LagSeries] | None
    lag_groups: int
    racks: Sequence[Row] | None
    matrix: Sequence[Row] | None
    priced: bool
    findings: Sequence[Row]
    finding_counts: Mapping[str, int]
    compared_hashes: bool


def collect(
    df: DataFrame,
    *,
    end_offsets: DataFrame | None,
    topology: Topology | None,
    locality: Locality | None,
    as_of: AsOf | None,
    title: str,
) -> Facts:
    """Run each job once and collect the results."""
    state = group_state(df, as_of).cache()
    groups = state.groups
    counts = groups.agg(F.count("*"), F.sum("members"), F.sum("offsets")).collect()[0]
    listed = groups.orderBy(F.desc("members"), F.desc("offsets"), "group").limit(MOST_GROUPS)
    skipped = state.skipped.agg(F.sum("records")).collect()[0][0]
    found = rebalances(df, as_of).cache()
    per_group = found.groupBy("group").count().orderBy(F.desc("count"), "group").collect()
    lanes = [(row["group"], row["count"]) for row in per_group[:MOST_LANES]]
    bars = (
        found.where(F.col("group").isin([group for group, _ in lanes])).orderBy(F.desc("started_at")).limit(MOST_BARS)
    )
    findings = upgrade_audit(df, topology, as_of=as_of).cache()
    by_kind = {row["finding"]: row["count"] for row in findings.groupBy("finding").count().collect()}
    facts = Facts(
        title=title,
        made_at=datetime.now(UTC),
        groups=_rows(listed),
        group_count=counts[0],
        members=counts[1] or 0,
        offsets=counts[2] or 0,
        skipped=skipped or 0,
        rebalances=_rows(bars),
        rebalance_count=sum(row["count"] for row in per_group),
        lanes=lanes,
        storms=_rows(storms(found).orderBy(F.desc("rebalances")).limit(MOST_GROUPS)),
        **_lags(df, end_offsets, as_of),
        **_racks(locality),
        findings=_rows(findings.orderBy("at_end", F.desc("timestamp"), "group").limit(MOST_FINDINGS)),
        finding_counts=by_kind,
        compared_hashes=topology is not None,
    )
    for cached in (state.rows, found, findings):
        cached.unpersist()
    return facts


def _lags(df: DataFrame, end_offsets: DataFrame | None, as_of: AsOf | None) -> dict[str, Any]:
    if end_offsets is None:
        return {"lags": None, "lag_groups": 0}
    found = lag(df, end_offsets, as_of=as_of).cache()
    per_time = found.groupBy("group", "timestamp").agg(
        F.sum("lag").alias("lag"),
        F.count("*").alias("partitions"),
        F.sum("production_rate").alias("production_rate"),
        F.sum("consumption_rate").alias("consumption_rate"),
        F.max("drain_seconds").alias("drain_seconds"),
        F.max(F.when(F.col("lag") > 0, F.col("drain_seconds").isNull()).otherwise(F.lit(False))).alias("never"),
    )
    ranked = per_time.groupBy("group").agg(F.max("lag").alias("most")).orderBy(F.desc("most"), "group").collect()
    shown = [row["group"] for row in ranked[:MOST_SERIES]]
    rows = _rows(per_time.where(F.col("group").isin(shown)).orderBy("group", "timestamp"))
    found.unpersist()
    series = []
    for group in shown:
        of_group = [row for row in rows if row["group"] == group]
        points = [(row["timestamp"].timestamp(), float(row["lag"])) for row in of_group]
        last = of_group[-1]
        series.append(
            LagSeries(
                group=group,
                points=thinned(points, MOST_TIMES),
                partitions=last["partitions"],
                production_rate=last["production_rate"],
                consumption_rate=last["consumption_rate"],
                drain_seconds=None if last["never"] else last["drain_seconds"],
            )
        )
    return {"lags": series, "lag_groups": len(ranked)}


def thinned(points: Sequence[tuple[float, float]], most: int) -> Sequence[tuple[float, float]]:
    """Reduce a series to at most `most` points.

    Keeps the highest point of each run, because readers look for peaks, and the last point.
    """
    if len(points) <= most:
        return points
    step = len(points) / (most - 1)
    found = []
    for number in range(most - 1):
        run = points[int(number * step) : max(int((number + 1) * step), int(number * step) + 1)]
        found.append(max(run, key=lambda point: point[1]))
    return [*found, points[-1]] if found[-1] != points[-1] else found


def _racks(locality: Locality | None) -> dict[str, Any]:
    if locality is None:
        return {"racks": None, "matrix": None, "priced": False}
    found = locality.cache()
    matrix = found.pairs.groupBy("assignor", "from_rack", "to_rack").agg(
        F.sum("partitions").alias("partitions"),
        F.sum("bytes_per_second").alias("bytes_per_second"),
        F.sum("cost_per_month").alias("cost_per_month"),
    )
    summary = found.summary.orderBy("group", F.col("assignor") != CURRENT, "assignor").limit(MOST_GROUPS)
    facts = {"racks": _rows(summary), "matrix": _rows(matrix), "priced": locality.price_per_gb is not None}
    found.rows.unpersist()
    return facts


def _rows(df: DataFrame) -> list[Row]:
    rows: list[Row] = df.toArrow().to_pylist()
    return rows

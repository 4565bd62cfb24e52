"""The data of the report, collected from the jobs and limited to what a page can show.

Engines aggregate (`ResultRows`), so the size of the history does not matter. Knows nothing about
HTML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from quorate.pipeline.jobs.locality_rows import CURRENT
from quorate.pipeline.local.output import Order

Row = Mapping[str, Any]
MOST_GROUPS = 500
MOST_LANES = 30
MOST_BARS = 6000
MOST_SERIES = 12
MOST_TIMES = 300
MOST_FINDINGS = 500


class ResultRows(Protocol):
    """A table of a job on one of the engines."""

    def first(self, most: int | None, *order: Order, within: tuple[str, Sequence[Any]] | None = None) -> list[Row]:
        """Return the first rows in an order.

        `within`: a column, and the values that rows have there.
        """

    def grouped(self, by: Sequence[str], *aggregates: tuple[str, str]) -> "ResultRows":
        """Return a row per group with aggregates: a column, and "sum", "max" or "count".

        Named `lag_sum` for ("lag", "sum"); ("", "count_all") counts rows. Nulls are omitted, and
        the sum of nulls is null.
        """


@dataclass(frozen=True, kw_only=True)
class Results:
    """The tables that a report needs, with the columns of the jobs.

    `lags` is `None` without end offsets; `summary` and `pairs` are, without a topology.
    """

    groups: ResultRows
    skipped: ResultRows
    rebalances: ResultRows
    storms: ResultRows
    findings: ResultRows
    lags: ResultRows | None
    summary: ResultRows | None
    pairs: ResultRows | None


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


def collect(results: Results, *, title: str, priced: bool, compared_hashes: bool) -> Facts:
    """Collect what the report shows. `priced`: `results` have costs."""
    (counts,) = results.groups.grouped([], ("", "count_all"), ("members", "sum"), ("offsets", "sum")).first(1)
    (skipped,) = results.skipped.grouped([], ("records", "sum")).first(1)
    per_group = results.rebalances.grouped(["group"], ("", "count_all"))
    (whole,) = results.rebalances.grouped([], ("", "count_all")).first(1)
    lanes = [(row["group"], row["count_all"]) for row in per_group.first(MOST_LANES, _most("count_all"), "group")]
    findings = results.findings
    return Facts(
        title=title,
        made_at=datetime.now(UTC),
        groups=results.groups.first(MOST_GROUPS, _most("members"), _most("offsets"), "group"),
        group_count=counts["count_all"],
        members=counts["members_sum"] or 0,
        offsets=counts["offsets_sum"] or 0,
        skipped=skipped["records_sum"] or 0,
        rebalances=results.rebalances.first(
            MOST_BARS, _most("started_at"), "group", "epoch", within=("group", [group for group, _ in lanes])
        ),
        rebalance_count=whole["count_all"],
        lanes=lanes,
        storms=results.storms.first(MOST_GROUPS, _most("rebalances"), "group", "started_at"),
        **_lags(results.lags),
        **_racks(results.summary, results.pairs),
        priced=priced,
        findings=findings.first(MOST_FINDINGS, "at_end", _most("timestamp"), "group", "finding", "log_offset"),
        finding_counts={
            row["finding"]: row["count_all"] for row in findings.grouped(["finding"], ("", "count_all")).first(None)
        },
        compared_hashes=compared_hashes,
    )


def _most(name: str) -> Order:
    return name, "descending"


def _lags(lags: ResultRows | None) -> dict[str, Any]:
    if lags is None:
        return {"lags": None, "lag_groups": 0}
    per_time = lags.grouped(
        ["group", "timestamp"],
        ("lag", "sum"),
        ("production_rate", "sum"),
        ("consumption_rate", "sum"),
        ("drain_seconds", "max"),
        ("drain_seconds", "count"),
        ("", "count_all"),
    )
    peaks = per_time.grouped(["group"], ("lag_sum", "max"))
    shown = [row["group"] for row in peaks.first(MOST_SERIES, _most("lag_sum_max"), "group")]
    (groups,) = peaks.grouped([], ("", "count_all")).first(1)
    of_group: dict[str, list[Row]] = {group: [] for group in shown}
    for row in per_time.first(None, "group", "timestamp", within=("group", shown)):
        of_group[row["group"]].append(row)
    series = []
    for group, rows in of_group.items():
        last = rows[-1]
        drains = last["drain_seconds_count"] == last["count_all"]  # null for a lag that does not decrease
        series.append(
            LagSeries(
                group=group,
                points=thinned([(row["timestamp"].timestamp(), float(row["lag_sum"])) for row in rows], MOST_TIMES),
                partitions=last["count_all"],
                production_rate=last["production_rate_sum"],
                consumption_rate=last["consumption_rate_sum"],
                drain_seconds=last["drain_seconds_max"] if drains else None,
            )
        )
    return {"lags": series, "lag_groups": groups["count_all"]}


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


def _racks(summary: ResultRows | None, pairs: ResultRows | None) -> dict[str, Any]:
    if summary is None or pairs is None:
        return {"racks": None, "matrix": None}
    sums = [(name, "sum") for name in ("partitions", "bytes_per_second", "cost_per_month")]
    matrix = pairs.grouped(["assignor", "from_rack", "to_rack"], *sums).first(None)
    rows = summary.first(MOST_GROUPS, "group", "assignor")
    return {
        "racks": sorted(rows, key=lambda row: (row["group"], row["assignor"] != CURRENT)),
        "matrix": [{name.removesuffix("_sum"): value for name, value in row.items()} for row in matrix],
    }

"""`alerts`: a stream of problems of groups, one row for each."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from quorate.pipeline.jobs.columns import present_types
from quorate.pipeline.jobs.moments import LOG
from quorate.pipeline.schema import INT, LONG, TEXT, TIME, OptionError
from quorate.pipeline.streaming.alert_monitor import AlertMonitor, GroupActivity, Limits
from quorate.pipeline.streaming.group_rows import Packed
from quorate.pipeline.streaming.keyed import Frames, Processor, changes, keyed_rows, packed_rows
from quorate.pipeline.streaming.lag import PartitionLag, lag_rows, lag_tuples

__all__ = ["ALERTS", "alerts"]

ALERTS: pa.Schema = pa.schema(
    {
        "alert": TEXT,
        "group": TEXT,
        "at": TIME,
        "since": TIME,
        "member_id": TEXT,
        "topic": TEXT,
        "partition": INT,
        "value": LONG,
        "limit": LONG,
        "message": TEXT,
        "log_topic": TEXT,
        "log_partition": INT,
        "log_offset": LONG,
    }
)
"""`alert`: `storm` (many rebalances within a window), `no-commits` (a group stopped committing),
`not-reconciled` (a member did not reach its target assignment), `lag`. `value` and `limit`: number
of rebalances, ms, ms, and records. `at`: the time of the record or snapshot that raised the alert;
`log_offset`: the offset of that record.
"""


def alerts(
    df: DataFrame,
    end_offsets: DataFrame | None = None,
    *,
    storm_rebalances: int | None = 5,
    storm_window_ms: int = 300_000,
    silence_ms: int | None = 600_000,
    reconcile_ms: int | None = None,
    lag_limit: int | None = None,
    keep_ms: int = 600_000,
) -> DataFrame:
    """Return a stream of alerts: see `ALERTS`.

    An alert is not repeated until its condition has ended.

    `df`, `end_offsets`, `keep_ms`: as for `stream_lag`. `lag_limit` needs `end_offsets`: a lag on a
    partition above this number of records raises one alert per group. Other limits: see `Limits`.
    Raises `OptionError` for invalid limits, and for missing columns or packages.
    """
    limits = Limits(storm_rebalances, storm_window_ms, silence_ms, reconcile_ms)
    if (lag_limit is None) != (end_offsets is None):
        raise OptionError("alerts of lags need both end_offsets and lag_limit")
    rows = keyed_rows(df, present_types(df))
    # Of commits only the time counts, so their fields are not passed to Python.
    rows = rows.withColumn(
        "packed", F.when(F.col("type").endswith("OffsetCommit"), F.lit("")).otherwise(F.col("packed"))
    )
    found = changes(rows, LOG, AlertsProcessor(limits))
    if end_offsets is None or lag_limit is None:
        return found
    if lag_limit < 0 or keep_ms < 1:
        raise OptionError(f"lag_limit={lag_limit}, keep_ms={keep_ms}: give 0 or more records, and 1 or more ms")
    lags = changes(lag_rows(df, end_offsets), ("topic", "partition"), LagAlertsProcessor(lag_limit, keep_ms))
    return found.unionByName(lags)


class AlertsProcessor(Processor):
    """Alerts of all groups of one partition of the log."""

    schema = ALERTS

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; called by Spark."""
        self._applied = handle.getValueState("applied", "offset long, clock long")
        self._groups = handle.getMapState("groups", "group string", "json string")

    def take(self, key: tuple[Any, ...], frames: Frames) -> Iterable[dict[str, Any]]:
        """Return the alerts of one micro-batch."""
        topic, partition = key
        applied, clock_ms = self._applied.get() or (-1, -1)
        new: dict[int, tuple[str, Packed]] = {
            row.offset: (group, row)
            for frame in frames
            for group, row in zip(frame["group"], packed_rows(frame), strict=True)
            if row.offset > applied
        }
        found: list[dict[str, Any]] = []
        if not new:
            return found
        stored = {group[0]: GroupActivity.load(text[0]) for group, text in self._groups.iterator()}
        stored_groups = set(stored)
        monitor = AlertMonitor(self.limits, stored, clock_ms)
        for offset in sorted(new):
            about = {"log_topic": topic, "log_partition": partition, "log_offset": offset}
            found += [alert | about for alert in monitor.take(*new[offset])]
        for group in sorted(monitor.changed):
            if group in monitor.groups:
                self._groups.updateValue((group,), (monitor.groups[group].text(),))
            elif group in stored_groups:
                self._groups.removeKey((group,))
        self._applied.update((max(new), monitor.clock_ms))
        return found


class LagAlertsProcessor(Processor):
    """Alerts of the lags of all groups on one partition of a topic."""

    schema = ALERTS

    def __init__(self, limit: int, keep_ms: int) -> None:
        self.limit = limit
        self.keep_ms = keep_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; called by Spark."""
        self._lags = handle.getValueState("lags", "checked long, json string")
        self._above = handle.getMapState("above", "group string", "ms long")

    def take(self, key: tuple[Any, ...], frames: Frames) -> Iterable[dict[str, Any]]:
        """Return the alerts of one micro-batch."""
        checked, text = self._lags.get() or (-1, None)
        lags = PartitionLag.load(text)
        for one in lag_tuples(frames):
            lags.take(*one)
        above = {group[0]: ms[0] for group, ms in self._above.iterator()}
        found: list[dict[str, Any]] = []
        for (group, ms), row in sorted(lags.rows().items(), key=lambda found_at: found_at[0][::-1]):
            if ms <= checked:
                continue
            if row["lag"] <= self.limit:
                if above.pop(group, None) is not None:
                    self._above.removeKey((group,))
            elif group not in above:
                above[group] = ms
                self._above.updateValue((group,), (ms,))
                found.append(self._alert(group, ms, row) | {"topic": key[0], "partition": key[1]})
        checked = max([checked, *lags.ends])
        lags.forget(self.keep_ms)
        self._lags.update((checked, lags.text()))
        return found

    def _alert(self, group: str, ms: int, row: dict[str, Any]) -> dict[str, Any]:
        return {
            "group": group,
            "alert": "lag",
            "at": ms * 1000,
            "since": row["committed_at"],
            "value": row["lag"],
            "limit": self.limit,
            "message": f"{group} has a lag of {row['lag']} records",
        }

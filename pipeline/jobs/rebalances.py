"""`rebalances`: each epoch and generation of groups, with cause, duration and moved partitions.

`storms`: many rebalances in a short time. Each group's records are replayed in one task by
`coordinator.history`; offset commits, which are most of a log, stay in the JVM. Storms of a log are
found in one task, as rebalances are few.
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from quorate.pipeline.jobs.at_source import of_groups
from quorate.pipeline.jobs.columns import known_timestamp
from quorate.pipeline.jobs.moments import LOG, AsOf
from quorate.pipeline.jobs.packed import packed
from quorate.pipeline.jobs.rebalance_rows import REBALANCES, check_storm, rows_of_group
from quorate.pipeline.jobs.records import entries, rows_in_order
from quorate.pipeline.local.histories import OF_STORMS, STORMS
from quorate.pipeline.local.histories import storms as storms_of_table


def rebalances(df: DataFrame, as_of: AsOf | None = None) -> DataFrame:
    """Return all rebalances of all groups: see `REBALANCES`.

    `df` and `as_of`: as for `group_state`; `df` may omit offset commits, but no other record types.
    All records of one write to the log belong together, so that a joining member gives one row.
    Raises `OptionError` for missing columns; a row without a timestamp fails the job.
    """
    records = packed(of_groups(df, as_of).withColumn("timestamp", known_timestamp()))
    return records.groupBy(*LOG, "group").applyInArrow(_rebalances, from_arrow_schema(REBALANCES))


def storms(found: DataFrame, *, window_ms: int = 300_000, at_least: int = 5) -> DataFrame:
    """Return the storms: at least `at_least` rebalances of a group within `window_ms`.

    `found` is the result of `rebalances`. A row per storm has `started_at`, `ended_at`,
    `rebalances`, and `causes` with their counts. Overlapping windows are one storm. It ends with
    the end of its last rebalance, if known. Raises `OptionError`.
    """
    check_storm(window_ms, at_least)

    def of_log(table: pa.Table) -> pa.Table:
        return storms_of_table(table, window_ms=window_ms, at_least=at_least)

    rows = found.select(*OF_STORMS).where("started_at is not null")
    return rows.groupBy("log_topic", "log_partition").applyInArrow(of_log, from_arrow_schema(STORMS))


def _rebalances(table: pa.Table) -> pa.Table:
    topic, partition, group_id = (table.column(name)[0].as_py() for name in (*LOG, "group"))
    at = {"log_topic": topic, "log_partition": partition, "group": group_id}
    return pa.Table.from_pylist(
        [at | row for row in rows_of_group(entries(rows_in_order(table)), group_id)], REBALANCES
    )

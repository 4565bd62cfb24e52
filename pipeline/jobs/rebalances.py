"""`rebalances`: each epoch and generation of groups, with cause, duration and moved partitions.

`storms`: many rebalances in a short time. Each group's records are replayed in one task by
`coordinator.history`; offset commits, which are most of a log, stay in the JVM.
"""

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.pandas.types import from_arrow_schema

from quorate.pipeline.jobs.at_source import of_groups
from quorate.pipeline.jobs.columns import known_timestamp
from quorate.pipeline.jobs.moments import LOG, AsOf
from quorate.pipeline.jobs.packed import packed
from quorate.pipeline.jobs.rebalance_rows import REBALANCES, check_storm, rows_of_group
from quorate.pipeline.jobs.records import entries, rows_in_order


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
    group = ["log_topic", "log_partition", "group"]
    known = found.where(F.col("started_at").isNotNull()).withColumn("ms", F.unix_millis("started_at"))
    back = Window.partitionBy(*group).orderBy("ms").rangeBetween(-window_ms, Window.currentRow)
    dense = known.withColumn("within", F.count("*").over(back)).withColumn("first_ms", F.min("ms").over(back))
    dense = dense.where(F.col("within") >= at_least)
    # Windows sorted by their ends are also sorted by their beginnings: a gap is where one begins
    # after the end of the previous one.
    order = Window.partitionBy(*group).orderBy("ms")
    gap = F.col("first_ms") > F.coalesce(F.lag("ms").over(order), F.lit(-(2**62)))
    storm = dense.withColumn("storm", F.sum(gap.cast("int")).over(order))
    spans = storm.groupBy(*group, "storm").agg(F.min("first_ms").alias("from_ms"), F.max("ms").alias("to_ms"))
    renamed = spans.withColumnsRenamed({name: f"storm_{name}" for name in group})
    of_storm = (
        F.col("log_topic").eqNullSafe(F.col("storm_log_topic"))
        & F.col("log_partition").eqNullSafe(F.col("storm_log_partition"))
        & (F.col("group") == F.col("storm_group"))
        & F.col("ms").between(F.col("from_ms"), F.col("to_ms"))
    )
    inside = known.join(F.broadcast(renamed), of_storm)
    return (
        inside.groupBy(*group, "storm")
        .agg(
            F.min("started_at").alias("started_at"),
            F.max(F.coalesce("completed_at", "superseded_at", "started_at")).alias("ended_at"),
            F.count("*").alias("rebalances"),
            F.sum("partitions_moved").alias("partitions_moved"),
            F.flatten(F.collect_list("causes")).alias("all_causes"),
        )
        .withColumn(
            "causes",
            F.map_from_entries(
                F.transform(
                    F.array_sort(F.array_distinct("all_causes")),
                    lambda cause: F.struct(cause, F.size(F.filter("all_causes", lambda one: one == cause))),
                )
            ),
        )
        .drop("storm", "all_causes")
    )


def _rebalances(table: pa.Table) -> pa.Table:
    topic, partition, group_id = (table.column(name)[0].as_py() for name in (*LOG, "group"))
    at = {"log_topic": topic, "log_partition": partition, "group": group_id}
    return pa.Table.from_pylist(
        [at | row for row in rows_of_group(entries(rows_in_order(table)), group_id)], REBALANCES
    )

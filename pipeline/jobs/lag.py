"""`lag`: how far each group is behind on each partition over time, how fast it reads, and when it will have caught up.

Commits say where a group was; end offsets of the partitions are not in `__consumer_offsets` and
come as snapshots. All of it is on the JVM's side.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who uses Spark calls it
from pyspark.sql.types import IntegralType

from quorate.codecs.log.state_records import COMMIT_TYPES
from quorate.pipeline.casts import fitting, refused
from quorate.pipeline.jobs.at_source import loaded
from quorate.pipeline.jobs.columns import (
    AsOf,
    key_columns,
    known_offset,
    moment_of,
    present_types,
    record_time,
    until,
)
from quorate.pipeline.jobs.survivors import has_markers, is_in_transaction, with_outcomes
from quorate.pipeline.schema import LATEST_MS, OptionError, column_of

__all__ = ["FIELDS", "commits", "lag", "snapshots"]

END_OFFSETS = ("topic", "partition", "timestamp", "end_offset")
PARTITION = ("group", "topic", "partition")
FIELDS = ("topic", "partition", "offset")
"""What is asked of a commit."""

MOST_TIMES = 20_000
"""Up to so many different times of snapshots are told to the source."""


def lag(
    df: DataFrame, end_offsets: DataFrame, *, as_of: AsOf | None = None, isolation_level: str | None = None
) -> DataFrame:
    """Lags of each group on each partition that it has committed, at each snapshot of the partition's end offset.

    `df`: rows of the source or of `decode`, of one cluster. `end_offsets`: `topic`, `partition`,
    `timestamp`, `end_offset` (what `kafka-get-offsets.sh` tells, with the time: a timestamp, text
    of one, or ms since 1970). `as_of`: as for `group_state`; a time also leaves out later
    snapshots. `isolation_level`: as for `group_state`; an offset of a transaction counts from its
    commit marker on. For what `load()` gave, a short Spark job asks for the times of the snapshots,
    so that the source can leave out what no snapshot sees.

    A row per group, topic, partition and `timestamp` of a snapshot, from the group's first commit
    on:

    * `committed_offset`, and `committed_at`, when it was written; `end_offset`; `lag` in records,
      at least 0, since a commit may be newer than what the snapshot saw;
    * `production_rate`, `consumption_rate`: records per second since the snapshot before; null for
      the first;
    * `drain_seconds`: how long until the lag is 0, if both rates stay; null if it will not be, 0 if
      it is.

    Rows are missing where the group's offset had been deleted or had expired. Raises `OptionError`
    for columns that are missing; text that is no time or number ends the job.
    """
    # What is there twice counts once: the later one, if it is not the same.
    ends = (
        snapshots(end_offsets).groupBy("topic", "partition", "timestamp").agg(F.max("end_offset").alias("end_offset"))
    )
    present_types(df, COMMIT_TYPES, FIELDS)
    source = loaded(df, "commits", as_of, lambda: _times(ends))
    if source is not None:
        df, isolation_level = source.rows, source.isolation_level(isolation_level)
    written = commits(until(df, as_of), isolation_level)
    if as_of is not None and not isinstance(as_of, Mapping):
        ends = ends.where(F.col("timestamp") <= F.lit(moment_of(as_of)))
    # Every snapshot of a partition is one of each group that reads it.
    asked = written.select(*PARTITION).distinct().join(ends, ["topic", "partition"])
    nothing = F.lit(None)
    both = written.select(
        *PARTITION,
        "timestamp",
        F.struct("log_offset", "committed_offset", F.col("timestamp").alias("committed_at")).alias("commit"),
        nothing.cast("long").alias("end_offset"),
    ).unionByName(
        asked.select(
            *PARTITION,
            "timestamp",
            nothing.cast("struct<log_offset:bigint,committed_offset:bigint,committed_at:timestamp>").alias("commit"),
            "end_offset",
        )
    )
    # What counts is the latest in the log, also where a transaction's marker came after another
    # commit; a commit in the moment of a snapshot counts.
    so_far = (
        Window.partitionBy(*PARTITION)
        .orderBy("timestamp", F.col("end_offset").asc_nulls_first())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    at_snapshots = (
        both.withColumn("commit", F.max("commit").over(so_far))
        .where("end_offset is not null and commit.committed_offset is not null")
        .select(*PARTITION, "timestamp", "commit.committed_offset", "commit.committed_at", "end_offset")
    )
    before = Window.partitionBy(*PARTITION).orderBy("timestamp")
    # From whole numbers: the difference of two seconds since 1970 as doubles is off in the seventh
    # digit.
    micros = F.unix_micros("timestamp")
    seconds = (micros - F.lag(micros).over(before)) / F.lit(1e6)

    def rate(name: str) -> Column:
        return (F.col(name) - F.lag(name).over(before)) / F.nullif(seconds, F.lit(0.0))

    behind = F.greatest(F.col("end_offset") - F.col("committed_offset"), F.lit(0))
    gain = F.col("consumption_rate") - F.col("production_rate")
    return (
        at_snapshots.withColumn("lag", behind)
        .withColumn("production_rate", rate("end_offset"))
        .withColumn("consumption_rate", rate("committed_offset"))
        .withColumn("drain_seconds", F.when(F.col("lag") == 0, F.lit(0.0)).when(gain > 0, F.col("lag") / gain))
    )


def _times(ends: DataFrame) -> tuple[int, ...]:
    """When there are snapshots, in ms; nothing if there are too many. This is a Spark job."""
    rows = (
        ends.select(F.floor(F.unix_micros("timestamp") / 1000).alias("ms")).distinct().limit(MOST_TIMES + 1).collect()
    )
    return tuple(sorted(row.ms for row in rows)) if len(rows) <= MOST_TIMES else ()


def snapshots(end_offsets: DataFrame) -> DataFrame:
    """The end offsets with the types that they need, without rows of which something is missing.

    Raises `OptionError` for columns that are missing.
    """
    if missing := [name for name in END_OFFSETS if name not in end_offsets.columns]:
        raise OptionError(f"the end offsets have no column {', '.join(missing)}: they need {', '.join(END_OFFSETS)}")
    at = F.col("timestamp")
    is_number = isinstance(end_offsets.schema["timestamp"].dataType, IntegralType)
    time = (
        F.when(at.between(0, LATEST_MS), F.timestamp_millis(at)).when(
            at.isNotNull(), refused(at, "end offsets: timestamp", "ms since 1970").cast("timestamp")
        )
        if is_number
        else fitting(at, "timestamp", "end offsets: timestamp", "a time such as 2026-11-21T08:00:00Z")
    )
    found = end_offsets.select(
        "topic",
        fitting(F.col("partition"), "int", "end offsets: partition", "a number").alias("partition"),
        time.alias("timestamp"),
        fitting(F.col("end_offset"), "bigint", "end offsets: end_offset", "a number").alias("end_offset"),
    )
    return found.where("end_offset is not null and timestamp is not null")


def commits(df: DataFrame, isolation_level: str | None = None) -> DataFrame:
    """Every commit that came to count: `group`, `topic`, `partition`, `log_offset`, `timestamp` (for one in a transaction, that of the marker), `committed_offset`.

    `committed_offset` is null where the offset was deleted. What was committed in a transaction
    that was aborted, or is still open, is left out.
    """
    types = present_types(df, COMMIT_TYPES, FIELDS)
    topic, partition = key_columns(types)
    value = F.coalesce(*[F.col(f"{column_of(one.name)}.offset") for one in types])
    columns: list[Column | str] = [
        "group", topic.alias("topic"), partition.alias("partition"), known_offset().alias("log_offset"), record_time(), value.alias("committed_offset"),
    ]  # fmt: skip
    offsets = df.where(F.col("type").isin(*COMMIT_TYPES) & F.col("group").isNotNull())
    if not has_markers(df, isolation_level):
        return offsets.select(*columns)
    settled = with_outcomes(df).where(F.col("outcome") == "COMMIT").withColumn("timestamp", F.col("settled_at"))
    return offsets.where(~is_in_transaction()).select(*columns).unionByName(settled.select(*columns))

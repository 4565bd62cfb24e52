"""`lag`: lags of groups over time, production and consumption rates, and time to catch up.

Committed offsets come from the log; end offsets of partitions are not in `__consumer_offsets`, and
are given as snapshots. All computation runs in the JVM.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.types import IntegralType

from quorate.codecs.log.state_records import COMMIT_TYPES
from quorate.pipeline.casts import failed, fitting, refused
from quorate.pipeline.jobs.at_source import loaded
from quorate.pipeline.jobs.columns import key_columns, known_offset, present_types, record_time, until
from quorate.pipeline.jobs.moments import AsOf, moment_of
from quorate.pipeline.jobs.record_columns import (
    COMMIT_FIELDS,
    MAX_TIMES,
    OWNED,
    TOO_LARGE,
    WHOLE_NUMBER,
    check_end_offsets,
)
from quorate.pipeline.jobs.survivors import has_markers, is_in_transaction, with_outcomes
from quorate.pipeline.schema import LATEST_MS, column_of


def lag(
    df: DataFrame, end_offsets: DataFrame, *, as_of: AsOf | None = None, isolation_level: str | None = None
) -> DataFrame:
    """Return the lag of each group on each committed partition, at each snapshot of end offsets.

    `df`: rows of the source or of `decode`, of one cluster. `end_offsets`: columns `topic`,
    `partition`, `timestamp` (a timestamp, text of one, or ms since 1970) and `end_offset`, as
    printed by `kafka-get-offsets.sh`. `as_of`: as for `group_state`; a time also omits later
    snapshots. `isolation_level`: as for `group_state`; a transactional offset counts from its
    commit marker on. For the result of `load()`, a short Spark job collects the times of the
    snapshots, so that the source can skip commits between them.

    The result has a row per group, topic, partition and `timestamp` of a snapshot, from the group's
    first commit on:

    * `committed_offset`, and `committed_at`, when it was written; `end_offset`; `lag` in records,
      at least 0, since a commit may be newer than the end offset of the snapshot;
    * `production_rate`, `consumption_rate`: records per second since the previous snapshot; null
      for the first;
    * `drain_seconds`: time until the lag is 0 at constant rates; null if the lag does not decrease,
      0 if it is 0.

    There are no rows for times when the group's offset was deleted or expired. Raises `OptionError`
    for missing columns; text that is not a time or number fails the job.
    """
    # Of several end offsets with the same time, use the highest.
    ends = (
        snapshots(end_offsets).groupBy("topic", "partition", "timestamp").agg(F.max("end_offset").alias("end_offset"))
    )
    present_types(df, COMMIT_TYPES, COMMIT_FIELDS)
    source = loaded(df, "commits", as_of, lambda: _times(ends))
    if source is not None:
        df, isolation_level = source.rows, source.isolation_level(isolation_level)
    written = commits(until(df, as_of), isolation_level)
    if as_of is not None and not isinstance(as_of, Mapping):
        ends = ends.where(F.col("timestamp") <= F.lit(moment_of(as_of)))
    # Each snapshot of a partition applies to all groups that committed it.
    expected = written.select(*OWNED).distinct().join(ends, ["topic", "partition"])
    nothing = F.lit(None)
    both = written.select(
        *OWNED,
        "timestamp",
        F.struct("log_offset", "committed_offset", F.col("timestamp").alias("committed_at")).alias("commit"),
        nothing.cast("long").alias("end_offset"),
    ).unionByName(
        expected.select(
            *OWNED,
            "timestamp",
            nothing.cast("struct<log_offset:bigint,committed_offset:bigint,committed_at:timestamp>").alias("commit"),
            "end_offset",
        )
    )
    # The commit with the highest offset in the log counts, even if the marker of its transaction
    # is later than another commit. A commit at the time of a snapshot counts.
    so_far = (
        Window.partitionBy(*OWNED)
        .orderBy("timestamp", F.col("end_offset").asc_nulls_first())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    at_snapshots = (
        both.withColumn("commit", F.max("commit").over(so_far))
        .where("end_offset is not null and commit.committed_offset is not null")
        .select(*OWNED, "timestamp", "commit.committed_offset", "commit.committed_at", "end_offset")
    )
    before = Window.partitionBy(*OWNED).orderBy("timestamp")
    # Subtract whole microseconds: as doubles, the difference would be imprecise.
    micros = F.unix_micros("timestamp")
    seconds = (micros - F.lag(micros).over(before)) / F.lit(1e6)

    def rate(name: str) -> Column:
        return (F.col(name) - F.lag(name).over(before)) / F.nullif(seconds, F.lit(0.0))

    missing = F.greatest(F.col("end_offset") - F.col("committed_offset"), F.lit(0))
    gain = F.col("consumption_rate") - F.col("production_rate")
    return (
        at_snapshots.withColumn("lag", missing)
        .withColumn("production_rate", rate("end_offset"))
        .withColumn("consumption_rate", rate("committed_offset"))
        .withColumn("drain_seconds", F.when(F.col("lag") == 0, F.lit(0.0)).when(gain > 0, F.col("lag") / gain))
    )


def _times(ends: DataFrame) -> tuple[int, ...]:
    """Collect the times of snapshots in ms with a Spark job; nothing if there are too many."""
    rows = ends.select(F.floor(F.unix_micros("timestamp") / 1000).alias("ms")).distinct().limit(MAX_TIMES + 1).collect()
    return tuple(sorted(row.ms for row in rows)) if len(rows) <= MAX_TIMES else ()


def snapshots(end_offsets: DataFrame) -> DataFrame:
    """Return the end offsets with the required types, without incomplete rows.

    Raises `OptionError` for missing columns.
    """
    check_end_offsets(end_offsets.columns)
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
        _number("partition", "int"),
        time.alias("timestamp"),
        _number("end_offset", "bigint"),
    )
    return found.where("end_offset is not null and timestamp is not null")


def _number(name: str, kind: str) -> Column:
    column, about = F.col(name), f"end offsets: {name}"
    too_large = column.try_cast(kind).isNull() & column.cast("string").rlike(f"^ *{WHOLE_NUMBER} *$")
    return (
        F.when(too_large, failed(column, about, TOO_LARGE[name]).cast(kind))
        .otherwise(fitting(column, kind, about, "a number"))
        .alias(name)
    )


def commits(df: DataFrame, isolation_level: str | None = None) -> DataFrame:
    """Return all effective offset commits.

    Columns: `group`, `topic`, `partition`, `log_offset`, `timestamp` (of the marker for a
    transaction) and `committed_offset` (null if the offset was deleted). Commits in aborted and
    open transactions are omitted.
    """
    types = present_types(df, COMMIT_TYPES, COMMIT_FIELDS)
    topic, partition = key_columns(types)
    value = F.coalesce(*[F.col(f"{column_of(one.name)}.offset") for one in types])
    columns: list[Column | str] = [
        "group",
        topic.alias("topic"),
        partition.alias("partition"),
        known_offset().alias("log_offset"),
        record_time(),
        value.alias("committed_offset"),
    ]
    offsets = df.where(F.col("type").isin(*COMMIT_TYPES) & F.col("group").isNotNull())
    if not has_markers(df, isolation_level):
        return offsets.select(*columns)
    settled = with_outcomes(df).where(F.col("outcome") == "COMMIT").withColumn("timestamp", F.col("settled_at"))
    return offsets.where(~is_in_transaction()).select(*columns).unionByName(settled.select(*columns))

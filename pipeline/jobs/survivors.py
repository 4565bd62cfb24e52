"""Find the rows that determine the state, in the JVM (rule: `quorate.codecs.log.state_records`).

A first pass over keys and offsets finds the rows with a hash aggregation. A second pass selects
them by a broadcast join with this small result. Aggregating whole rows with `max_by` needs only one
pass, but Spark sorts values of variable size: with 2 M rows of Parquet, two passes are 1.5 times as
fast; with 0.6 M rows, half as fast. Filtering in mapInArrow first is slower than either.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from quorate.codecs.log.state_records import COMMIT_TYPES, GROUP_TYPES
from quorate.codecs.message import RecordType
from quorate.pipeline.jobs.at_source import loaded
from quorate.pipeline.jobs.columns import (
    is_control,
    key_columns,
    known_offset,
    present_types,
    until,
    with_same_log,
)
from quorate.pipeline.jobs.moments import LOG, AsOf
from quorate.pipeline.jobs.packed import packed, packed_columns
from quorate.pipeline.jobs.record_columns import check_isolation_level
from quorate.pipeline.jobs.records import ABORTED, PACKED, PENDING_OF, TWO_RECORDS
from quorate.pipeline.schema import CONTROL, arrow_schema, column_of

_OURS = frozenset(arrow_schema().names)


def survivors(df: DataFrame, as_of: AsOf | None = None, isolation_level: str | None = None) -> DataFrame:
    """Return the rows of `df` whose replay gives the same state as replaying all rows.

    These are the last row of each key; the last offset commit of each group, which creates the
    group even if the offset is deleted later; and of each open transaction, the last row and the
    last tombstone of each key, as a tombstone removes the key from the transaction. The columns
    `PENDING_OF` and `ABORTED` are added. `isolation_level`: see `group_state`.
    """
    types = present_types(df)
    with_markers = has_markers(df, isolation_level)
    df = df.select(*[name for name in df.columns if name in _OURS])  # other columns could have the names of added ones
    found = _found(until(df, as_of), types, with_markers)
    picks = _picks(found.withColumnRenamed("offset", "place"), with_markers)
    at_offset = picks.select(*LOG, F.col("place").alias("offset"), PENDING_OF, ABORTED)
    return with_same_log(df, F.broadcast(at_offset.distinct()), "inner", ["offset"])


def packed_survivors(df: DataFrame, as_of: AsOf | None, isolation_level: str | None) -> DataFrame:
    """Return the same, packed for `rows_in_order`.

    For the unchanged result of `load()`, the source skips most rows, and one pass is enough.
    """
    types = present_types(df)
    source = loaded(df, "state", as_of)
    if source is None:
        return packed(survivors(df, as_of, isolation_level), PENDING_OF, ABORTED)
    with_markers = has_markers(source.rows, source.isolation_level(isolation_level))
    found = _found(until(source.rows, as_of), types, with_markers, F.struct(*packed_columns(df)).alias("row"))
    # Rows are compared by offset first. The smallest `rival` is also a row at the highest offset;
    # it differs from the greatest `place` if there are two rows at this offset.
    places = found.withColumn("place", F.struct("offset", "row")).withColumn(
        "rival", F.struct((-F.col("offset")).alias("offset"), F.col("row"))
    )
    picks = _picks(places, with_markers)
    return picks.select("place.row.*", PENDING_OF, ABORTED).distinct()


def _found(rows: DataFrame, types: list[RecordType], with_markers: bool, *also: Column) -> DataFrame:
    """Return log, offset and key of each row, and the outcome of its transaction."""
    text, number = key_columns(types)
    keys: list[Column | str] = [
        *LOG,
        known_offset().alias("offset"),
        "type",
        "group",
        "tombstone",
        text.alias("key_text"),
        number.alias("key_number"),
        *also,
    ]
    decoded = F.col("group").isNotNull()
    not_pending, not_aborted = F.lit(None).cast("long").alias(PENDING_OF), F.lit(False).alias(ABORTED)
    if not with_markers:
        return rows.where(decoded).select(*keys, not_pending, not_aborted)
    return (
        rows.where(decoded & ~is_in_transaction())
        .select(*keys, not_pending, not_aborted)
        .unionByName(
            with_outcomes(rows).select(
                *keys,
                F.when(F.col("outcome").isNull(), F.col("producer_id")).alias(PENDING_OF),
                F.col("outcome").eqNullSafe("ABORT").alias(ABORTED),
            )
        )
    )


def _picks(found: DataFrame, with_markers: bool) -> DataFrame:
    """Return the `place` of each selected row, with its log, `PENDING_OF` and `ABORTED`.

    Rows are compared by their place: the offset, or a struct that begins with it.
    """
    commit = F.col("type").isin(*COMMIT_TYPES) & ~F.col("tombstone")

    def last(condition: Column) -> Column:
        return F.max(F.when(condition, F.col("place")))

    whole = "rival" in found.columns
    per_key = found.groupBy(*LOG, "group", "type", "key_text", "key_number", PENDING_OF).agg(
        last(~F.col(ABORTED)).alias("last"),
        last(F.col("tombstone")).alias("deleted"),
        last(commit & ~F.col(ABORTED)).alias("made"),
        last(commit & F.col(ABORTED)).alias("made_aborted"),
        *([F.min(F.when(~F.col(ABORTED), F.col("rival"))).alias("rival")] if whole else []),
    )
    if whole:
        per_key = per_key.withColumn("last", _only_one())
    # From here on the data is small. One commit creates a group, unless the group is deleted later.
    not_pending = F.lit(None).cast("long").alias(PENDING_OF)
    not_aborted, is_aborted = F.lit(False).alias(ABORTED), F.lit(True).alias(ABORTED)
    picked = [F.struct(F.col("last").alias("place"), PENDING_OF, not_aborted)]
    if with_markers:
        picked.append(F.struct(F.col("deleted").alias("place"), not_pending, not_aborted))
    aborted_place = F.col("made_aborted").alias("place")
    made = F.greatest(
        F.when(F.col("made").isNotNull(), F.struct(F.col("made").alias("place"), PENDING_OF, not_aborted)),
        F.when(F.col("made_aborted").isNotNull(), F.struct(aborted_place, not_pending, is_aborted)),
    )
    per_group = per_key.groupBy(*LOG, "group").agg(
        F.flatten(F.collect_list(F.array(*picked))).alias("picks"),
        F.max(made).alias("made"),
        F.max(F.when(F.col("type").isin(*GROUP_TYPES), F.col("deleted"))).alias("removed"),
    )
    makes = F.col("removed").isNull() | (F.col("made.place") > F.col("removed"))
    chosen = F.concat("picks", F.when(F.col("made").isNotNull() & makes, F.array("made")).otherwise(F.array()))
    return (
        per_group.select(*LOG, F.explode(chosen).alias("pick")).where("pick.place is not null").select(*LOG, "pick.*")
    )


def _only_one() -> Column:
    """Return the `last` row of a key; two different rows at one offset fail the job."""
    last, rival = F.col("last"), F.col("rival")
    place = F.concat(F.concat_ws("-", *LOG), F.lit(", offset "), last["offset"])
    same = last.isNull() | last["row"][PACKED].eqNullSafe(rival["row"][PACKED])
    return F.when(same, last).otherwise(F.raise_error(F.concat(place, F.lit(f": {TWO_RECORDS}"))))


def has_markers(df: DataFrame, isolation_level: str | None) -> bool:
    """Return whether transaction markers decide on transactional commits.

    `None` looks for a marker with a Spark job. Raises `OptionError`.
    """
    has_control = column_of(CONTROL) in df.columns
    check_isolation_level(isolation_level, has_control)
    if isolation_level is None and has_control:
        return not df.where(is_control()).select("offset").isEmpty()
    return isolation_level == "read_uncommitted"


def is_in_transaction() -> Column:
    """Return the condition that a row is a transactional offset commit.

    A tombstone applies at once even in a transaction, as in Kafka's loader.
    """
    transactional = F.coalesce(F.col("transactional"), F.lit(False)) & (F.col("producer_id") >= 0)
    return F.coalesce(F.col("type").isin(*COMMIT_TYPES) & ~F.col("tombstone") & transactional, F.lit(False))


def with_outcomes(rows: DataFrame) -> DataFrame:
    """Return the transactional offset commits with the outcome of their transactions.

    `outcome` is `COMMIT`, `ABORT`, or null for an open transaction; `settled_at` is the time of the
    marker. The rule is that of `quorate.codecs.log.transactions`.
    """
    marker = F.when(is_control() & F.col("control.name").isin("COMMIT", "ABORT"), F.struct("control.name", "timestamp"))
    # In descending order, so that the window only extends; ascending, Spark would scan the
    # following rows of every row.
    later = (
        Window.partitionBy(*LOG, "producer_id")
        .orderBy(F.col("offset").desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    ended = rows.where((is_in_transaction() & F.col("group").isNotNull()) | is_control()).withColumn(
        "marker", F.last(marker, ignorenulls=True).over(later)
    )
    return (
        ended.where(~is_control())
        .withColumn("outcome", F.col("marker.name"))
        .withColumn("settled_at", F.col("marker.timestamp"))
        .drop("marker")
    )

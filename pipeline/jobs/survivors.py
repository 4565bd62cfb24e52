"""The rows that decide the state (`quorate.codecs.log.state_records` has the rule), found by Spark.

All on the JVM's side. A first look at the keys and offsets alone finds the rows (a hash
aggregation), a second one takes them out of the whole (a join with what was found, which is small
and sent to every executor). Aggregating whole rows with `max_by` would do with one look, but sorts
them all, because Spark does not hash what has no fixed size: with 2 M rows of Parquet this way is
1.5 times as fast, with 0.6 M it is half as fast. Leaving most rows out in mapInArrow first is
slower than either.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody who uses Spark calls it

from quorate.codecs.log.state_records import COMMIT_TYPES, GROUP_TYPES
from quorate.codecs.message import RecordType
from quorate.pipeline.jobs.at_source import loaded
from quorate.pipeline.jobs.columns import (
    LOG,
    AsOf,
    is_control,
    key_columns,
    known_offset,
    present_types,
    until,
    with_same_log,
)
from quorate.pipeline.jobs.records import PACKED, TWO_RECORDS, packed, packed_columns
from quorate.pipeline.schema import CONTROL, OptionError, arrow_schema, column_of

__all__ = [
    "ABORTED",
    "PENDING_OF",
    "has_markers",
    "is_in_transaction",
    "packed_survivors",
    "survivors",
    "with_outcomes",
]

PENDING_OF = "pending_of"
"""The column with the producer whose transaction was still open, null for all other rows."""

ABORTED = "aborted"
"""The column that says that an offset was committed in a transaction that was aborted: all that is
left of it is a group.
"""


_OURS = frozenset(arrow_schema().names)


def survivors(df: DataFrame, as_of: AsOf | None = None, isolation_level: str | None = None) -> DataFrame:
    """Rows of `df` whose replay in the order of offsets gives the state that all rows give, with two columns more (`PENDING_OF`, `ABORTED`).

    Besides the last row of each key: of each group the last commit of any offset, which makes a
    group even if the offset is deleted later; of each open transaction the last row of each key,
    and that key's last tombstone, which makes the transaction forget it. `isolation_level`: see
    `group_state`.
    """
    types = present_types(df)
    with_markers = has_markers(df, isolation_level)
    df = df.select(*[name for name in df.columns if name in _OURS])  # others may be called like what is added here
    found = _found(until(df, as_of), types, with_markers)
    picks = _picks(found.withColumnRenamed("offset", "place"), with_markers)
    at_offset = picks.select(*LOG, F.col("place").alias("offset"), PENDING_OF, ABORTED)
    return with_same_log(df, F.broadcast(at_offset.distinct()), "inner", ["offset"])


def packed_survivors(df: DataFrame, as_of: AsOf | None = None, isolation_level: str | None = None) -> DataFrame:
    """The same, packed for `rows_in_order`.

    Of what `load()` gave, the source leaves most out, and the rest is looked at once.
    """
    types = present_types(df)
    source = loaded(df, "state", as_of)
    if source is None:
        return packed(survivors(df, as_of, isolation_level), PENDING_OF, ABORTED)
    with_markers = has_markers(source.rows, source.isolation_level(isolation_level))
    found = _found(until(source.rows, as_of), types, with_markers, F.struct(*packed_columns(df)).alias("row"))
    # Where rows are compared, the offset counts; the least of `rival` is a row at the greatest
    # offset, too, and another one if there are two.
    places = found.withColumn("place", F.struct("offset", "row")).withColumn(
        "rival", F.struct((-F.col("offset")).alias("offset"), F.col("row"))
    )
    picks = _picks(places, with_markers)
    return picks.select("place.row.*", PENDING_OF, ABORTED).distinct()


def _found(rows: DataFrame, types: list[RecordType], with_markers: bool, *also: Column) -> DataFrame:
    """What decides on each row: the log, the offset, the key, and how its transaction ended."""
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
    nobody, counts = F.lit(None).cast("long").alias(PENDING_OF), F.lit(False).alias(ABORTED)
    if not with_markers:
        return rows.where(decoded).select(*keys, nobody, counts)
    return (
        rows.where(decoded & ~is_in_transaction())
        .select(*keys, nobody, counts)
        .unionByName(
            with_outcomes(rows).select(
                *keys,
                F.when(F.col("outcome").isNull(), F.col("producer_id")).alias(PENDING_OF),
                F.col("outcome").eqNullSafe("ABORT").alias(ABORTED),
            )
        )
    )


def _picks(found: DataFrame, with_markers: bool) -> DataFrame:
    """The `place` of each row that decides, with its log, `PENDING_OF` and `ABORTED`.

    A place is what rows are compared by: the offset, or a struct that begins with it.
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
    # What is left is small. One commit of each group is enough to make it, unless the group went
    # later.
    nobody = F.lit(None).cast("long").alias(PENDING_OF)
    counts, is_aborted = F.lit(False).alias(ABORTED), F.lit(True).alias(ABORTED)
    picked = [F.struct(F.col("last").alias("place"), PENDING_OF, counts)]
    if with_markers:
        picked.append(F.struct(F.col("deleted").alias("place"), nobody, counts))
    made = F.greatest(
        F.when(F.col("made").isNotNull(), F.struct(F.col("made").alias("place"), PENDING_OF, counts)),
        F.when(F.col("made_aborted").isNotNull(), F.struct(F.col("made_aborted").alias("place"), nobody, is_aborted)),
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
    """The `last` row of a key; two different ones at one offset end the job, as they do where `rows_in_order` sees both."""
    last, rival = F.col("last"), F.col("rival")
    place = F.concat(F.concat_ws("-", *LOG), F.lit(", offset "), last["offset"])
    same = last.isNull() | last["row"][PACKED].eqNullSafe(rival["row"][PACKED])
    return F.when(same, last).otherwise(F.raise_error(F.concat(place, F.lit(f": {TWO_RECORDS}"))))


def has_markers(df: DataFrame, isolation_level: str | None) -> bool:
    """Whether transaction markers settle what was committed in transactions.

    `None` looks for one, which is a Spark job. Raises `OptionError`.
    """
    if isolation_level not in (None, "read_committed", "read_uncommitted"):
        raise OptionError(
            f"isolation_level is {isolation_level!r}: use read_committed or read_uncommitted, or leave it out"
        )
    there = column_of(CONTROL) in df.columns
    if isolation_level == "read_uncommitted" and not there:
        raise OptionError(
            f"read_uncommitted needs the rows of transaction markers: read with isolation.level=read_uncommitted, and {CONTROL} among `types`"
        )
    if isolation_level is None and there:
        return not df.where(is_control()).select("offset").isEmpty()
    return isolation_level == "read_uncommitted"


def is_in_transaction() -> Column:
    """Whether a row is an offset that was committed in a transaction.

    A tombstone counts at once even then, as in Kafka's loader.
    """
    transactional = F.coalesce(F.col("transactional"), F.lit(False)) & (F.col("producer_id") >= 0)
    return F.coalesce(F.col("type").isin(*COMMIT_TYPES) & ~F.col("tombstone") & transactional, F.lit(False))


def with_outcomes(rows: DataFrame) -> DataFrame:
    """As `quorate.codecs.log.transactions` settles them, in the JVM: the offsets of transactions with `outcome` (`COMMIT`, `ABORT`, null for a transaction that is open), and `settled_at`, the time of the marker."""
    marker = F.when(is_control() & F.col("control.name").isin("COMMIT", "ABORT"), F.struct("control.name", "timestamp"))
    # From the end: the next marker of the producer. The other way round, Spark would look at every
    # row's followers anew.
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

"""Columns of decoded records that jobs use; the source's `types` option may omit record types."""

from collections.abc import Collection, Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.types import DataType, StructType

from quorate.codecs.log.state_records import COMMIT_TYPES
from quorate.codecs.message import CONSUMER_OFFSETS, RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.pipeline.casts import time_or_null
from quorate.pipeline.jobs.moments import LOG, NO_ORDER, NO_TIME, AsOf, last_offsets, moment_of
from quorate.pipeline.jobs.record_columns import key_fields, present_in
from quorate.pipeline.options import FORMAT
from quorate.pipeline.schema import CONTROL, OptionError, column_of

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def check_uses(df: DataFrame) -> None:
    """Raise `OptionError` for a DataFrame of the source with Spark's filter pushdown enabled.

    Spark applies filters that it pushed to a Python source to all later uses of the same `load()`
    (seen in 4.2.1 and 4.3.0), and jobs use their rows more than once. Cached rows, and rows from
    files of Spark's own formats, are safe.
    """
    # A new plan, which includes what is cached by now; Spark Connect has none.
    plan = getattr(df.select("*"), "_jdf", None)
    if plan is None or df.sparkSession.conf.get(PUSHDOWN, "false") != "true":
        return
    if any(
        "RelationV2[" in line and line.endswith(f"] {FORMAT}")
        for line in plan.queryExecution().withCachedData().toString().splitlines()
    ):
        raise OptionError(
            f"with {PUSHDOWN} Spark applies the filters of one use of a DataFrame to all others: "
            "set it to false before load(), or use cache()"
        )


def present_types(
    df: DataFrame, wanted: Collection[str] | None = None, fields: Collection[str] | None = None
) -> list[RecordType]:
    """Return the record types that a DataFrame has columns for, of those in `wanted`.

    `fields` are the required fields of a record type, by default all. Raises `OptionError` if
    common columns, all of `wanted`, or required fields are missing.
    """
    check_uses(df)
    return present_in(df.columns, lambda name: _fields(df.schema[name].dataType), wanted, fields)


def _fields(kind: DataType) -> list[str]:
    return kind.names if isinstance(kind, StructType) else []


def key_columns(types: Iterable[RecordType]) -> tuple[Column, Column]:
    """Return the key fields except the group: a text (topic, member id or regex) and a partition.

    Each is null for record types that lack it.
    """
    texts, numbers = ([F.col(f"{column}.{field}") for column, field in found] for found in key_fields(types))
    text = F.coalesce(*texts) if texts else F.lit(None).cast("string")
    return text, F.coalesce(*numbers).cast("int") if numbers else F.lit(None).cast("int")


def known_offset() -> Column:
    """Return the offset of a record; a row without one fails the job."""
    return F.coalesce("offset", F.raise_error(F.lit(NO_ORDER)).cast("long"))


def known_timestamp() -> Column:
    """Return the timestamp of a record; a row without one fails the job."""
    return F.coalesce(record_time(), F.raise_error(F.lit(NO_TIME)).cast("timestamp"))


def record_time() -> Column:
    """Return the timestamp of a record, null if it is invalid.

    Times without a zone are in the time zone of the session.
    """
    return time_or_null(F.col("timestamp").cast("timestamp")).alias("timestamp")


def with_same_log(left: DataFrame, right: DataFrame, how: str, also: Iterable[str] = ()) -> DataFrame:
    """Join on the log (nulls are equal) and on the columns `also`; keep these of the left side."""
    names = [*LOG, *also]
    renamed = right.withColumnsRenamed({name: f"{name}_right" for name in names})
    same = F.lit(True)
    for name in LOG:
        same = same & F.col(name).eqNullSafe(F.col(f"{name}_right"))
    for name in also:
        same = same & (F.col(name) == F.col(f"{name}_right"))
    return left.join(renamed, same, how).drop(*[f"{name}_right" for name in names])


def until(df: DataFrame, as_of: AsOf | None) -> DataFrame:
    """Return the rows up to a moment.

    A time ends each log before its first later record, so that the rest is a state that existed.
    With offsets, partitions that are not named are omitted. Raises `OptionError` for an invalid
    moment.
    """
    if as_of is None:
        return df
    if isinstance(as_of, Mapping):
        return _until_offsets(df, as_of)
    moment = moment_of(as_of)
    later = df.where(record_time() > F.lit(moment)).groupBy(*LOG).agg(F.min("offset").alias("first_later"))
    with_ends = with_same_log(df, F.broadcast(later), "left")
    return with_ends.where(F.col("first_later").isNull() | (F.col("offset") < F.col("first_later"))).drop("first_later")


def is_control() -> Column:
    """Return the condition that a row is a transaction marker."""
    return F.col("type") == CONTROL


def membership(df: DataFrame) -> DataFrame:
    """Return the rows of groups except committed offsets.

    Raises `OptionError` if there are no columns for these.
    """
    types = [one.name for one in RECORD_TYPES[CONSUMER_OFFSETS].values() if one.name not in COMMIT_TYPES]
    present = [one.name for one in present_types(df, types)]
    offsets = [column_of(name) for name in COMMIT_TYPES]
    return df.where(F.col("type").isin(*present) & F.col("group").isNotNull()).drop(*offsets, column_of(CONTROL))


def _until_offsets(df: DataFrame, as_of: Mapping[int, int] | Mapping[tuple[str, int], int]) -> DataFrame:
    """Return the rows up to the given offset of each partition."""
    ends = last_offsets(as_of)
    columns = ["last_topic string"] * (len(ends[0]) - 2) + ["last_partition int", "last_offset long"]
    last = df.sparkSession.createDataFrame(ends, ", ".join(columns))
    same = (F.col("partition") == F.col("last_partition")) & (F.col("offset") <= F.col("last_offset"))
    if "last_topic" in last.columns:
        same = same & (F.col("topic") == F.col("last_topic"))
    return df.join(F.broadcast(last), same, "left_semi")

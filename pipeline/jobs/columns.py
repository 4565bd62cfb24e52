"""Columns that jobs ask about, as far as a DataFrame has them: `types` of the source may have left record types out."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who uses Spark calls it
from pyspark.sql.types import StructType

from quorate.codecs.log.state_records import COMMIT_TYPES
from quorate.codecs.message import CONSUMER_OFFSETS, RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.wire import StringType
from quorate.pipeline.casts import time_or_null
from quorate.pipeline.schema import CONTROL, GROUP_FIELDS, OptionError, column_of, struct_of

__all__ = [
    "LOG",
    "NO_ORDER",
    "AsOf",
    "is_control",
    "key_columns",
    "known_offset",
    "known_timestamp",
    "last_offsets",
    "membership",
    "moment_of",
    "present_types",
    "record_time",
    "until",
    "with_same_log",
]

FORMAT = "consumer-offsets"
"""The name of the source."""

LOG = ("topic", "partition")
"""Which log a record is of."""

NEEDED = ("topic", "partition", "offset", "timestamp", "producer_id", "transactional", "type", "value_version", "group", "tombstone")  # fmt: skip
"""The common columns that jobs ask about."""

NO_TIME = "records without a timestamp do not say which of them were written together: give a DataFrame with the column `timestamp` filled"
NO_ORDER = "records without an offset have no order: give a DataFrame with the column `offset` filled"

AsOf = datetime | int | Mapping[int, int] | Mapping[tuple[str, int], int]
"""A moment: a time (without a zone it is UTC) or ms since 1970, or the offset of the last record
that counts by partition, or by topic and partition.
"""


PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def check_uses(df: DataFrame) -> None:
    """Refuse what Spark would read wrongly: it keeps filters that it pushed to a Python source for all later uses of the same `load()` (seen in 4.2.1 and 4.3.0).

    Jobs look at their rows more than once. Rows that are cached, or from files of Spark's own
    formats, are safe. Raises `OptionError`.
    """
    plan = getattr(
        df.select("*"), "_jdf", None
    )  # another plan, which knows what is cached by now; Spark Connect tells none
    if plan is None or df.sparkSession.conf.get(PUSHDOWN, "false") != "true":
        return
    if any(
        "RelationV2[" in line and line.endswith(f"] {FORMAT}")
        for line in plan.queryExecution().withCachedData().toString().splitlines()
    ):
        raise OptionError(
            f"with {PUSHDOWN} Spark uses the filters of one use of a DataFrame for all others: set it to false before load(), or give what cache() returns"
        )


def present_types(
    df: DataFrame, wanted: Collection[str] | None = None, fields: Collection[str] | None = None
) -> list[RecordType]:
    """The record types that a DataFrame has columns for.

    Raises `OptionError` for one that lacks common columns, all of `wanted`, or fields of those that
    it has.

    `fields`: those that matter, where not all do.
    """
    check_uses(df)
    if missing := [name for name in NEEDED if name not in df.columns]:
        raise OptionError(
            f"the DataFrame has no column {', '.join(missing)}: give one of spark.read.format('consumer-offsets') or of decode(), "
            "and if that has the option `columns`, name them there"
        )
    found = [
        one
        for one in RECORD_TYPES[CONSUMER_OFFSETS].values()
        if column_of(one.name) in df.columns and (wanted is None or one.name in wanted)
    ]
    if not found:
        names = ", ".join(wanted) if wanted is not None else "any record type"
        raise OptionError(f"the DataFrame has no columns of {names}: read it without the option `types`, or with these")
    for one in found:
        column, kind = column_of(one.name), df.schema[column_of(one.name)].dataType
        there = kind.names if isinstance(kind, StructType) else []
        needed = [field.name for field in struct_of(one) if fields is None or field.name in fields]
        if lacking := [name for name in needed if name not in there]:
            raise OptionError(
                f"the column {column} has no {', '.join(lacking)}: read it without the option `columns`, or with {column} as a whole"
            )
    return found


def key_columns(types: Iterable[RecordType]) -> tuple[Column, Column]:
    """What a record's key has besides the group: a text (topic, member id or expression) and a number (partition), null where there is none."""
    texts: list[Column] = []
    numbers: list[Column] = []
    for one in types:
        for field in one.key.fields:
            if field.name not in GROUP_FIELDS:
                where = texts if isinstance(field.type, StringType) else numbers
                where.append(F.col(f"{column_of(one.name)}.{field.name}"))
    text = F.coalesce(*texts) if texts else F.lit(None).cast("string")
    return text, F.coalesce(*numbers).cast("int") if numbers else F.lit(None).cast("int")


def known_offset() -> Column:
    """The offset of a record; a row without one fails the job, rather than being left out of it."""
    return F.coalesce("offset", F.raise_error(F.lit(NO_ORDER)).cast("long"))


def known_timestamp() -> Column:
    """When a record was written; a row that does not say fails the job, rather than being taken for one write with all others."""
    return F.coalesce(record_time(), F.raise_error(F.lit(NO_TIME)).cast("timestamp"))


def record_time() -> Column:
    """When a record was written.

    Rows of others may have times that the source has not, which are none, and times without a zone,
    which are of the session's.
    """
    return time_or_null(F.col("timestamp").cast("timestamp")).alias("timestamp")


def with_same_log(left: DataFrame, right: DataFrame, how: str, also: Iterable[str] = ()) -> DataFrame:
    """Join on the log, null being equal to null, and on columns that are equal in both; each of these is there once, as it is on the left."""
    names = [*LOG, *also]
    there = right.withColumnsRenamed({name: f"{name}_there" for name in names})
    same = F.lit(True)
    for name in LOG:
        same = same & F.col(name).eqNullSafe(F.col(f"{name}_there"))
    for name in also:
        same = same & (F.col(name) == F.col(f"{name}_there"))
    return left.join(there, same, how).drop(*[f"{name}_there" for name in names])


def until(df: DataFrame, as_of: AsOf | None) -> DataFrame:
    """The rows up to a moment.

    A time ends each log before its first record that is later, so that what is left is a state that
    there was.

    By offsets, a partition that is not named is left out. Raises `OptionError` for what is not a
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


def moment_of(as_of: object) -> datetime:
    """A time with its zone. Raises `OptionError` for what is none."""
    if isinstance(as_of, datetime):
        return as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    if isinstance(as_of, int) and not isinstance(as_of, bool):
        try:
            return datetime.fromtimestamp(as_of / 1000, UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise OptionError(f"as_of is {as_of}: that is no time in ms since 1970") from error
    raise OptionError(f"as_of is {as_of!r}: give a datetime, ms since 1970, or a mapping of partitions to offsets")


def is_control() -> Column:
    """Whether a row is a transaction marker."""
    return F.col("type") == CONTROL


def membership(df: DataFrame) -> DataFrame:
    """The rows that tell of groups other than by offsets.

    Raises `OptionError` if there are no columns of any.
    """
    types = [one.name for one in RECORD_TYPES[CONSUMER_OFFSETS].values() if one.name not in COMMIT_TYPES]
    present = [one.name for one in present_types(df, types)]
    offsets = [column_of(name) for name in COMMIT_TYPES]
    return df.where(F.col("type").isin(*present) & F.col("group").isNotNull()).drop(*offsets, column_of(CONTROL))


def _until_offsets(df: DataFrame, as_of: Mapping[int, int] | Mapping[tuple[str, int], int]) -> DataFrame:
    """The rows up to the last one that counts of each partition."""
    ends = last_offsets(as_of)
    columns = ["last_topic string"] * (len(ends[0]) - 2) + ["last_partition int", "last_offset long"]
    last = df.sparkSession.createDataFrame(ends, ", ".join(columns))
    same = (F.col("partition") == F.col("last_partition")) & (F.col("offset") <= F.col("last_offset"))
    if "last_topic" in last.columns:
        same = same & (F.col("topic") == F.col("last_topic"))
    return df.join(F.broadcast(last), same, "left_semi")


def last_offsets(as_of: Mapping[Any, Any]) -> list[tuple[Any, ...]]:
    """Topic (if it is named), partition and offset. Raises `OptionError` for what are none."""
    ends: list[tuple[Any, ...]] = []
    for at, offset in as_of.items():
        match at, offset:
            case (bool(), _) | ((_, bool()), _) | (_, bool()):
                pass
            case int(), int():
                ends.append((at, offset))
                continue
            case (str(topic), int(partition)), int():
                ends.append((topic, partition, offset))
                continue
        raise OptionError(
            f"as_of has {at!r}: {offset!r}, which is not the offset of a partition: give {{17: 4711}} or {{('__consumer_offsets', 17): 4711}}"
        )
    if len({len(one) for one in ends}) != 1:
        raise OptionError("as_of needs partitions, either all as numbers or all with their topic")
    return ends

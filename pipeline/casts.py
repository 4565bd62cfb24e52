"""Cast columns of input DataFrames; values that do not fit fail the job, invalid times are null."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from quorate.pipeline.schema import LATEST_MS


def fitting(column: Column, kind: str, about: str, wanted: str) -> Column:
    """Cast a column; values that do not fit fail the job, also with `spark.sql.ansi.enabled=false`.

    `about` is the beginning of the error message, `wanted` the name of the type in it.
    """
    found = column.try_cast(kind)
    return F.when(found.isNotNull() | column.isNull(), found).otherwise(refused(column, about, wanted).cast(kind))


def refused(column: Column, about: str, wanted: str) -> Column:
    # plain: a Spark expression
    """Return an expression that fails the job with the value in the error message."""
    return failed(column, about, f"not {wanted}")


def failed(column: Column, about: str, reason: str) -> Column:
    # plain: a Spark expression
    """Return an expression that fails the job with the value and the reason."""
    return F.raise_error(F.concat(F.lit(f"{about} is '"), column.cast("string"), F.lit(f"', which is {reason}")))


def time_or_null(time: Column) -> Column:
    """Replace times before 1970 and after `LATEST_MS` by null.

    Spark's Kafka source uses a time before 1970 for a missing one; Python's `datetime` ends with
    the year 9999.
    """
    return F.when(F.unix_micros(time).between(0, LATEST_MS * 1000 + 999), time)

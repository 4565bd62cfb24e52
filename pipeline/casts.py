"""Columns of others in the types that ours have: what does not fit ends the job by name, and a time that is none is null.

Nothing is known here of what columns are for.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # as everybody who uses Spark calls it

from quorate.pipeline.schema import LATEST_MS

__all__ = ["fitting", "refused", "time_or_null"]


def fitting(column: Column, kind: str, about: str, wanted: str) -> Column:
    """A column with another type.

    What does not fit in it ends the job, also where Spark would cut it to size
    (`spark.sql.ansi.enabled=false`).

    `about`: how the error begins; `wanted`: what it calls the type.
    """
    found = column.try_cast(kind)
    return F.when(found.isNotNull() | column.isNull(), found).otherwise(refused(column, about, wanted).cast(kind))


def refused(column: Column, about: str, wanted: str) -> Column:
    """An expression that ends the job and says what it saw."""
    return F.raise_error(F.concat(F.lit(f"{about} is '"), column.cast("string"), F.lit(f"', which is not {wanted}")))


def time_or_null(time: Column) -> Column:
    """A time; null for one before 1970, which Spark's Kafka source has for none, and for one later than `LATEST_MS`, which Python has not."""
    return F.when(F.unix_micros(time).between(0, LATEST_MS * 1000 + 999), time)

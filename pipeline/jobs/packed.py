"""Pack rows for Python: a single column has the struct of the row's record type as JSON.

Spark computes the size of each column of a row, which takes 300 µs for the structs of all types.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias

from quorate.pipeline.jobs.columns import record_time
from quorate.pipeline.jobs.records import COMMON, PACKED, TYPES
from quorate.pipeline.schema import column_of


def packed(df: DataFrame, *also: Column | str) -> DataFrame:
    """Pack rows for `rows_in_order`, with the columns `also`.

    Rows of transaction markers and of undecodable records have no packed fields.
    """
    return df.select(*packed_columns(df), *also)


def packed_columns(df: DataFrame) -> list[Column | str]:
    """Return the columns of packed rows."""
    structs = [column_of(name) for name in TYPES if column_of(name) in df.columns]
    return [*COMMON, record_time(), F.coalesce(*[F.to_json(F.col(name)) for name in structs]).alias(PACKED)]

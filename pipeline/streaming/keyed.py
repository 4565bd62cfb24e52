"""Pass rows to a stateful processor by group or partition, and its results back to Spark.

Stateful processors in Python take pandas frames, which have no nested values and no nullable
integers. So rows are packed, and results are JSON text, which Spark converts to columns.
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from quorate.codecs.message import RecordType
from quorate.pipeline.jobs.columns import is_control, key_columns, record_time
from quorate.pipeline.jobs.moments import LOG
from quorate.pipeline.jobs.packed import packed
from quorate.pipeline.schema import OptionError
from quorate.pipeline.streaming.group_rows import Packed
from quorate.pipeline.workers import settle

Frames = Iterator[Any]
"""Pandas frames."""

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_EPOCH = datetime.fromtimestamp(0, UTC)


def keyed_rows(df: DataFrame, types: Iterable[RecordType]) -> DataFrame:
    """Return the rows of groups, packed: the log, `group`, and the fields of `Packed`.

    The query fails at a transaction marker: streams must contain committed rows only.
    """
    found = list(types)
    text, number = key_columns(found)
    marker = F.raise_error(
        F.lit("the stream contains transaction markers: read with isolation.level=read_committed, the default")
    )
    no_offset = F.raise_error(F.lit("records without an offset have no order: the stream needs the column `offset`"))
    rows = df.where(
        F.when(is_control(), marker.cast("boolean"))
        .when(F.col("offset").isNull() & F.col("group").isNotNull(), no_offset.cast("boolean"))
        .otherwise(F.col("group").isNotNull() & F.col("type").isin(*[one.name for one in found]))
    )
    also: list[Column | str] = [
        F.coalesce(text, F.lit("")).alias("text"),
        F.coalesce(number, F.lit(-1)).alias("number"),
    ]
    return packed(rows, *also).select(
        *LOG,
        "group",
        "type",
        "text",
        "number",
        "offset",
        F.coalesce(F.unix_millis(record_time()), F.lit(-1)).alias("ms"),
        F.coalesce(F.col("value_version").cast("int"), F.lit(-1)).alias("version"),
        F.coalesce("tombstone", F.lit(False)).alias("tombstone"),
        "packed",
    )


class Processor(StatefulProcessor):
    """A stateful processor that returns rows of `schema`, with times in µs."""

    schema: ClassVar[pa.Schema]

    @abstractmethod
    def take(self, key: tuple[Any, ...], frames: Frames) -> Iterable[dict[str, Any]]:
        """Return the rows for the frames of one micro-batch."""

    def handleInputRows(  # noqa: N802  # Spark's name
        self,
        key: Any,
        rows: Frames,
        timerValues: Any,  # noqa: N803  # Spark's name
    ) -> Frames:
        """Process one micro-batch; called by Spark."""
        import pandas as pd  # type: ignore[import-untyped]

        found = [json.dumps(readable(row, self.schema)) for row in self.take(tuple(map(_plain, key)), rows)]
        if found:
            yield pd.DataFrame({"row": found})
        settle()

    def close(self) -> None:
        """Do nothing; called by Spark."""


def changes(rows: DataFrame, keys: Iterable[str], processor: Processor) -> DataFrame:
    """Run a processor on the rows of each combination of `keys`; return columns of its schema.

    Raises `OptionError` if `rows` is not a stream, or without RocksDB or protobuf.
    """
    spark = rows.sparkSession
    if not rows.isStreaming:
        raise OptionError("needs a stream: give a DataFrame of spark.readStream, or use the job of the same name")
    if spark.conf.get(PROVIDER, "") != ROCKS_DB:
        raise OptionError(
            f"state in Python needs RocksDB, which is part of Spark: spark.conf.set({PROVIDER!r}, {ROCKS_DB!r})"
        )
    try:
        import_module("google.protobuf")
    except ImportError:
        raise OptionError("state in Python needs protobuf: pip install 'quorate[spark]'") from None
    # No timers of Spark: with processing-time timers, a query with availableNow never ends.
    found = rows.groupBy(*keys).transformWithStateInPandas(processor, "row string", "Append", "None")
    return found.select(F.from_json("row", from_arrow_schema(processor.schema)).alias("row")).select("row.*")


def packed_rows(frame: Any) -> Iterator[Packed]:
    """Return the rows of a frame."""
    return map(Packed._make, zip(*[frame[name].tolist() for name in Packed._fields], strict=True))


def rows_after(frames: Frames, offset: int) -> list[Packed]:
    """Return the rows after an offset, in the order of the log, without duplicates."""
    found = {row.offset: row for frame in frames for row in packed_rows(frame) if row.offset > offset}
    return [row for _, row in sorted(found.items())]


def _plain(value: Any) -> Any:
    """Convert a value of pandas to a text, an int, or `None`."""
    if value is None or value != value:
        return None
    return value if isinstance(value, str) else int(value)


def readable(row: dict[str, Any], schema: pa.Schema | pa.StructType) -> dict[str, Any]:
    """Convert a row to the JSON that Spark reads: times as text, nulls left out."""
    return {field.name: _of(field.type)(row[field.name]) for field in schema if row.get(field.name) is not None}


def _of(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_timestamp(kind):
        return _time
    if pa.types.is_list(kind):
        inner = _of(kind.value_type)
        return lambda values: [inner(value) for value in values]
    if pa.types.is_struct(kind):
        return lambda value: readable(value, kind)
    return lambda value: value


def _time(us: int) -> str:
    return (_EPOCH + timedelta(microseconds=us)).isoformat()

"""Decoding what a DataFrame already has: keys and values (`decode`), or whole segments (`decode_segments`)."""

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as functions
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, NumericType

from quorate.codecs.columnar.columns import decode_columns
from quorate.codecs.log.files import partition_of
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.codecs.messages import RECORD_TYPES
from quorate.pipeline.casts import fitting, time_or_null
from quorate.pipeline.files import Piece
from quorate.pipeline.files_read import Reading, checked, read_piece
from quorate.pipeline.filters import RecordBounds
from quorate.pipeline.options import Mode, parse_columns, parse_mode, parse_types
from quorate.pipeline.rows import Rows
from quorate.pipeline.schema import LATEST_MS, OptionError
from quorate.pipeline.workers import settle

__all__ = ["decode", "decode_segments"]

TOGETHER_ROWS: Final = 1 << 16
TOGETHER_BYTES: Final = 16 << 20
"""Spark's batches have 10,000 rows: as many are decoded together as make this, so that the work per
batch does not count.
"""

_PASSED_ON: Final = {"topic": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp"}

Batches = Iterator[pa.RecordBatch]


def decode(
    df: DataFrame,
    key: str = "key",
    value: str = "value",
    *,
    topic: str = CONSUMER_OFFSETS,
    types: str | Iterable[str] | None = None,
    columns: str | Iterable[str] | None = None,
    mode: str = "PERMISSIVE",
    include_raw: bool = False,
) -> DataFrame:
    """Decode the binary columns `key` and `value` of any DataFrame: of Spark's Kafka source, Parquet dumps, copies by MirrorMaker, batch or stream.

    The result has the columns of `spark_schema(topic, types, columns)`. `topic`, `partition`,
    `offset` and `timestamp` (a number is milliseconds since 1970; a negative one, and what is later
    than the year 9999, null) are passed on where the DataFrame has them, and so is nothing else;
    the order of rows is not kept. `mode` and `include_raw` are as the source's options. Whether a
    record was committed is not known: a consumer with `isolation.level` read_committed has to have
    read it. Raises `OptionError`.
    """
    chosen = parse_types(types, topic)
    reading = _reading(topic, chosen, parse_columns(columns, topic, chosen), parse_mode(mode), include_raw)
    return _decoded(df, key, value, topic, reading)


def _decoded(df: DataFrame, key: str, value: str, topic: str, reading: Reading) -> DataFrame:
    columns = []
    for wanted, name in (("key", _column(df, key)), ("value", _column(df, value))):
        if not isinstance(df.schema[name].dataType, BinaryType):
            kind = df.schema[name].dataType.simpleString()
            raise OptionError(
                f"column {name!r} is of type {kind}; records are binary, and a cast to text would lose bytes"
            )
        columns.append(_of(df, name).alias(wanted))
    for name, kind in _PASSED_ON.items():
        if (there := _found(df, name)) is not None:
            columns.append(_passed_on(df, there, kind).alias(name))
    return df.select(*columns).mapInArrow(_decoder(topic, reading), from_arrow_schema(reading.rows.output))


def _found(df: DataFrame, name: str) -> str | None:
    """A column by its name, in any case where Spark does not mind the case."""
    found = [one for one in df.columns if one == name]
    if not found and df.sparkSession.conf.get("spark.sql.caseSensitive", "false") != "true":
        found = [one for one in df.columns if one.lower() == name.lower()]
    return found[0] if found else None


def _column(df: DataFrame, name: str) -> str:
    found = _found(df, name)
    if found is None:
        raise OptionError(f"the DataFrame has no column {name!r}; it has {', '.join(df.columns)}")
    return found


def _of(df: DataFrame, name: str) -> Column:
    return df["`" + name.replace("`", "``") + "`"]  # a dot in a name is no field of a struct


def _passed_on(df: DataFrame, name: str, kind: str) -> Column:
    column = _of(df, name)
    if kind == "string":
        return column.cast(kind)
    if kind != "timestamp":
        return fitting(column, kind, name, "a number that a record can have")
    if isinstance(df.schema[name].dataType, NumericType):
        ms = column.try_cast("bigint")
        return functions.when(ms.between(0, LATEST_MS), functions.timestamp_millis(ms))
    return time_or_null(column.cast(kind))


def _reading(
    topic: str, types: tuple[str, ...] | None, columns: tuple[str, ...] | None, mode: Mode, include_raw: bool
) -> Reading:
    wanted = RecordBounds(types=None if types is None else frozenset(types))
    return Reading(
        rows=Rows(topic, types, columns), wanted=wanted, read_committed=False, mode=mode, include_raw=include_raw
    )


def _decoder(topic: str, reading: Reading) -> Callable[[Batches], Batches]:
    rows = reading.rows

    def run(batches: Batches) -> Batches:
        for table in _together(batches):
            arrays = {name: table.column(name).combine_chunks() for name in table.schema.names}
            common = {name: arrays[name].cast(rows.schema.field(name).type) for name in _PASSED_ON if name in arrays}
            if reading.include_raw:
                common |= {name: arrays[name].cast(pa.binary()) for name in ("key", "value")}
            decoded = decode_columns(arrays["key"], arrays["value"], topic=topic)
            yield from map(rows.chosen, checked(rows.of_batches(decoded, common), reading.mode))
        settle()

    return run


def _together(batches: Batches) -> Iterator[pa.Table]:
    """Small batches joined into larger ones."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= TOGETHER_ROWS or size >= TOGETHER_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting)


def decode_segments(
    df: DataFrame,
    *,
    path: str = "path",
    content: str = "content",
    types: str | Iterable[str] | None = None,
    columns: str | Iterable[str] | None = None,
    topic: str = CONSUMER_OFFSETS,
    mode: str = "PERMISSIVE",
    include_raw: bool = False,
) -> DataFrame:
    """Decode whole segments, one a row, as `spark.read.format("binaryFile")` reads them from any file system that Spark knows.

    Topic and partition come from the folder in `path`; segments of other topics are passed over.
    Everything is read, uncommitted and markers of transactions, too, because a segment by itself
    does not tell how its transactions ended. A segment is in memory as a whole. Raises
    `OptionError`.
    """
    chosen = parse_types(types, topic)
    selected = df.select(_of(df, _column(df, path)).alias("path"), _of(df, _column(df, content)).alias("content"))
    reading = _reading(topic, chosen, parse_columns(columns, topic, chosen), parse_mode(mode), include_raw)
    return selected.mapInArrow(_segment_decoder(topic, reading), from_arrow_schema(reading.rows.output))


def _segment_decoder(topic: str, reading: Reading) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            for place, data in zip(batch.column("path"), batch.column("content"), strict=True):
                yield from _rows_of_segment(place.as_py(), data.as_py(), topic, reading)
        settle()

    return run


def _rows_of_segment(place: str, data: bytes, topic: str, reading: Reading) -> Batches:
    parts = urlsplit(place)
    path = PurePosixPath(parts.path if parts.scheme else place)
    name, number = partition_of(path.parent) or (topic, None)
    if name in RECORD_TYPES and name != topic:
        return
    piece = Piece(
        topic=topic,
        partition=number if name == topic else None,
        path=Path(place),
        begin=0,
        end=len(data),
        size_bytes=len(data),
        first_offset=0,
        next_offset=0,
    )
    yield from read_piece(piece, reading, BytesIO(data))

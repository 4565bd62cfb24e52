"""Decode keys and values in a DataFrame (`decode`), or whole segments (`decode_segments`)."""

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
from quorate.pipeline.schema import COMMON, LATEST_MS, OptionError
from quorate.pipeline.workers import settle

__all__ = ["decode", "decode_segments"]

TOGETHER_ROWS: Final = 1 << 16
TOGETHER_BYTES: Final = 16 << 20
"""Batches are joined up to this size before decoding, to spread the cost per call. Spark's own
batches have 10,000 rows.
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
    """Decode the binary columns `key` and `value` of any DataFrame, batch or stream.

    The DataFrame can come from Spark's Kafka source, Parquet dumps, or copies by MirrorMaker. The
    result has the columns of `spark_schema(topic, types, columns)`. Of the other columns, only
    `topic`, `partition`, `offset` and `timestamp` are kept. A numeric timestamp is milliseconds
    since 1970; a negative one, or one after the year 9999, becomes null. The order of rows is not
    kept. `mode` and `include_raw` have the meaning of the source's options.

    Transactions are not resolved: to get committed records only, read them with `isolation.level`
    read_committed. Raises `OptionError`.
    """
    chosen = parse_types(types, topic)
    reading = _reading(topic, chosen, parse_columns(columns, topic, chosen), parse_mode(mode), include_raw)
    return _decoded(df, key, value, topic, reading)


def _decoded(df: DataFrame, key: str, value: str, topic: str, reading: Reading) -> DataFrame:
    columns = []
    for wanted, name in (("key", _column(df, key)), ("value", _column(df, value))):
        if not isinstance(df.schema[name].dataType, BinaryType):
            kind = df.schema[name].dataType.simpleString()
            raise OptionError(f"column {name!r} has type {kind}; binary is required, as a cast to text loses bytes")
        columns.append(_of(df, name).alias(wanted))
    for name, kind in _PASSED_ON.items():
        if (found := _found(df, name)) is not None:
            columns.append(_passed_on(df, found, kind).alias(name))
    return df.select(*columns).mapInArrow(_decoder(topic, reading), from_arrow_schema(reading.rows.output))


def _found(df: DataFrame, name: str) -> str | None:
    """Return the name of a column, ignoring case unless Spark is case-sensitive."""
    found = [column for column in df.columns if column == name]
    if not found and df.sparkSession.conf.get("spark.sql.caseSensitive", "false") != "true":
        found = [column for column in df.columns if column.lower() == name.lower()]
    return found[0] if found else None


def _column(df: DataFrame, name: str) -> str:
    found = _found(df, name)
    if found is None:
        raise OptionError(f"the DataFrame has no column {name!r}; its columns: {', '.join(df.columns)}")
    return found


def _of(df: DataFrame, name: str) -> Column:
    return df["`" + name.replace("`", "``") + "`"]  # quoted, as a dot would mean a field of a struct


def _passed_on(df: DataFrame, name: str, kind: str) -> Column:
    column = _of(df, name)
    if kind == "string":
        return column.cast(kind)
    if kind != "timestamp":
        return fitting(column, kind, name, f"a number of type {kind}")
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
            common = {name: arrays[name].cast(COMMON.field(name).type) for name in _PASSED_ON if name in arrays}
            if reading.include_raw:
                common |= {name: arrays[name].cast(pa.binary()) for name in ("key", "value")}
            decoded = decode_columns(arrays["key"], arrays["value"], topic=topic)
            yield from map(rows.chosen, checked(rows.of_batches(decoded, common), reading.mode))
        settle()

    return run


def _together(batches: Batches) -> Iterator[pa.Table]:
    """Join small batches into larger ones."""
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
    """Decode whole segments, one per row.

    `spark.read.format("binaryFile")` reads them from any file system that Spark supports. Topic and
    partition come from the folder in `path`; segments of other topics are skipped. The isolation
    level is read_uncommitted, and transaction markers are included, because a single segment does
    not contain the outcome of all its transactions. Each segment is held in memory. Raises
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

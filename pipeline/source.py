"""The data source `consumer-offsets`.

Combines the modules `options`, `files`, `live` and `stream`. Spark calls `read` in the executors,
everything else in Python processes on the driver.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from quorate.pipeline.files import find_files, plan
from quorate.pipeline.files_read import Reading, reading_of, wanted_by
from quorate.pipeline.filters import narrowed
from quorate.pipeline.live import TopicConnection, ranges_of
from quorate.pipeline.options import FORMAT, LATEST, Options, parse_options
from quorate.pipeline.schema import OptionError, spark_schema
from quorate.pipeline.stream import UnlimitedReader
from quorate.pipeline.tasks import cut, read_task, splits_of
from quorate.pipeline.workers import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["FORMAT", "ConsumerOffsets", "register", "stream_reader"]

_IN_4_2: Final = "needs Spark 4.2 or newer, which passes the start of a micro-batch to the source; omit it"
_PUSHES_FILTERS: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def register(spark: "SparkSession") -> None:
    """Register the format `consumer-offsets` for `spark.read` and `spark.readStream`."""
    spark.dataSource.register(ConsumerOffsets)


class ConsumerOffsets(DataSource):
    """Decoded records of a coordinator topic; options: `quorate.pipeline.options.OPTIONS`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed: Options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns: those of `quorate.pipeline.spark_schema`."""
        return spark_schema(self.parsed.topic, self.parsed.types, self.parsed.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader, with filter push-down if it is requested and Spark uses it.

        Raises `OptionError` for another schema than that of the columns.
        """
        self._check_schema(schema)
        # Spark (4.1 to 4.3) applies the filters of one use of a DataFrame to all later uses of the
        # same load(), so push-down is an option. Spark rejects a reader with `pushFilters` while
        # spark.sql.python.filterPushdown.enabled is off, and does not pass that config here.
        filters = self.parsed.push_filters and _is_pushing()
        return (_FilteringReader if filters else _Reader)(self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return the reader of a stream. Raises `OptionError`."""
        self._check_schema(schema)
        options = self.parsed
        return stream_reader(options, partial(reading_of, options, wanted_by(options)))

    def _check_schema(self, schema: StructType) -> None:
        """Reject a schema given by the query: rows have all columns, in their order and types."""
        if schema.simpleString() != self.schema().simpleString():
            raise OptionError(
                "the schema is not that of the columns: omit .schema(…), and select columns with the option columns"
            )


def _is_pushing() -> bool:
    """Return whether Spark's module that pushes filters is loaded, or is the program."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHES_FILTERS in sys.modules or (spec is not None and spec.name == _PUSHES_FILTERS)


class _Reader(DataSourceReader):
    """Batch reader of files or of a cluster."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.wanted = wanted_by(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        found = self._tasks()
        settle()
        return found

    def _tasks(self) -> list[InputPartition]:
        options, wanted = self.options, self.wanted
        if options.kafka:
            with TopicConnection(options) as cluster:
                ranges = ranges_of(options, cluster)
            chosen = [one for one in ranges if wanted.partitions is None or one.partition in wanted.partitions]
            return [*cut(chosen, options.max_split_bytes)]
        files = [
            file for file in find_files(options) if wanted.partitions is None or file.partition in wanted.partitions
        ]
        return [*splits_of(plan(options, files, within=wanted.offsets), options.max_split_bytes)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read the rows of a task."""
        return read_task(partition, self.options, reading_of(self.options, self.wanted))


class _FilteringReader(_Reader):
    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  # Spark's name
        """Narrow what is read by the filters; Spark still applies all of them to the rows."""
        self.wanted = narrowed(self.wanted, filters)
        return filters


def stream_reader(options: Options, reading: Callable[[], Reading]) -> DataSourceStreamReader:
    """Return the reader of a stream, limited since Spark 4.2.

    Raises `OptionError` for options that do not apply to streams.
    """
    if options.ending_offsets != {None: LATEST} or options.ending_timestamp is not None:
        raise OptionError(
            "options endingOffsets and endingTimestamp: a stream has no end; read a batch with spark.read"
        )
    try:
        from quorate.pipeline.stream_limited import LimitedReader
    except ImportError:
        if options.max_offsets_per_trigger is not None:
            raise OptionError(f"option maxOffsetsPerTrigger {_IN_4_2}") from None
        return UnlimitedReader(options, reading)
    return LimitedReader(options, reading)

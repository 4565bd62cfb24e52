"""The data source `consumer-offsets`: `register(spark)`, then `spark.read.format("consumer-offsets")`.

Puts together what `options`, `files`, `live` and `stream` know; Spark calls it on the driver, in
processes of its own, and `read` in the executors.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from quorate.pipeline.files import find_files, plan, splits_of
from quorate.pipeline.files_read import Reading
from quorate.pipeline.filters import RecordBounds, narrowed
from quorate.pipeline.live import TopicConnection, cut, ranges_of, read_task
from quorate.pipeline.options import LATEST, Options, parse_options
from quorate.pipeline.rows import Rows
from quorate.pipeline.schema import OptionError, spark_schema
from quorate.pipeline.stream import UnlimitedReader
from quorate.pipeline.workers import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["FORMAT", "ConsumerOffsets", "register", "stream_reader"]

FORMAT: Final = "consumer-offsets"

_IN_4_2: Final = "needs Spark 4.2 or newer, which tells a source where a micro-batch begins; leave it out"
_PUSHES_FILTERS: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("consumer-offsets")` and `spark.readStream.format("consumer-offsets")` known to a session."""
    spark.dataSource.register(ConsumerOffsets)


class ConsumerOffsets(DataSource):
    """Records of a coordinator topic, decoded; see `quorate.pipeline.options.OPTIONS`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed: Options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns: those of `quorate.pipeline.spark_schema`."""
        return spark_schema(self.parsed.topic, self.parsed.types, self.parsed.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The batch reader; one that takes filters where Spark has some."""
        # Spark (4.1 to 4.3) uses the filters of one use of a DataFrame for all later uses of the
        # same load(): hence only where it is asked for. It refuses a reader that takes filters
        # while spark.sql.python.filterPushdown.enabled is off, and does not say here whether it is.
        asked = self.parsed.push_filters and (_PUSHES_FILTERS in sys.modules or _is_main(_PUSHES_FILTERS))
        return (_FilteringReader if asked else _Reader)(self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """The reader of a stream."""
        options = self.parsed
        return stream_reader(options, partial(reading_of, options, wanted_by(options)))


def _is_main(module: str) -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == module


def wanted_by(options: Options) -> RecordBounds:
    """What the options ask for."""
    return RecordBounds(
        types=None if options.types is None else frozenset(options.types),
        partitions=options.partitions,
        times=(options.starting_timestamp, options.ending_timestamp),
    )


def reading_of(options: Options, wanted: RecordBounds) -> Reading:
    """What the tasks have in common."""
    rows = Rows(options.topic, options.types, options.columns)
    rows.wanted = wanted.types
    return Reading(
        rows=rows,
        wanted=wanted,
        read_committed=options.read_committed,
        mode=options.mode,
        include_raw=options.include_raw,
        fail_on_data_loss=options.fail_on_data_loss,
        push_down=options.push_down,
    )


class _Reader(DataSourceReader):
    """Reads files or a cluster."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.wanted = wanted_by(options)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
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
        files = [one for one in find_files(options) if wanted.partitions is None or one.partition in wanted.partitions]
        return [*splits_of(plan(options, files, within=wanted.offsets), options.max_split_bytes)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of a task."""
        return read_task(partition, self.options, reading_of(self.options, self.wanted))


class _FilteringReader(_Reader):
    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802  # Spark's name
        """Note the filters, and leave it to Spark to apply them to the rows that are left."""
        self.wanted = narrowed(self.wanted, filters)
        return filters


def stream_reader(options: Options, reading: Callable[[], Reading]) -> DataSourceStreamReader:
    """The reader of a stream, which Spark from 4.2 on can limit.

    Raises `OptionError` for options that streams do not have.
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

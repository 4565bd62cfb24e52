"""Streams: the offsets and the tasks of each micro-batch.

Spark stores the offsets in the checkpoint as `{"__consumer_offsets": {"0": 123}}`, in the form of
its Kafka source. There is no other state, so a query resumes from the checkpoint.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from quorate.codecs.log.files import PartitionFiles
from quorate.codecs.log.model import LogError
from quorate.pipeline.files import DataLoss, find_files, offset_of, plan
from quorate.pipeline.files_read import Reading
from quorate.pipeline.files_survey import survey
from quorate.pipeline.live import OffsetRange, TopicConnection, starts_of
from quorate.pipeline.options import EARLIEST, LATEST, Options
from quorate.pipeline.schema import OptionError
from quorate.pipeline.tasks import cut, read_task, splits_of

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = dict[int, int]
"""Partition → next offset to read."""


class _Source(ABC):
    """The log of a stream: files or a cluster."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def first(self) -> Offsets:
        """Return the first offset of each existing partition."""

    @abstractmethod
    def chosen(self) -> Offsets:
        """Return the offsets at which the options start reading."""

    @abstractmethod
    def ends(self, starts: Offsets) -> Offsets:
        """Return the current end offset of each partition; skips what is before `starts`."""

    @abstractmethod
    def tasks(self, starts: Offsets, ends: Offsets) -> list[InputPartition]:
        """Return the tasks that read these offsets."""

    @abstractmethod
    def close(self) -> None:
        """Release connections."""


class _Files(_Source):
    """A log directory that a broker writes to, or into which its files are copied repeatedly."""

    def _found(self) -> dict[int, PartitionFiles]:
        found: dict[int, PartitionFiles] = {}
        for files in find_files(self.options):
            if files.partition is None:
                raise OptionError(
                    f"{files.segments[0].path}: a stream needs folders such as {files.topic}-0, "
                    "which name the partition"
                )
            if files.partition in found:
                raise OptionError(
                    f"{files.topic}-{files.partition}: two folders have this name; "
                    "a stream needs a single log of each partition"
                )
            if files.problems and not files.segments:
                raise LogError(str(files.problems[0]))
            found[files.partition] = files
        return found

    def first(self) -> Offsets:
        return {number: files.segments[0].base_offset for number, files in self._found().items() if files.segments}

    def chosen(self) -> Offsets:
        first = self.first()
        requested = {number: offset_of(self.options.starting_offsets, number) for number in first}
        ends = self.ends({}) if LATEST in requested.values() or max(requested.values(), default=EARLIEST) >= 0 else {}
        # Never after the last stable offset: transactions before it are complete, so later
        # micro-batches need not read them again.
        return {
            number: first[number]
            if start == EARLIEST
            else ends[number]
            if start == LATEST
            else min(start, ends[number])
            for number, start in requested.items()
        }

    def ends(self, starts: Offsets) -> Offsets:
        found = {}
        for number, files in self._found().items():
            surveyed = survey(
                files,
                read_committed=self.options.read_committed,
                max_split_bytes=self.options.max_split_bytes,
                start=starts.get(number),
                settled=number in starts,
            )
            found[number] = surveyed.stable_offset
        return found

    def tasks(self, starts: Offsets, ends: Offsets) -> list[InputPartition]:
        wanted = {number: end for number, end in ends.items() if starts[number] < end}
        options = replace(
            self.options,
            partitions=frozenset(wanted),
            starting_offsets=_given(starts),
            ending_offsets=_given(wanted),
        )
        if not wanted:
            return []
        files = [files for number, files in self._found().items() if number in wanted]
        pieces = plan(options, files, settled=True, tail=False)
        return [*splits_of(pieces, options.max_split_bytes)]

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""


def _given(offsets: Offsets) -> dict[int | None, int]:
    """Return offsets in the form of `Options`."""
    others: dict[int | None, int] = {None: LATEST}
    return others | offsets


class _Live(_Source):
    """A running cluster."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.cluster = TopicConnection(options)

    def first(self) -> Offsets:
        return self.cluster.earliest(self.cluster.partitions())

    def chosen(self) -> Offsets:
        first = self.first()
        return starts_of(self.options, self.cluster, first, first, self.cluster.latest(first))

    def ends(self, starts: Offsets) -> Offsets:
        return self.cluster.latest(self.cluster.partitions())

    def tasks(self, starts: Offsets, ends: Offsets) -> list[InputPartition]:
        ranges = [
            OffsetRange(number, starts[number], end) for number, end in sorted(ends.items()) if starts[number] < end
        ]
        return [*cut(ranges, self.options.max_split_bytes)]

    def close(self) -> None:
        self.cluster.close()


class StreamReader(DataSourceStreamReader):
    """Reader of a stream.

    Spark keeps one object on the driver while a query runs. It calls `read` on copies in executors.
    """

    def __init__(self, options: Options, reading: Callable[[], Reading]) -> None:
        self.options = options
        self.reading = reading
        self.source: _Source | None = None
        self.target: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"source": None}

    @property
    def log(self) -> _Source:
        """The log, connected on first use."""
        if self.source is None:
            self.source = (_Live if self.options.kafka else _Files)(self.options)
        return self.source

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the offsets at which a new query begins. Raises `DataLoss`."""
        first, chosen = self.log.first(), self.log.chosen()
        if self.options.fail_on_data_loss:
            for number, offset in chosen.items():
                if offset < first[number]:
                    raise self._lost(number, offset, f"the log begins at {first[number]:,}")
        return self.written({number: max(offset, first[number]) for number, offset in chosen.items()})

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  # Spark's name
        """Return `None`: finding the latest offset would cost as much as the micro-batch."""
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch. Raises `DataLoss`."""
        starts, ends = self.parsed(start), self.parsed(end)
        first: Offsets | None = None
        for number in ends.keys() - starts.keys():  # a new partition
            first = self.log.first() if first is None else first
            starts[number] = first.get(number, ends[number])
            if starts[number] > 0 and self.options.fail_on_data_loss:
                raise self._lost(number, 0, f"this new partition begins at {starts[number]:,}")
        return self.log.tasks(starts, ends)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read the rows of a task."""
        return read_task(partition, self.options, self.reading())

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: nothing is kept for a micro-batch."""

    def stop(self) -> None:
        """Close the connection."""
        if self.source is not None:
            self.source.close()
            self.source = None

    def ends_from(self, starts: Offsets, limit: int | None) -> Offsets:
        """Return the end of a micro-batch from `starts` on, with at most `limit` offsets.

        Raises `DataLoss`.
        """
        now = self.log.ends(starts)
        ends = {}
        for number, start in starts.items():
            if number not in now:
                if self.options.fail_on_data_loss:
                    raise self._lost(number, start, "the partition is gone")
                continue
            if now[number] < start and self.options.fail_on_data_loss:
                raise self._lost(number, start, f"the log ends at {now[number]:,}")
        for number, end in now.items():
            if self.target is not None:
                # `AvailableNow`: do not read past the target, nor partitions created after it.
                if number not in self.target and number not in starts:
                    continue
                end = max(starts.get(number, 0), min(end, self.target.get(number, end)))
            ends[number] = end
        return ends if limit is None else _limited(starts, ends, limit)

    def _lost(self, partition: int, offset: int, reason: str) -> DataLoss:
        place = f"{self.options.topic}-{partition}"
        return DataLoss(
            f"{place}: offset {offset:,} of the stream is not in the log: {reason}; failOnDataLoss=false reads the rest"
        )

    def written(self, offsets: Offsets) -> dict[str, Any]:
        """Convert offsets to the form in the checkpoint."""
        return {self.options.topic: {str(number): offset for number, offset in sorted(offsets.items())}}

    def parsed(self, offsets: Mapping[str, Any]) -> Offsets:
        """Parse offsets of the checkpoint. Raises `OptionError` for those of another topic."""
        if self.options.topic not in offsets:
            raise OptionError(
                f"the checkpoint is of {', '.join(offsets)}, not of {self.options.topic}; "
                "use another checkpointLocation"
            )
        return {int(number): offset for number, offset in offsets[self.options.topic].items()}


def _limited(starts: Offsets, ends: Offsets, limit: int) -> Offsets:
    """Reduce `ends` so that the micro-batch has at most `limit` offsets.

    Each partition gets its share, and at least one offset as long as the limit allows.
    """
    sizes = {number: max(end - starts.get(number, 0), 0) for number, end in ends.items()}
    total = sum(sizes.values())
    if total <= limit:
        return ends
    found = dict(ends)
    left = limit
    for number, size in sorted(sizes.items(), key=lambda item: item[1]):
        share = min(size, max(size * limit // total, 1), left)
        left -= share
        if size:
            found[number] = starts.get(number, 0) + share
    return found


class UnlimitedReader(StreamReader):
    """Reader for Spark 4.0 and 4.1, which do not pass the start of a micro-batch."""

    # Spark's name; the parameters exist since 4.2.
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Return the end offset of each partition."""
        return self.written(self.log.ends({}))

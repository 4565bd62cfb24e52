"""Streams: which offsets there are, how many of them a micro-batch takes, and the tasks that read them.

Spark keeps the offsets, in the checkpoint, as `{"__consumer_offsets": {"0": 123}}`: the same form
as those of its Kafka source. Nothing is kept here, so that a query goes on wherever the checkpoint
says.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from quorate.codecs.log.files import PartitionFiles
from quorate.codecs.log.model import LogError
from quorate.pipeline.files import DataLoss, find_files, offset_of, plan, splits_of
from quorate.pipeline.files_read import Reading
from quorate.pipeline.files_survey import survey
from quorate.pipeline.live import OffsetRange, TopicConnection, cut, read_task, starts_of
from quorate.pipeline.options import EARLIEST, LATEST, Options
from quorate.pipeline.schema import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamReader", "UnlimitedReader"]

Offsets = dict[int, int]
"""By partition: the offset behind the last one."""


class _Source(ABC):
    """Where the records of a stream are."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def first(self) -> Offsets:
        """The first offset of each partition that there is now."""

    @abstractmethod
    def chosen(self) -> Offsets:
        """Where the options say to begin."""

    @abstractmethod
    def ends(self, starts: Offsets) -> Offsets:
        """Where each partition that there is ends now; nothing before `starts` is looked at."""

    @abstractmethod
    def tasks(self, starts: Offsets, ends: Offsets) -> list[InputPartition]:
        """The tasks that read these offsets."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held."""


class _Files(_Source):
    """A log directory that a broker writes to, or that is copied to again and again."""

    def _found(self) -> dict[int, PartitionFiles]:
        found: dict[int, PartitionFiles] = {}
        for files in find_files(self.options):
            if files.partition is None:
                raise OptionError(
                    f"{files.segments[0].path}: a stream needs folders such as {files.topic}-0, which tell the partition"
                )
            if files.partition in found:
                raise OptionError(
                    f"{files.topic}-{files.partition}: there are two folders of it; a stream has one order in a partition"
                )
            if files.problems and not files.segments:
                raise LogError(str(files.problems[0]))
            found[files.partition] = files
        return found

    def first(self) -> Offsets:
        return {number: int(files.segments[0].path.stem) for number, files in self._found().items() if files.segments}

    def chosen(self) -> Offsets:
        first = self.first()
        asked = {number: offset_of(self.options.starting_offsets, number) for number in first}
        ends = self.ends({}) if LATEST in asked.values() or max(asked.values(), default=EARLIEST) >= 0 else {}
        # Never behind the last stable offset: what is before it is settled, and need not be looked
        # at again.
        return {
            number: first[number]
            if start == EARLIEST
            else ends[number]
            if start == LATEST
            else min(start, ends[number])
            for number, start in asked.items()
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
        """Files are only open while they are read."""


def _given(offsets: Offsets) -> dict[int | None, int]:
    """As an option has them: partitions that are not named are not read."""
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
    """Spark asks on the driver, always the same object while a query runs; `read` is asked in the executors, of copies."""

    def __init__(self, options: Options, reading: Callable[[], Reading]) -> None:
        self.options = options
        self.reading = reading
        self.source: _Source | None = None
        self.target: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"source": None}

    @property
    def log(self) -> _Source:
        """Where the records are; a connection is made when it is first needed."""
        if self.source is None:
            self.source = (_Live if self.options.kafka else _Files)(self.options)
        return self.source

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Where a new query begins."""
        first, chosen = self.log.first(), self.log.chosen()
        if self.options.fail_on_data_loss:
            for number, offset in chosen.items():
                if offset < first[number]:
                    raise self._lost(number, offset, f"the log begins at {first[number]:,}")
        return self.written({number: max(offset, first[number]) for number, offset in chosen.items()})

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  # Spark's name
        """Nothing: asking again would cost as much as the micro-batch."""
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch."""
        starts, ends = self.parsed(start), self.parsed(end)
        first: Offsets | None = None
        for number in ends.keys() - starts.keys():  # a new partition
            first = self.log.first() if first is None else first
            starts[number] = first.get(number, ends[number])
            if starts[number] > 0 and self.options.fail_on_data_loss:
                raise self._lost(number, 0, f"this new partition begins at {starts[number]:,}")
        return self.log.tasks(starts, ends)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """The rows of a task."""
        return read_task(partition, self.options, self.reading())

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept that could be let go."""

    def stop(self) -> None:
        """Close the connection."""
        if self.source is not None:
            self.source.close()
            self.source = None

    def ends_from(self, starts: Offsets, limit: int | None) -> Offsets:
        """Where a micro-batch ends that begins at `starts` and takes at most `limit` offsets.

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
                # Of what came after the target was set, nothing is to be read; a partition that had
                # not been there waits.
                if number not in self.target and number not in starts:
                    continue
                end = max(starts.get(number, 0), min(end, self.target.get(number, end)))
            ends[number] = end
        return ends if limit is None else _limited(starts, ends, limit)

    def _lost(self, partition: int, offset: int, reason: str) -> DataLoss:
        place = f"{self.options.topic}-{partition}"
        return DataLoss(
            f"{place}: offset {offset:,} of the stream is not in the log: {reason}; failOnDataLoss=false goes on with what there is"
        )

    def written(self, offsets: Offsets) -> dict[str, Any]:
        """Offsets as they are in the checkpoint."""
        return {self.options.topic: {str(number): offset for number, offset in sorted(offsets.items())}}

    def parsed(self, offsets: Mapping[str, Any]) -> Offsets:
        """Offsets of the checkpoint."""
        if self.options.topic not in offsets:
            raise OptionError(
                f"the checkpoint is of {', '.join(offsets)}, not of {self.options.topic}; use another checkpointLocation"
            )
        return {int(number): offset for number, offset in offsets[self.options.topic].items()}


def _limited(starts: Offsets, ends: Offsets, limit: int) -> Offsets:
    """Ends that are at most `limit` offsets behind the starts together: each partition gets its share of what there is, and one offset at least if any are left."""
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
    """What Spark 4.0 and 4.1 ask for: they do not say where a micro-batch begins."""

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802  # Spark's name, without what is asked since 4.2
        """Where everything ends."""
        return self.written(self.log.ends({}))

"""Tasks of Spark: pieces of files, or offset ranges of a cluster, that one Python worker reads."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from quorate.pipeline.files import Piece, bundled
from quorate.pipeline.files_read import Reading, read_piece
from quorate.pipeline.live import BYTES_PER_OFFSET, OffsetRange, read_ranges
from quorate.pipeline.options import Options
from quorate.pipeline.workers import settle


class Split(InputPartition):
    """The pieces that one task reads, in the order of the log."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces = tuple(pieces)
        super().__init__(None)

    def __repr__(self) -> str:
        return f"Split({', '.join(f'{piece.path}:{piece.begin}-{piece.end}' for piece in self.pieces)})"


class RangeSplit(InputPartition):
    """The offset ranges that one task fetches."""

    def __init__(self, ranges: Iterable[OffsetRange]) -> None:
        self.ranges = tuple(ranges)
        super().__init__(None)

    def __repr__(self) -> str:
        return f"RangeSplit({', '.join(f'{one.partition}:{one.start}-{one.end}' for one in self.ranges)})"


def splits_of(pieces: Iterable[Piece], max_split_bytes: int) -> list[Split]:
    """Group pieces into tasks of at most `max_split_bytes`, except for a single larger piece."""
    return [Split(few) for few in bundled(pieces, lambda piece: piece.end - piece.begin, max_split_bytes)]


def cut(ranges: Iterable[OffsetRange], max_split_bytes: int) -> list[RangeSplit]:
    """Return tasks of about `max_split_bytes`: long ranges are cut, short ones share a task."""
    most = max(max_split_bytes // BYTES_PER_OFFSET, 1)
    parts = (
        replace(whole, start=start, end=min(start + most, whole.end))
        for whole in ranges
        for start in range(whole.start, whole.end, most)
    )
    return [RangeSplit(few) for few in bundled(parts, lambda part: part.end - part.start, most)]


def read_task(task: InputPartition, options: Options, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Return the rows of a task. Spark passes an empty task if there are no tasks."""
    if isinstance(task, Split):
        for piece in task.pieces:
            yield from read_piece(piece, reading)
    elif isinstance(task, RangeSplit):
        yield from read_ranges(task.ranges, options, reading)
    settle()

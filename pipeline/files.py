"""From paths to tasks: which segments there are, where they can be cut, and how their transactions ended.

Cutting and settling takes one pass over the batch headers of a partition, and no decoding. What is in the records is not known here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import unquote, urlsplit

import numpy as np
from pyspark.sql.datasource import InputPartition

from quorate.codecs.batches.frames import MAX_BATCH_BYTES, Frame, begins_with_no_batch, frames
from quorate.codecs.batches.model import BatchProblem
from quorate.codecs.batches.v2 import TRANSACTIONAL
from quorate.codecs.columnar.batches import headers_of
from quorate.codecs.columnar.hop import batch_starts
from quorate.codecs.log_files import PartitionFiles, Segment, find_partitions
from quorate.codecs.log_isolation import Transactions, scan
from quorate.codecs.log_model import LogError, LogProblem
from quorate.pipeline.options import EARLIEST, LATEST, Options
from quorate.pipeline.schema import OptionError

__all__ = ["DataLoss", "Piece", "Split", "Surveyed", "find_files", "plan", "splits_of", "survey"]

BLOCK_BYTES: Final = 16 << 20
NOTHING_OPEN: Final = Transactions({}, None)


class DataLoss(RuntimeError):
    """Offsets that were asked for are not in the log any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of bytes of a segment that begins and ends with a batch, as far as there is no damage.

    `first_offset` is that of its first batch, `next_offset` the one behind its last, `expected_offset` the one behind the batch before it. Records from
    `start_offset` to `end_offset` (not included) are wanted. `last` says that no other segment of the partition follows.
    """

    topic: str
    partition: int | None
    path: Path
    begin: int
    end: int
    first_offset: int
    next_offset: int
    expected_offset: int = 0
    last: bool = True
    transactions: Transactions = NOTHING_OPEN
    start_offset: int | None = None
    end_offset: int | None = None
    problems: tuple[LogProblem, ...] = ()


class Split(InputPartition):
    """What one task reads: pieces in the order of the log."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces = tuple(pieces)
        super().__init__(None)

    def __repr__(self) -> str:
        return f"Split({', '.join(f'{piece.path}:{piece.begin}-{piece.end}' for piece in self.pieces)})"


def find_files(options: Options) -> list[PartitionFiles]:
    """The partitions under the paths of the options, in order. Raises `OptionError` for paths that cannot be, `LogError` if there is nothing to read."""
    found: dict[tuple[str, int | None, Path], PartitionFiles] = {}
    for given in options.paths:
        for path in _expanded(given):
            for files in find_partitions(path, topic=options.topic):
                if not options.wants(files.partition):
                    continue
                folder = files.segments[0].path.absolute().parent if files.segments else path.absolute()
                place = (files.topic, files.partition, folder)
                before = found.get(place)
                if before is not None:  # segments of one folder that were named one by one
                    more = {segment.path: segment for segment in (*before.segments, *files.segments)}
                    segments = tuple(sorted(more.values(), key=lambda segment: int(segment.path.stem)))
                    files = replace(before, segments=segments)
                found[place] = files
    if not found:
        raise LogError(
            f"{', '.join(options.paths)}: has none of the partitions that were asked for (option partitions)"
        )
    return [found[place] for place in sorted(found, key=lambda one: (one[0], -1 if one[1] is None else one[1], one[2]))]


def _expanded(given: str) -> list[Path]:
    parts = urlsplit(given)
    if parts.scheme == "file":
        given = unquote(parts.path)
    elif parts.scheme and "://" in given:
        raise OptionError(
            f"path {given!r}: files are read where the executors see them as files; for {parts.scheme}:// use "
            'spark.read.format("binaryFile") and quorate.pipeline.decode_segments, or mount it'
        )
    if not has_magic(given) or Path(given).exists():
        return [Path(given)]
    found = [Path(path) for path in sorted(glob(given))]  # noqa: PTH207  # a pattern may be absolute
    if not found:
        raise LogError(f"{given}: no file or folder has such a name")
    # What lies beside the segments of a partition, such as its indexes, is meant by a star and by nobody else.
    segments = [path for path in found if path.is_dir() or path.suffix == ".log"]
    if not segments:
        raise LogError(f"{given}: none of the {len(found)} files is a segment (.log)")
    return segments


# ---- one pass over the headers


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A partition: its pieces, the outcome of its transactions, the first offset that it may have, and the one behind its last batch."""

    files: PartitionFiles
    pieces: tuple[Piece, ...]
    transactions: Transactions
    start_offset: int
    next_offset: int


def survey(files: PartitionFiles, *, read_committed: bool, max_split_bytes: int) -> Surveyed:
    """Go over the headers of a partition."""
    surveyor = _Surveyor(files, max_split_bytes)
    transactional = surveyor.transactional()
    if read_committed:
        transactions = scan(transactional, MAX_BATCH_BYTES)
    else:
        transactions = NOTHING_OPEN
        for _ in transactional:
            pass
    start = int(files.segments[0].path.stem) if files.segments else 0
    return Surveyed(files, tuple(surveyor.pieces), transactions, start, surveyor.next_offset)


class _Surveyor:
    """The pieces of a partition, found while its transactional batches are handed out."""

    def __init__(self, files: PartitionFiles, max_split_bytes: int) -> None:
        self.files = files
        self.max_split_bytes = max_split_bytes
        self.pieces: list[Piece] = []
        self.next_offset = 0

    def transactional(self) -> Iterator[Frame]:
        """The frames of transactional batches, markers among them."""
        for segment in self.files.segments:
            self._begin(segment, 0, int(segment.path.stem))
            try:
                with segment.path.open("rb", buffering=0) as file:
                    yield from self._segment(file, segment)
            except OSError:
                pass  # reported by whoever reads it
            self._end(segment.size_bytes)

    def _segment(self, file: BinaryIO, segment: Segment) -> Iterator[Frame]:
        position, block = 0, b""
        while position < segment.size_bytes:
            more = file.read(min(BLOCK_BYTES, segment.size_bytes - position - len(block)))
            block += more
            strange = position == 0 and begins_with_no_batch(block)
            starts, end = (np.empty(0, np.int64), 0) if strange else batch_starts(block, MAX_BATCH_BYTES)
            if len(starts):
                yield from self._batches(block, starts, end, segment, position)
            block = block[end:]
            position += end
            if strange or not more:
                resumed = self._resumed(file, segment, position)
                if resumed is None:
                    return
                file.seek(resumed)
                position, block = resumed, b""

    def _resumed(self, file: BinaryIO, segment: Segment, position: int) -> int | None:
        """Where a batch begins behind damage at `position`."""
        file.seek(position)
        for found in frames(file, segment.size_bytes, position=position, resynchronise=True):
            if isinstance(found, BatchProblem):
                resumed = found.position + found.size_bytes
                return resumed if resumed < segment.size_bytes else None
            return found[3]
        return None

    def _batches(self, block: bytes, starts: np.ndarray, end: int, segment: Segment, position: int) -> Iterator[Frame]:
        batches = headers_of(block, starts, end)
        following = batches.base_offset + np.maximum(batches.last_offset_delta, 0) + 1
        begun = self.pieces[-1].begin
        while True:
            # The first batch at which the piece has become large enough.
            index = int(np.searchsorted(starts, begun + self.max_split_bytes - position))
            if index >= len(starts):
                break
            begun = position + int(starts[index])
            if begun > self.pieces[-1].begin:
                if index:
                    self.next_offset = int(following[index - 1])
                self._end(begun)
                self._begin(segment, begun, int(batches.base_offset[index]))
        self.next_offset = int(following[-1])
        for index in np.flatnonzero(batches.plain & (batches.attributes & TRANSACTIONAL != 0)).tolist():
            start = int(starts[index])
            yield block, start, int(batches.end[index]), position + start

    def _begin(self, segment: Segment, begin: int, first_offset: int) -> None:
        piece = Piece(
            topic=self.files.topic,
            partition=self.files.partition,
            path=segment.path,
            begin=begin,
            end=segment.size_bytes,
            first_offset=first_offset,
            next_offset=first_offset,
            expected_offset=self.next_offset,
            last=segment == self.files.segments[-1],
        )
        self.pieces.append(piece)

    def _end(self, end: int) -> None:
        """The last piece ends at this byte, and with the batch that was the last one yet."""
        piece = self.pieces[-1]
        self.pieces[-1] = replace(piece, end=end, next_offset=max(self.next_offset, piece.first_offset))


# ---- from partitions to tasks


def plan(options: Options, partitions: Iterable[Surveyed]) -> Iterator[Piece]:
    """The pieces that have what the options ask for. Raises `DataLoss`."""
    for found in partitions:
        if found.files.problems:
            nothing = Piece(
                topic=found.files.topic,
                partition=found.files.partition,
                path=Path(),
                begin=0,
                end=0,
                first_offset=0,
                next_offset=0,
            )
            yield replace(nothing, problems=found.files.problems)
        start, end = bounds(options, found)
        for piece in found.pieces:
            # A piece may begin with damage: what there is in it is not known, so that none with some of the range is left out.
            if piece.end > piece.begin and piece.next_offset > start and (end is None or piece.first_offset < end):
                transactions = _of_range(found.transactions, piece)
                start_offset = start if start > piece.first_offset else None
                yield replace(piece, transactions=transactions, start_offset=start_offset, end_offset=end)


def bounds(options: Options, found: Surveyed) -> tuple[int, int | None]:
    """The offsets from which and before which a partition is wanted. Raises `DataLoss`."""
    place = f"{found.files.topic}-{found.files.partition}"
    number = found.files.partition
    wanted = {
        "startingOffsets": _asked(options.starting_offsets, number),
        "endingOffsets": _asked(options.ending_offsets, number),
    }
    for name, offset in wanted.items():
        if offset >= 0 and options.fail_on_data_loss and not found.start_offset <= offset <= found.next_offset:
            raise DataLoss(
                f"{place}: offset {offset:,} of {name} is not in the log, which has {found.start_offset:,} to {found.next_offset:,}; "
                "failOnDataLoss=false reads what there is"
            )
    start, end = wanted.values()
    first = {EARLIEST: found.start_offset, LATEST: found.next_offset}.get(start, start)
    return min(first, found.start_offset) if start == EARLIEST else first, None if end == LATEST else end


def _asked(offsets: Mapping[int | None, int], partition: int | None) -> int:
    return offsets[partition] if partition in offsets else offsets[None]


def _of_range(transactions: Transactions, piece: Piece) -> Transactions:
    """Of the aborted transactions those that matter for a piece."""
    aborted = {}
    for producer_id, spans in transactions.aborted.items():
        few = [span for span in spans if span[1] > piece.first_offset and span[0] < piece.next_offset]
        if few:
            aborted[producer_id] = few
    return Transactions(aborted, transactions.last_stable_offset)


def splits_of(pieces: Iterable[Piece], max_split_bytes: int) -> list[Split]:
    """Tasks of about that many bytes: large pieces alone, small ones together."""
    splits: list[Split] = []
    together: list[Piece] = []
    size = 0
    for piece in pieces:
        bytes_ = piece.end - piece.begin
        if together and size + bytes_ > max_split_bytes:
            splits.append(Split(together))
            together, size = [], 0
        together.append(piece)
        size += bytes_
    if together:
        splits.append(Split(together))
    return splits

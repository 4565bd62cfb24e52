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
from quorate.codecs.batches.reader import check
from quorate.codecs.batches.v2 import TRANSACTIONAL
from quorate.codecs.columnar.batches import Batches, headers_of
from quorate.codecs.columnar.frame import Ints
from quorate.codecs.columnar.hop import batch_starts
from quorate.codecs.log_files import PartitionFiles, Segment, find_partitions
from quorate.codecs.log_isolation import Transactions, scan
from quorate.codecs.log_model import LogError, LogProblem
from quorate.pipeline.options import EARLIEST, LATEST, Options
from quorate.pipeline.schema import OptionError

__all__ = [
    "DataLoss",
    "Piece",
    "Split",
    "Surveyed",
    "check_offset",
    "find_files",
    "offset_of",
    "plan",
    "splits_of",
    "survey",
]

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
    size_bytes: int
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
    ordered: bool
    """Whether all offsets are where they have to be, as far as headers tell."""

    @property
    def stable_offset(self) -> int:
        """The offset behind the last that a consumer gets."""
        stable = self.transactions.last_stable_offset
        return self.next_offset if stable is None else min(stable, self.next_offset)


def survey(
    files: PartitionFiles,
    *,
    read_committed: bool,
    max_split_bytes: int,
    start: int | None = None,
    end: int | None = None,
    settled: bool = False,
    tail: bool = True,
) -> Surveyed:
    """Go over the headers of a partition.

    The pieces are those from offset `start` to `end`, not included; damage is in the piece of the batch behind it. `settled` says that no transaction is open
    that began before `start`, so that older segments need not be looked at. Without `tail`, what follows the last whole batch is in no piece.
    """
    surveyor = _Surveyor(files, max_split_bytes, start, end, tail)
    transactional = surveyor.transactional(settled or not read_committed)
    if read_committed:
        transactions = scan(transactional, MAX_BATCH_BYTES)
    else:
        transactions = NOTHING_OPEN
        for _ in transactional:
            pass
    # A segment is named after the offset that it was to begin with, which is all that one says that is empty yet.
    first, last = (int(files.segments[place].path.stem) if files.segments else 0 for place in (0, -1))
    return Surveyed(files, tuple(surveyor.pieces), transactions, first, max(surveyor.following, last), surveyor.ordered)


class _Surveyor:
    """The pieces of a partition, found while its transactional batches are handed out."""

    def __init__(
        self, files: PartitionFiles, max_split_bytes: int, start: int | None, end: int | None, tail: bool
    ) -> None:
        self.files = files
        self.max_split_bytes = max_split_bytes
        self.start = -1 if start is None else start
        self.end = np.iinfo(np.int64).max if end is None else end
        self.tail = tail
        self.pieces: list[Piece] = []
        self.following = 0
        """The offset behind the last batch that was seen, and behind the last that is in a piece."""
        self.next_offset = 0
        self.whole = self.wanted = 0
        """Where the last whole batch ends in the segment, and the last with offsets before `end`."""
        self.beyond = False
        """Whether there are others behind that one."""
        self.open: Piece | None = None
        """The piece that what comes next belongs to, if it is wanted."""
        self.ordered = True
        self.seen = self.step = 0
        self.filled = False
        """Whether a batch has come that belongs to it."""

    def transactional(self, skipping: bool) -> Iterator[Frame]:
        """The frames of transactional batches, markers among them. `skipping`: only of segments that have offsets from `start` on."""
        segments = self.files.segments
        for index, segment in enumerate(segments):
            following = int(segments[index + 1].path.stem) if index + 1 < len(segments) else None
            before = following is not None and following <= self.start
            if before and skipping:
                continue
            self.whole, self.wanted, self.beyond, self.filled = 0, 0, False, False
            parts = max(-(-segment.size_bytes // self.max_split_bytes), 1)
            self.step = max(-(-segment.size_bytes // parts), 1)  # parts of one size
            self.open = None if before else self._piece(segment, 0, int(segment.path.stem))
            try:
                with segment.path.open("rb", buffering=0) as file:
                    yield from self._segment(file, segment)
            except OSError:
                self.whole = segment.size_bytes  # reported by whoever reads it
            if self.beyond:
                self._close(self.wanted)
            else:
                self._close(self.whole if following is None and not self.tail else segment.size_bytes)
            self.next_offset = self.following

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

    def _batches(self, block: bytes, starts: Ints, end: int, segment: Segment, position: int) -> Iterator[Frame]:
        batches = headers_of(block, starts, end)
        behind = batches.base_offset + np.maximum(batches.last_offset_delta, 0) + 1
        self.ordered &= bool((batches.base_offset >= np.append(self.seen, behind[:-1])).all())
        self.seen = int(behind[-1])
        if self.open is not None:
            self._cut(batches, behind, segment, position)
        self.following = self._behind(batches, behind, len(starts))
        self.whole = position + end
        for index in np.flatnonzero(batches.plain & (batches.attributes & TRANSACTIONAL != 0)).tolist():
            begin = int(starts[index])
            yield block, begin, int(batches.end[index]), position + begin

    def _behind(self, batches: Batches, behind: Ints, count: int) -> int:
        """The offset behind the first `count` batches of a block, of which those that are damaged say nothing."""
        for index in range(count - 1, -1, -1):
            if check(batches.block, int(batches.start[index]), int(batches.end[index]), 0) is None:
                return int(behind[index])
        return self.following

    def _cut(self, batches: Batches, behind: Ints, segment: Segment, position: int) -> None:
        """Move on to where `start` is, and cut between batches where a piece has become large enough.

        An offset may be damaged without anybody noticing. It must not keep the batches around it out, but may well let others in, whose records are looked at.
        """
        assert self.open is not None
        starts, ends = batches.start, batches.end
        first = 0
        if not self.filled:
            later = behind > self.start
            first = int(np.argmax(later)) if bool(later.any()) else len(starts)
            if first:
                self.next_offset = self._behind(batches, behind, first)
                self.open = self._piece(segment, position + int(ends[first - 1]), self.next_offset)
        inside = np.flatnonzero(batches.base_offset < self.end)
        last = int(inside[-1]) + 1 if len(inside) else 0
        least = first if self.filled else first + 1
        if first < last:
            self.filled = True
            self.wanted = position + int(ends[last - 1])
        self.beyond |= last < len(starts)
        while True:
            large = int(np.searchsorted(starts, self.open.begin + self.step - position))
            index = max(large, least)
            if index >= last:
                break
            self.next_offset = self._behind(batches, behind, index)
            self._close(position + int(starts[index]))
            self.open = self._piece(segment, position + int(starts[index]), self.next_offset)
            least = index + 1
        self.next_offset = self._behind(batches, behind, last)

    def _piece(self, segment: Segment, begin: int, offset: int) -> Piece:
        """A piece from byte `begin` on, at or before the batch that has `offset`."""
        return Piece(
            topic=self.files.topic,
            partition=self.files.partition,
            path=segment.path,
            begin=begin,
            end=segment.size_bytes,
            size_bytes=segment.size_bytes,
            first_offset=offset,
            next_offset=offset,
            expected_offset=self.next_offset,
            last=segment == self.files.segments[-1],
        )

    def _close(self, end: int) -> None:
        """The open piece, if there is one, ends at this byte, and with the batch that was the last one yet."""
        if self.open is not None and end > self.open.begin:
            next_offset = max(self.next_offset, self.open.first_offset)
            self.pieces.append(replace(self.open, end=end, next_offset=next_offset))


# ---- from partitions to tasks


def plan(
    options: Options,
    partitions: Iterable[PartitionFiles],
    *,
    within: tuple[int | None, int | None] = (None, None),
    settled: bool = False,
    tail: bool = True,
) -> Iterator[Piece]:
    """The pieces that have what the options ask for, of that only offsets `within`; `settled` and `tail` as for `survey`. Raises `DataLoss`."""
    for files in partitions:
        if files.problems:
            nothing = Piece(
                topic=files.topic,
                partition=files.partition,
                path=Path(),
                begin=0,
                end=0,
                size_bytes=0,
                first_offset=0,
                next_offset=0,
            )
            yield replace(nothing, problems=files.problems)
        start = offset_of(options.starting_offsets, files.partition)
        end = offset_of(options.ending_offsets, files.partition)
        if start == LATEST:
            continue
        low = max((one for one in (start, within[0]) if one is not None and one != EARLIEST), default=None)
        high = min((one for one in (end, within[1]) if one is not None and one != LATEST), default=None)
        found = survey(
            files,
            read_committed=options.read_committed,
            max_split_bytes=options.max_split_bytes,
            start=low,
            end=high,
            settled=settled,
            tail=tail,
        )
        for name, offset in (("startingOffsets", start), ("endingOffsets", end)):
            if offset >= 0 and options.fail_on_data_loss:
                place = f"{files.topic}-{files.partition}"
                check_offset(place, name, offset, found.start_offset, found.next_offset)
        for piece in found.pieces:
            yield replace(piece, transactions=_of_piece(found, piece), start_offset=low, end_offset=high)


def check_offset(place: str, name: str, offset: int, first: int, following: int) -> None:
    """Raises `DataLoss` for an offset that a log has not, which has those from `first` to `following`."""
    if not first <= offset <= following:
        raise DataLoss(
            f"{place}: offset {offset:,} of {name} is not in the log, which has {first:,} to {following:,}; "
            "failOnDataLoss=false reads what there is"
        )


def offset_of(offsets: Mapping[int | None, int], partition: int | None) -> int:
    """The offset that an option gives for a partition."""
    return offsets[partition] if partition in offsets else offsets[None]


def _of_piece(found: Surveyed, piece: Piece) -> Transactions:
    """Of the aborted transactions those that matter for a piece, which are all if its offsets cannot be relied on."""
    if not found.ordered:
        return found.transactions
    aborted = {}
    for producer_id, spans in found.transactions.aborted.items():
        few = [span for span in spans if span[1] > piece.first_offset and span[0] < piece.next_offset]
        if few:
            aborted[producer_id] = few
    return Transactions(aborted, found.transactions.last_stable_offset)


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

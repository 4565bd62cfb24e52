"""Survey the batch headers of a partition: split points of segments, and outcomes of transactions.

Only transaction markers are decoded.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from quorate.codecs.batches.model import BatchProblem
from quorate.codecs.batches.reader import check
from quorate.codecs.columnar.frame import Ints
from quorate.codecs.log.block_reader import blocks_in, index_block
from quorate.codecs.log.blocks import Batches
from quorate.codecs.log.files import PartitionFiles, Segment
from quorate.codecs.log.model import LogProblem
from quorate.codecs.log.transactions import TransactionIndex, Transactions

FOR_EVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of bytes of a segment that begins and ends at batch boundaries, except for damage.

    `first_offset` is the offset of its first batch, `next_offset` the one after its last batch,
    `expected_offset` the one after the preceding batch. Records from `start_offset` to `end_offset`
    (exclusive) are read. No record is later than `newest_ms`. `last`: no other segment of the
    partition follows.
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
    newest_ms: int = FOR_EVER
    transactions: Transactions = field(default_factory=Transactions)
    start_offset: int | None = None
    end_offset: int | None = None
    problems: tuple[LogProblem, ...] = ()
    ordered: bool = True
    """Whether the offsets of its partition increase, according to the headers."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A surveyed partition: its pieces, and the outcomes of its transactions.

    `start_offset` is the first offset that it can have, `next_offset` the one after its last batch.
    """

    files: PartitionFiles
    pieces: tuple[Piece, ...]
    transactions: Transactions
    start_offset: int
    next_offset: int
    ordered: bool
    """Whether offsets increase, according to the headers."""

    @property
    def stable_offset(self) -> int:
        """The offset after the last one that a read_committed consumer receives."""
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
    """Survey the batch headers of a partition.

    The pieces cover offsets from `start` to `end` (exclusive); damage belongs to the piece of the
    batch after it. `settled`: no transaction that began before `start` is open, so older segments
    are not read. Without `tail`, bytes after the last complete batch are in no piece.
    """
    index = TransactionIndex() if read_committed else None
    surveyor = _Surveyor(files, max_split_bytes, start, end, tail)
    surveyor.run(index, settled or not read_committed)
    transactions = Transactions() if index is None else index.settled()
    # The name of a segment is its base offset, the only information in an empty segment.
    first, last = (files.segments[place].base_offset if files.segments else 0 for place in (0, -1))
    return Surveyed(files, tuple(surveyor.pieces), transactions, first, max(surveyor.following, last), surveyor.ordered)


class _Surveyor:
    """Finds the pieces of a partition."""

    def __init__(
        self, files: PartitionFiles, max_split_bytes: int, start: int | None, end: int | None, tail: bool
    ) -> None:
        self.files = files
        self.max_split_bytes = max_split_bytes
        self.start = -1 if start is None else start
        self.end = end
        self.tail = tail
        self.pieces: list[Piece] = []
        self.following = 0
        """The offset after the last batch of the survey."""
        self.next_offset = 0
        """The offset after the last batch in a piece."""
        self.whole = self.wanted = 0
        """End positions of the last complete batch in the segment, and of the last before `end`."""
        self.beyond = False
        """Whether batches follow after `end`."""
        self.open: Piece | None = None
        """The piece that gets the next batches; `None` before `start`."""
        self.transactions: TransactionIndex | None = None
        self.newest_ms = -1
        """The latest time in the open piece so far."""
        self.ordered = True
        self.seen = self.step = 0
        self.filled = False
        """Whether the open piece has a batch."""

    def run(self, transactions: TransactionIndex | None, skipping: bool) -> None:
        """Survey the segments; `skipping` omits those before `start`.

        Adds all batches to `transactions`.
        """
        self.transactions = transactions
        segments = self.files.segments
        for index, segment in enumerate(segments):
            following = segments[index + 1].base_offset if index + 1 < len(segments) else None
            before = following is not None and following <= self.start
            if before and skipping:
                continue
            self.whole, self.wanted, self.beyond, self.filled = 0, 0, False, False
            parts = max(-(-segment.size_bytes // self.max_split_bytes), 1)
            self.step = max(-(-segment.size_bytes // parts), 1)  # parts of equal size
            self.open, self.newest_ms = None if before else self._piece(segment, 0, segment.base_offset), -1
            try:
                with segment.path.open("rb", buffering=0) as file:
                    for block in blocks_in(file, segment, resynchronise=True):
                        if not isinstance(block, BatchProblem):  # reported when its records are read
                            self._batches(*block, segment)
            except OSError:
                self.whole, self.newest_ms = segment.size_bytes, FOR_EVER  # reported by the task that reads it
            if self.beyond:
                self._close(self.wanted)
            else:
                self._close(self.whole if following is None and not self.tail else segment.size_bytes)
            self.next_offset = self.following

    def _batches(self, batches: Batches, position: int, segment: Segment) -> None:
        following = _next_offsets(batches)
        self.ordered &= bool((batches.base_offset >= np.append(self.seen, following[:-1])).all())
        self.seen = int(following[-1])
        if self.open is not None:
            self._cut(batches, following, segment, position)
        self.following = self._next_offset(batches, following, len(batches))
        self.whole = position + int(batches.end[-1])
        if self.transactions is not None:
            index_block(self.transactions, batches)

    def _next_offset(self, batches: Batches, following: Ints, count: int) -> int:
        """Return the offset after the first `count` batches of a block, ignoring damaged ones."""
        for index in range(count - 1, -1, -1):
            if check(batches.block, int(batches.start[index]), int(batches.end[index]), 0) is None:
                return int(following[index])
        return self.following

    def _cut(self, batches: Batches, following: Ints, segment: Segment, position: int) -> None:
        """Skip to `start`, and split between batches where a piece is large enough.

        An undetected damaged offset must not exclude the batches around it. It may include too many
        batches, as their records are checked later.
        """
        assert self.open is not None
        starts, ends = batches.start, batches.end
        first = 0
        if not self.filled:
            later = following > self.start
            first = int(np.argmax(later)) if bool(later.any()) else len(starts)
            if first:
                self.next_offset = self._next_offset(batches, following, first)
                self.open = self._piece(segment, position + int(ends[first - 1]), self.next_offset)
        inside = np.arange(len(starts)) if self.end is None else np.flatnonzero(batches.base_offset < self.end)
        last = int(inside[-1]) + 1 if len(inside) else 0
        least = first if self.filled else first + 1
        if first < last:
            self.filled = True
            self.wanted = position + int(ends[last - 1])
        self.beyond |= last < len(starts)
        # Older message formats have no maximum timestamp in the header.
        times = np.where(batches.plain, batches.max_timestamp, FOR_EVER)
        begun = first
        while True:
            large = int(np.searchsorted(starts, self.open.begin + self.step - position))
            index = max(large, least)
            if index >= last:
                break
            self.next_offset = self._next_offset(batches, following, index)
            self.newest_ms = int(times[begun:index].max(initial=self.newest_ms))
            self._close(position + int(starts[index]))
            self.open = self._piece(segment, position + int(starts[index]), self.next_offset)
            begun, least, self.newest_ms = index, index + 1, -1
        self.newest_ms = int(times[begun:last].max(initial=self.newest_ms))
        self.next_offset = self._next_offset(batches, following, last)

    def _piece(self, segment: Segment, begin: int, offset: int) -> Piece:
        """Return a piece from byte `begin` on, at or before the batch with `offset`."""
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
        """End the open piece, if any, at this byte."""
        if self.open is not None and end > self.open.begin:
            next_offset = max(self.next_offset, self.open.first_offset)
            self.pieces.append(replace(self.open, end=end, next_offset=next_offset, newest_ms=self.newest_ms))


def _next_offsets(batches: Batches) -> Ints:
    """Return the offset after each batch, limited to the largest int64."""
    last = np.maximum(batches.last_offsets(), batches.base_offset)
    return np.minimum(last, FOR_EVER - 1) + 1

"""Read a segment block by block: whole batches with their headers as arrays, and problems.

Columns, raw blocks, log surveys and transaction outcomes use it. Problems are those of
`quorate.codecs.batches.frames`. CRCs are not checked here.
"""

from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import BinaryIO, Final, cast

import numpy as np

from quorate.codecs.batches.control import ABORT, COMMIT
from quorate.codecs.batches.frames import MAX_BATCH_BYTES, begins_with_no_batch, frames
from quorate.codecs.batches.model import BatchProblem
from quorate.codecs.batches.v2 import COMPRESSION_MASK, CONTROL, HEADER_BYTES, TRANSACTIONAL, compression_of
from quorate.codecs.columnar.frame import Ints
from quorate.codecs.log.batch_starts import batch_starts
from quorate.codecs.log.blocks import Batches, computed_crcs, headers_of
from quorate.codecs.log.files import PartitionFiles, Segment
from quorate.codecs.log.transactions import TransactionIndex, Transactions, commits

BLOCK_BYTES: Final = 4 << 20
"""Larger blocks have larger arrays, whose memory malloc returns to the system after each block.

With 16 MB, columns of commits take 1.2 to 1.3 times the CPU, with 2 MB those of many types; the
headers alone take three times as long with 16 MB (2026-11-27).
"""


def blocks_in(
    file: BinaryIO,
    segment: Segment,
    *,
    limit_bytes: int = MAX_BATCH_BYTES,
    block_bytes: int = BLOCK_BYTES,
    resynchronise: bool,
) -> Iterator[tuple[Batches, int] | BatchProblem]:
    """Yield the batches of a segment, with the position of their block in the file.

    Bytes that cannot be a batch are yielded as a problem, which comes last. With `resynchronise`,
    blocks continue after it, as in `frames`.
    """
    stop = segment.size_bytes if segment.end is None else segment.end
    position = segment.begin  # of the block's first byte in the file
    rest = b""  # of the last block: it is read again, which is faster than adding to it
    while True:
        file.seek(position)
        block = file.read(max(min(_wanted(rest, block_bytes), stop - position), 0))
        more = len(block) > len(rest)
        no_batch = position == 0 and begins_with_no_batch(block)
        starts, end = (np.empty(0, np.int64), 0) if no_batch else batch_starts(block, limit_bytes)
        if len(starts):
            yield headers_of(block, starts, end), position
        rest = block[end:]
        position += end
        if not rest and position >= stop:
            return
        if no_batch or not _continues(rest, stop - position, limit_bytes) or not more:
            problem = _problem_at(file, rest, segment, position, limit_bytes, resynchronise)
            if problem is None:
                return
            yield problem
            resumed = problem.position + problem.size_bytes
            if not resynchronise or resumed >= stop:
                return
            position, rest = resumed, b""


def _wanted(rest: bytes, block_bytes: int) -> int:
    """Return how many bytes to read: a block, or all of a batch that is larger."""
    if len(rest) < 12:
        return max(block_bytes, len(rest) + 1)
    return max(block_bytes, 12 + int.from_bytes(rest[8:12], "big", signed=True))


def _continues(block: bytes, left: int, limit_bytes: int) -> bool:
    """Whether the next batch is cut off only by the end of the block."""
    if len(block) < 17:
        return left > len(block)
    size = 12 + int.from_bytes(block[8:12], "big", signed=True)
    return 26 <= size <= min(left, limit_bytes)


def _problem_at(
    file: BinaryIO, block: bytes, segment: Segment, position: int, limit_bytes: int, resynchronise: bool
) -> BatchProblem | None:
    """Return the problem of the single-batch reader at `position`; `None` before zeros."""
    rest = cast(BinaryIO, _UnreadBytes(block, file))
    found = next(
        frames(rest, segment.size_bytes, max_batch_bytes=limit_bytes, position=position, resynchronise=resynchronise),
        None,
    )
    # A readable batch would have been read, unless `end` is within it.
    return found if isinstance(found, BatchProblem) else None


class _UnreadBytes:
    """Bytes already read from a file, then the rest of the file."""

    def __init__(self, block: bytes, file: BinaryIO) -> None:
        self.block = BytesIO(block)
        self.file = file

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, fewer only at the end."""
        first = self.block.read(size)
        return first if len(first) == size else first + self.file.read(size - len(first))


# ---- transactions


def transactions_in(
    files: PartitionFiles, *, skip_corrupt: bool, limit_bytes: int = MAX_BATCH_BYTES, block_bytes: int = BLOCK_BYTES
) -> Transactions:
    """Return the outcome of every transaction of a partition, from its batch headers."""
    index = TransactionIndex()
    for segment in files.segments:
        with suppress(OSError), segment.path.open("rb", buffering=0) as file:  # reported when its records are read
            for block in blocks_in(
                file, segment, limit_bytes=limit_bytes, block_bytes=block_bytes, resynchronise=skip_corrupt
            ):
                if not isinstance(block, BatchProblem):
                    index_block(index, block[0], limit_bytes)
    return index.settled()


_DATA: Final = -1
_NONE: Final = -2
"""Kinds next to the marker types: batches with records, and batches without effect."""

_KEY_AT: Final = HEADER_BYTES + 4
"""Where the length of the key is in a marker's only record.

The record's length, attributes, timestamp delta and offset delta take a byte each.
"""


def index_block(index: TransactionIndex, batches: Batches, limit_bytes: int = MAX_BATCH_BYTES) -> None:
    """Add the batches of a block. Blocks are added in the order of the log."""
    which = np.flatnonzero(batches.plain & (batches.attributes & TRANSACTIONAL != 0))
    if not len(which):
        return
    control = batches.attributes[which] & CONTROL != 0
    kinds = np.where(batches.count[which] > 0, _DATA, _NONE).astype(np.int64)
    if bool(control.any()):
        kinds[control] = _markers(batches, which[control], limit_bytes)
    which, kinds = which[kinds != _NONE], kinds[kinds != _NONE]
    # Of consecutive batches of one producer only the first matters, and producers are independent.
    order = np.argsort(batches.producer_id[which], kind="stable")
    which, kinds = which[order], kinds[order]
    producers = batches.producer_id[which]
    again = (kinds[1:] == _DATA) & (kinds[:-1] == _DATA) & (producers[1:] == producers[:-1])
    first = np.flatnonzero(np.append(True, ~again)) if len(which) else which
    rows = zip(
        producers[first].tolist(), batches.base_offset[which[first]].tolist(), kinds[first].tolist(), strict=True
    )
    for producer_id, base_offset, kind in rows:
        if kind == _DATA:
            index.add_data(producer_id, base_offset, 1)
        else:
            index.add_marker(producer_id, base_offset, kind == COMMIT)


def _markers(batches: Batches, which: Ints, limit_bytes: int) -> Ints:
    """Return the marker types of control batches; `_NONE` for damaged and other batches."""
    data = np.frombuffer(batches.block, np.uint8)
    start, end = batches.start[which], batches.end[which]
    at = np.minimum(start + _KEY_AT, len(data) - 5)
    small = (data[at - 4] | data[at - 2] | data[at - 1]) < 0x80
    usual = small & (data[at] == 8) & (batches.count[which] == 1) & (end - start >= _KEY_AT + 5)
    usual &= batches.attributes[which] & COMPRESSION_MASK == 0
    kind = data[at + 3].astype(np.int64) << 8 | data[at + 4]
    found = np.where((kind == ABORT) | (kind == COMMIT), kind, _NONE)
    for place in np.flatnonzero(~usual).tolist():
        name, count = compression_of(int(batches.attributes[which[place]])), int(batches.count[which[place]])
        outcome = commits(batches.block, int(start[place]), int(end[place]), name, count, limit_bytes)
        found[place] = _NONE if outcome is None else COMMIT if outcome else ABORT
    damaged = (batches.base_offset[which] < 0) | (computed_crcs(batches.block, start, end) != batches.crc[which])
    return np.where(damaged, _NONE, found)

"""The outcome of the transactions of a partition (KIP-98), from its batches.

A broker reports to a consumer which transactions were aborted and how far it may read. In a log
file the markers have the same information. The index is filled by `scan` (batch by batch),
`block_reader.index_block` (a block of batches at once) and compaction.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field

import google_crc32c

from quorate.codecs.batches.compression import DecompressionError, TooLargeError
from quorate.codecs.batches.control import control_record
from quorate.codecs.batches.frames import MAX_BATCH_BYTES, Frame
from quorate.codecs.batches.model import BatchProblem
from quorate.codecs.batches.reader import Batch, payload
from quorate.codecs.batches.v2 import (
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    TRANSACTIONAL,
    BadRecordsError,
    compression_of,
    records,
)
from quorate.codecs.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Transactions:
    """The outcome of every transaction in a partition.

    `aborted` has, by producer id, the offsets of the first record and of the marker of each aborted
    transaction, in order. `last_stable_offset` is the first offset of the first transaction without
    a marker, `None` if there is none.
    """

    aborted: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    last_stable_offset: int | None = None

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """Whether a transactional batch at this offset belongs to an aborted transaction."""
        spans = self.aborted.get(producer_id)
        if not spans:
            return False
        index = bisect_right(spans, offset, key=lambda span: span[0]) - 1
        return index >= 0 and offset < spans[index][1]


class TransactionIndex:
    """The transactions of a partition, from its transactional batches in the order of the log.

    A producer's first batch with records opens a transaction; the next COMMIT or ABORT marker ends
    it. A batch that compaction emptied opens none, because its marker may be removed already. An
    unreadable marker ends none, so the transaction stays open.
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._aborted: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def add_data(self, producer_id: int, base_offset: int, count: int) -> None:
        """Add a batch of `count` records."""
        if count > 0:
            self._open.setdefault(producer_id, base_offset)

    def add_marker(self, producer_id: int, base_offset: int, commit: bool | None) -> None:
        """Add a control batch; `commit` is what `commits` returns for it."""
        if commit is None:
            return
        first = self._open.pop(producer_id, None)
        if first is not None and not commit:
            self._aborted[producer_id].append((first, base_offset))

    def add(self, batch: Batch) -> None:
        """Add a batch whose CRC is valid, transactional or not."""
        header = batch.header
        if not header.transactional:
            return
        count = header.count or 0
        if not header.control:
            self.add_data(header.producer_id, header.base_offset, count)
            return
        outcome = commits(batch.data, 0, len(batch.data), header.compression, count, batch.max_batch_bytes)
        self.add_marker(header.producer_id, header.base_offset, outcome)

    def settled(self) -> Transactions:
        """Return the outcomes so far."""
        return Transactions(dict(self._aborted), min(self._open.values(), default=None))


def scan(frames: Iterable[Frame | BatchProblem], max_batch_bytes: int = MAX_BATCH_BYTES) -> Transactions:
    """Index all batches of a partition by their headers. Only markers are checked and decoded."""
    index = TransactionIndex()
    unpack = HEADER.unpack_from
    for frame in frames:
        if isinstance(frame, BatchProblem):
            continue
        buffer, start, end, _ = frame
        if buffer[start + 16] != 2 or end - start < HEADER_BYTES or not buffer[start + 22] & TRANSACTIONAL:
            continue
        base_offset, _, _, _, crc, attributes, _, _, _, producer_id, _, _, count = unpack(buffer, start)
        if not attributes & CONTROL:
            index.add_data(producer_id, base_offset, count)
        elif base_offset >= 0 and google_crc32c.value(buffer[start + CRC_START : end]) == crc:
            outcome = commits(buffer, start, end, compression_of(attributes), count, max_batch_bytes)
            index.add_marker(producer_id, base_offset, outcome)
    return index.settled()


def commits(buffer: bytes, start: int, end: int, compression: str, count: int, limit_bytes: int) -> bool | None:
    """Whether a control batch commits its transaction (else aborts it), by its first record.

    `None` if it is not a marker, or cannot be read.
    """
    try:
        body, first, last = payload(buffer, start, end, compression, count, limit_bytes)
        for _, _, key, value, _ in records(body, first, last, count):
            return control_record(key, value).commits
    except (BadRecordsError, DecompressionError, TooLargeError):
        return None  # reported when the records are read
    return None

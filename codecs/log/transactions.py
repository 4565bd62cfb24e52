"""Which batches of a partition a read-committed consumer gets (KIP-98), found by a first pass over the batch headers.

A consumer is told by the broker which transactions were aborted and how far it may read. A log file tells the same by its markers.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import google_crc32c

from quorate.codecs.batches.compression import DecompressionError, TooLargeError
from quorate.codecs.batches.control import ABORT, COMMIT, control_record
from quorate.codecs.batches.frames import Frame
from quorate.codecs.batches.model import BatchProblem
from quorate.codecs.batches.reader import payload
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

__all__ = ["Transactions", "outcome_of", "scan"]


@dataclass(frozen=True, slots=True)
class Transactions:
    """The outcome of every transaction in a partition.

    `aborted` has, by producer id, the offsets of the first record and of the marker of each aborted transaction, in order.
    `last_stable_offset` is where the first transaction begins that has no marker yet, `None` if there is no such.
    """

    aborted: dict[int, list[tuple[int, int]]]
    last_stable_offset: int | None

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """Whether a transactional batch of this producer at this offset belongs to an aborted transaction."""
        spans = self.aborted.get(producer_id)
        if not spans:
            return False
        index = bisect_right(spans, offset, key=lambda span: span[0]) - 1
        return index >= 0 and offset < spans[index][1]


def scan(frames: Iterable[Frame | BatchProblem], max_batch_bytes: int) -> Transactions:
    """Go over all batches of a partition and settle its transactions.

    Only markers are checked and decoded. One that is damaged does not count, so its transaction stays open. A transactional batch that
    compaction emptied opens none: its marker may be gone already, and there is nothing to hold back.
    """
    opened: dict[int, int] = {}
    aborted: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    unpack = HEADER.unpack_from
    for frame in frames:
        if isinstance(frame, BatchProblem):
            continue
        buffer, start, end, _ = frame
        if buffer[start + 16] != 2 or end - start < HEADER_BYTES or not buffer[start + 22] & TRANSACTIONAL:
            continue
        base_offset, _, _, _, crc, attributes, _, _, _, producer_id, _, _, count = unpack(buffer, start)
        if not attributes & CONTROL:
            if count > 0:
                opened.setdefault(producer_id, base_offset)
        elif google_crc32c.value(buffer[start + CRC_START : end]) == crc:
            outcome = outcome_of(buffer, start, end, compression_of(attributes), count, max_batch_bytes)
            first = opened.pop(producer_id, None) if outcome in (ABORT, COMMIT) else None
            if first is not None and outcome == ABORT:
                aborted[producer_id].append((first, base_offset))
    return Transactions(dict(aborted), min(opened.values(), default=None))


def outcome_of(buffer: bytes, start: int, end: int, compression: str, count: int, limit_bytes: int) -> int | None:
    """The type of the first record in a control batch; a batch has one marker."""
    try:
        body, first, last = payload(buffer, start, end, compression, count, limit_bytes)
        for _, _, key, value, _ in records(body, first, last, count):
            return control_record(key, value).type_id
    except (BadRecordsError, DecompressionError, TooLargeError):
        return None  # the main pass reports it
    return None

"""How the transactions of a partition ended, from the headers of their batches: what `quorate.codecs.log.transactions.scan` says, without a loop over batches."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from quorate.codecs.batches.control import ABORT, COMMIT
from quorate.codecs.batches.frames import MAX_BATCH_BYTES
from quorate.codecs.batches.v2 import COMPRESSION_MASK, CONTROL, HEADER_BYTES, TRANSACTIONAL, compression_of
from quorate.codecs.columnar.frame import Array, Ints
from quorate.codecs.log.blocks import Batches, crc_mismatches
from quorate.codecs.log.transactions import Transactions, outcome_of

__all__ = ["Settling"]

_DATA: Final = -1
_NONE: Final = -2
"""Beside the outcomes of markers: batches with records, and what says nothing."""

_KEY_AT: Final = HEADER_BYTES + 4
"""Of the only record of a marker the length, attributes, and deltas of time and offset take a byte each, and then there is the length of the key."""


@dataclass(slots=True)
class Settling:
    """Transactional batches in the order of the log: producer, offset, and whether it is data or how the transaction ends."""

    producers: list[Ints] = field(default_factory=list)
    offsets: list[Ints] = field(default_factory=list)
    kinds: list[Array] = field(default_factory=list)

    def add(self, batches: Batches) -> None:
        """The batches of a block, which follow each other without gaps."""
        which = np.flatnonzero(batches.plain & (batches.attributes & TRANSACTIONAL != 0))
        if not len(which):
            return
        control = batches.attributes[which] & CONTROL != 0
        kinds = np.where(batches.count[which] > 0, _DATA, _NONE).astype(np.int64)
        if bool(control.any()):
            kinds[control] = _outcomes(batches, which[control])
        told = np.flatnonzero(kinds != _NONE)
        self.producers.append(batches.producer_id[which[told]])
        self.offsets.append(batches.base_offset[which[told]])
        self.kinds.append(kinds[told])

    def settled(self) -> Transactions:
        """The outcomes."""
        if not self.kinds:
            return Transactions({}, None)
        producer, offset, kind = (np.concatenate(found) for found in (self.producers, self.offsets, self.kinds))
        order = np.argsort(producer, kind="stable")
        producer, offset, kind = producer[order], offset[order], kind[order]
        count = len(kind)
        places = np.arange(count)
        data = np.where(kind == _DATA, places, count)
        # The first batch with records at each place or behind it; and where the batches of each producer begin.
        following = np.append(np.minimum.accumulate(data[::-1])[::-1], count)
        begins = np.flatnonzero(np.append(True, producer[1:] != producer[:-1]))
        begin_of = np.repeat(begins, np.diff(np.append(begins, count)))
        markers = np.flatnonzero(kind != _DATA)
        # What a marker ends began behind the marker before it, or where the producer did.
        before = np.append(-1, markers[:-1]) if len(markers) else markers
        first = following[np.maximum(before + 1, begin_of[markers])]
        aborted: dict[int, list[tuple[int, int]]] = {}
        for index in np.flatnonzero((first < markers) & (kind[markers] == ABORT)).tolist():
            span = int(offset[first[index]]), int(offset[markers[index]])
            aborted.setdefault(int(producer[markers[index]]), []).append(span)
        ends = np.append(begins[1:], count)
        last = np.maximum.accumulate(np.where(kind == _DATA, -1, places))[ends - 1]
        rest = following[np.maximum(last + 1, begins)]
        still = rest < ends
        return Transactions(aborted, int(offset[rest[still]].min()) if bool(still.any()) else None)


def _outcomes(batches: Batches, which: Ints) -> Ints:
    """How each of these control batches ends its transaction. What is damaged says nothing."""
    data = np.frombuffer(batches.block, np.uint8)
    start, end = batches.start[which], batches.end[which]
    at = np.minimum(start + _KEY_AT, len(data) - 5)
    small = (data[at - 4] | data[at - 2] | data[at - 1]) < 0x80
    usual = small & (data[at] == 8) & (batches.count[which] == 1) & (end - start >= _KEY_AT + 5)
    usual &= batches.attributes[which] & COMPRESSION_MASK == 0
    kind = data[at + 3].astype(np.int64) << 8 | data[at + 4]
    found = np.where((kind == ABORT) | (kind == COMMIT), kind, _NONE)
    for index in np.flatnonzero(~usual).tolist():
        name, records = compression_of(int(batches.attributes[which[index]])), int(batches.count[which[index]])
        outcome = outcome_of(batches.block, int(start[index]), int(end[index]), name, records, MAX_BATCH_BYTES)
        found[index] = outcome if outcome in (ABORT, COMMIT) else _NONE
    damaged = np.isin(which, crc_mismatches(batches))
    return np.where(damaged, _NONE, found)

"""Batches that were read for a share fetch: their offsets, and which of them were aborted."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quorate.codecs.batches.control import ABORT, control_record
from quorate.codecs.batches.v2 import CONTROL, HEADER, HEADER_BYTES, LOG_OVERHEAD, TRANSACTIONAL, read_record
from quorate.codecs.lazy_dataclass import dataclass


class FetchedBatch(NamedTuple):
    """A batch. `position`, `size`: in the fetched bytes. `aborts`: it is an abort marker."""

    base_offset: int
    last_offset: int
    position: int = 0
    size: int = 0
    producer_id: int = -1
    transactional: bool = False
    aborts: bool = False


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """Whole batches from a log.

    `aborted`: producer id and first offset of the aborted transactions among them; empty if the
    group reads uncommitted records.
    """

    data: bytes
    batches: Sequence[FetchedBatch]
    aborted: Sequence[tuple[int, int]] = ()

    @classmethod
    def of(cls, data: bytes, aborted: Sequence[tuple[int, int]] = ()) -> "FetchedRecords":
        """Read the headers of the batches in `data`."""
        return FetchedRecords(data, tuple(_batches(data, with_markers=bool(aborted))), aborted)

    def aborted_batches(self) -> list[FetchedBatch]:
        """Return the batches of aborted transactions, without markers.

        As a read-committed consumer decides: a transaction aborts from its first offset until its
        abort marker.
        """
        found: list[FetchedBatch] = []
        pending = sorted(self.aborted, key=lambda one: one[1], reverse=True)
        producers: set[int] = set()
        for batch in self.batches:
            if batch.producer_id < 0:
                continue
            while pending and pending[-1][1] <= batch.last_offset:
                producers.add(pending.pop()[0])
            if batch.aborts:
                producers.discard(batch.producer_id)
            elif batch.transactional and batch.producer_id in producers:
                found.append(batch)
        return found

    def slice(self, first: int, last: int) -> bytes:
        """Return the bytes of the batches that contain acquired offsets, from `first` to `last`."""
        if len(self.batches) == 1:
            return self.data
        begin = end = 0
        for batch in self.batches:
            if batch.base_offset > last and end:
                break
            if batch.base_offset <= first:
                begin = batch.position
            end = batch.position + batch.size
        return self.data[begin:end]


def _batches(data: bytes, *, with_markers: bool) -> Iterable[FetchedBatch]:
    position = 0
    while position < len(data):
        base, length, _, _, _, attributes, last_delta, _, _, producer, _, _, count = HEADER.unpack_from(data, position)
        size = LOG_OVERHEAD + length
        aborts = False
        if with_markers and attributes & CONTROL and count > 0:
            key = read_record(data, position + HEADER_BYTES, position + size)[3]
            aborts = control_record(key, None).type_id == ABORT
        yield FetchedBatch(base, base + last_delta, position, size, producer, attributes & TRANSACTIONAL != 0, aborts)
        position += size
